import Foundation
import OwnedOperations

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Sends requests that belong to an owner. When the owner ends, they stop, and their handlers never run.
///
/// ```swift
/// final class Screen: OperationOwner, Sendable {
///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
///   func show(_ text: String) {}
/// }
///
/// let client = RequestClient(baseURL: URL(string: "https://example.com"))
/// let screen = Screen()
/// client.send(Request(.get, "news"), owner: screen, decoding: .string) { screen, result in
///   if case .success(let response) = result { screen.show(response.value) }
/// }
/// ```
///
/// What no object's end should stop, such as a report or a refreshed token, has the lifetime of the process:
///
/// ```swift
/// let client = RequestClient(baseURL: URL(string: "https://example.com"))
/// let report = Request(.post, "reports", parameters: .json(["launched": 1]))
/// client.send(report, lifetime: .process, decoding: .empty) { result in
///   if case .failure(let error) = result { print("not reported: \(error)") }
/// }
/// ```
///
/// Requests under way hold the client; nothing else has to. A request takes no thread while it waits, for its turn, for the server, or
/// for its next attempt. All members may be used from any thread.
///
/// A process needs few clients, such as one for each service. Each has a session of its own, and on Linux up to two threads while its
/// requests begin, end or are cancelled.
///
/// On Linux, `URLSession` stops the process on a few answers. Five are known, in Swift 6.3:
/// - a connection that is closed in the middle of a header, as by `printf 'HTTP/1.1 200 OK\r\nContent-Le' | nc -l -N 8080`
/// - a length of nearly 2^63 bytes, as by `printf 'HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n' | nc -l -N 8080`
/// - a line after a chunked body, a trailer, which is nothing wrong with an answer: as by
///   `printf 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n' | nc -l -N 8080`
/// - a redirect without a scheme, to a host with brackets or escapes: as by
///   `printf 'HTTP/1.1 302 Found\r\nLocation: //[::1]/\r\nContent-Length: 0\r\n\r\n' | nc -l -N 8080`
/// - any end of an upload from a file, such as its owner's, at the moment when the session waits for more of the file. The slower the disk
///   next to the network, the likelier; in tests on loopback it was seen under ThreadSanitizer only.
///
/// And while a server sends lines without end after a chunked body, no session of the process does anything else. Talk to servers that you
/// don't trust from a process that you can spare.
public final class RequestClient: Sendable {
  /// What relative URLs are relative to; see ``Request/url``.
  public let baseURL: URL?
  /// Where handlers run, unless they are given another queue.
  public let queue: OwnerScopedQueue

  /// Where answers are kept for requests whose ``Request/cache`` asks for it.
  public let cache: ResponseCache?

  let hub: TransferHub
  let downloadSessions: DownloadSessions
  /// Starts the requests that are sent at once. Without a limit: those of the hosts are what holds requests back.
  let starts = OwnerScopedQueue(name: "OwnedRequests.starts")
  /// What the configuration has every request say, and whose cookies go along with it.
  private let additionalHeaders: [String: String]
  private let cookies: HTTPCookieStorage?
  private let storedInterceptors = Guarded<[any RequestInterceptor]>([])
  private let registry = Guarded<[OwnerID: [ObjectIdentifier: WeakRequest]]>([:])

  private struct WeakRequest { weak var request: (any RegisteredRequest)? }

  /// Makes a client.
  /// - Parameters:
  ///   - baseURL: what relative URLs are relative to.
  ///   - queue: where handlers run by default.
  ///   - configuration: of the `URLSession` underneath. Its cache, limits of time and of connections are not used: ours are. Its additional
  ///     headers are added to each request that has none of the name. They, and its cookies, count as what the request itself says.
  ///   - cache: may be shared by several clients.
  public init(
    baseURL: URL? = nil, queue: OwnerScopedQueue = OwnerScopedQueue(name: "OwnedRequests.handlers"),
    configuration: URLSessionConfiguration = .default,
    cache: ResponseCache? = nil
  ) {
    self.baseURL = baseURL
    self.queue = queue
    self.cache = cache
    var headers: [String: String] = [:]
    for (name, value) in configuration.httpAdditionalHeaders ?? [:] {
      if let name = name as? String { headers[name] = "\(value)" }
    }
    additionalHeaders = headers
    cookies = configuration.httpShouldSetCookies ? configuration.httpCookieStorage : nil
    downloadSessions = DownloadSessions(configuration: configuration)
    hub = TransferHub(session: TransferSession(configuration: configuration), limits: HostLimits(limit: 6))
  }

  // MARK: What is sent

  /// The request with what the configuration adds, before interceptors have seen it.
  func prepare(_ request: Request) throws(RequestError) -> PreparedRequest {
    var prepared = try request.prepare(relativeTo: baseURL)
    guard !additionalHeaders.isEmpty else { return prepared }
    for (name, value) in additionalHeaders where prepared.urlRequest.value(forHTTPHeaderField: name) == nil {
      if let complaint = HeaderFields.complaint(about: name, value: value) { throw .invalidParameters(complaint) }
      prepared.urlRequest.setValue(value, forHTTPHeaderField: name)
    }
    return prepared
  }

  /// The cookies that will go along with a request. They say who asks, as what is in the request itself does.
  func cookies(for outgoing: Outgoing) -> String? { outgoing.urlRequest.url.flatMap { cookies(for: $0) } }

  /// The cookies that go along with a request to this address, sorted; nil if there are none.
  func cookies(for url: URL) -> String? {
    guard let found = cookies?.cookies(for: url), !found.isEmpty else { return nil }
    return found.map { "\($0.name)=\($0.value)" }.sorted().joined(separator: "; ")
  }

  // MARK: Settings

  /// How many transfers go to one host (scheme, name and port) at once. By default 6. Less than one is a precondition failure.
  ///
  /// Other clients don't count, nor other hosts. To limit what is under way in all, add operations to a queue
  /// (``operation(for:lifetime:decoding:)``).
  public var maxConcurrentRequestsPerHost: Int {
    get { hub.limits.limit }
    set {
      precondition(newValue > 0, "maxConcurrentRequestsPerHost is \(newValue); at least one request has to go to a host at once")
      hub.limits.limit = newValue
    }
  }

  /// Asked in this order before each attempt and after each failure.
  public var interceptors: [any RequestInterceptor] {
    get { storedInterceptors.withLock { $0 } }
    set {
      var former = newValue
      storedInterceptors.withLock { swap(&former, &$0) }
    }
  }

  // MARK: Operations

  /// Makes an operation for a graph of dependencies: nothing is sent until a queue starts it.
  ///
  /// For a chain, let one depend on the other and set `dependencyPolicy` to `.requireSuccess`.
  public func operation<Value>(
    for request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>
  ) -> RequestOperation<Value> {
    RequestOperation(request, client: self, lifetime: lifetime, decoding: decoder)
  }

  /// Makes an operation for an owner that holds a token. Nothing is sent until a queue starts it.
  public func operation<Value>(
    for request: Request, owner: some OperationOwner, decoding decoder: ResponseDecoder<Value>
  ) -> RequestOperation<Value> {
    operation(for: request, lifetime: owner.lifetimeToken.lifetime, decoding: decoder)
  }

  // MARK: Handlers

  /// Sends a request, and has the handler told what came of it. It is called once, with the owner, whatever the outcome (twice with
  /// ``CachePolicy/cachedThenFresh``). If the owner ends first the transfer stops, and the handler never runs and is released. Nothing else
  /// takes the call away: if all that its queue has is cancelled, the call is added there anew.
  /// - Parameters:
  ///   - request: what to ask for.
  ///   - owner: held weakly until the handler runs, strongly while it does.
  ///   - decoder: makes the value of what the server has sent.
  ///   - callbackQueue: where the handler runs, as a job of the owner; by default ``queue``.
  ///   - handler: gets the owner and what came of the request.
  /// - Returns: the operation, for its progress and to cancel it.
  @discardableResult
  public func send<Owner: OperationOwner & Sendable, Value>(
    _ request: Request, owner: Owner, decoding decoder: ResponseDecoder<Value>, on callbackQueue: OwnerScopedQueue? = nil,
    then handler: @escaping @Sendable (Owner, Result<Response<Value>, RequestError>) -> Void
  ) -> RequestOperation<Value> {
    send(request, UnheldOwner(owner, owner.lifetimeToken.lifetime), owner.lifetimeToken.lifetime, decoder, on: callbackQueue, handler)
  }

  /// Sends a request for any object; see `OwnerLifetime.of(_:)`.
  @_disfavoredOverload @discardableResult
  public func send<Owner: AnyObject & Sendable, Value>(
    _ request: Request, owner: Owner, decoding decoder: ResponseDecoder<Value>, on callbackQueue: OwnerScopedQueue? = nil,
    then handler: @escaping @Sendable (Owner, Result<Response<Value>, RequestError>) -> Void
  ) -> RequestOperation<Value> {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return send(request, UnheldOwner(owner, lifetime), lifetime, decoder, on: callbackQueue, handler)
  }

  /// Sends a request for a lifetime, whose end stops it. Then the handler never runs.
  @discardableResult
  public func send<Value>(
    _ request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>, on callbackQueue: OwnerScopedQueue? = nil,
    then handler: @escaping @Sendable (Result<Response<Value>, RequestError>) -> Void
  ) -> RequestOperation<Value> {
    let queue = callbackQueue ?? queue
    let calls = HandlerCalls<Result<Response<Value>, RequestError>>(lifetime: lifetime) { take, whenOver in
      queue.async(lifetime: lifetime) {
        if let result = take() { handler(result) }
        whenOver()
      }
      return true
    }
    return send(request, lifetime, decoder, handler: calls)
  }

  private func send<Owner: AnyObject & Sendable, Value>(
    _ request: Request, _ owner: UnheldOwner<Owner>, _ lifetime: OwnerLifetime, _ decoder: ResponseDecoder<Value>,
    on callbackQueue: OwnerScopedQueue?, _ handler: @escaping @Sendable (Owner, Result<Response<Value>, RequestError>) -> Void
  ) -> RequestOperation<Value> {
    let queue = callbackQueue ?? queue
    let calls = HandlerCalls<Result<Response<Value>, RequestError>>(lifetime: lifetime) { take, whenOver in
      guard owner.isThere else { return false }
      owner.add(to: queue) { owner in
        if let result = take() { handler(owner, result) }
        whenOver()
      }
      return true
    }
    return send(request, lifetime, decoder, handler: calls)
  }

  private func send<Value>(
    _ request: Request, _ lifetime: OwnerLifetime, _ decoder: ResponseDecoder<Value>,
    handler: HandlerCalls<Result<Response<Value>, RequestError>>
  ) -> RequestOperation<Value> {
    let operation = RequestOperation(request, client: self, lifetime: lifetime, decoding: decoder, handler: handler)
    startAtOnce(operation)
    return operation
  }

  func startAtOnce(_ operation: OwnedOperation) { starts.addOperation(operation) }

  // MARK: Tasks

  /// Sends a request and returns the response. Cancelling the task cancels the request.
  ///
  /// The caller holds the owner meanwhile. Where the owner should be free to go, hand over its lifetime instead.
  /// - Throws: ``RequestError``.
  public func response<Value>(
    to request: Request, owner: some OperationOwner, decoding decoder: ResponseDecoder<Value>
  ) async throws -> Response<Value> {
    try await response(to: request, lifetime: owner.lifetimeToken.lifetime, decoding: decoder)
  }

  /// Sends a request and returns the response. Cancelling the task cancels the request, and so does the end of the lifetime.
  /// - Throws: ``RequestError``; its case `cancelled` also if it was the task that was cancelled.
  public func response<Value>(
    to request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>
  ) async throws -> Response<Value> {
    try await response(to: request, lifetime: lifetime, decoding: decoder, in: nil)
  }

  private func response<Value>(
    to request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>, in batch: RequestBatch?
  ) async throws -> Response<Value> {
    if let answer = answerInMemory(to: request, lifetime: lifetime, decoding: decoder) { return answer }
    return try await run(RequestOperation(request, client: self, lifetime: lifetime, decoding: decoder, batch: batch))
  }

  /// Sends a request and returns the response, or throws the error with the headers that the server sent.
  /// `throwing: RequestFailure.self` tells this form from the one that throws ``RequestError``.
  public func response<Value>(
    to request: Request, owner: some OperationOwner, decoding decoder: ResponseDecoder<Value>, throwing failure: RequestFailure.Type
  ) async throws(RequestFailure) -> Response<Value> {
    try await response(to: request, lifetime: owner.lifetimeToken.lifetime, decoding: decoder, throwing: failure)
  }

  /// Sends a request and returns the response, or throws the error with the headers that the server sent.
  /// `throwing: RequestFailure.self` tells this form from the one that throws ``RequestError``.
  public func response<Value>(
    to request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>, throwing failure: RequestFailure.Type
  ) async throws(RequestFailure) -> Response<Value> {
    if let answer = answerInMemory(to: request, lifetime: lifetime, decoding: decoder) { return answer }
    let operation = operation(for: request, lifetime: lifetime, decoding: decoder)
    do { return try await run(operation) } catch {
      throw RequestFailure(error: error as? RequestError ?? .cancelled(.requested), head: operation.head)
    }
  }

  /// What nobody has to be asked for, nor a file to be read. A task gets it without an operation, which would cost it two changes of
  /// threads. Nil in all other cases, errors included, which are the operation's. So is what a decoder of the user's makes of it: there
  /// are only so many threads for tasks as processors.
  private func answerInMemory<Value>(
    to request: Request, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>
  ) -> Response<Value>? {
    guard decoder.isQuick, request.method == .get, cache != nil, case .forTime = request.cache, interceptors.isEmpty,
      let prepared = try? prepare(request),
      let plan = CachePlan(request, Outgoing(urlRequest: prepared.urlRequest, body: prepared.body), self, looksInFiles: false),
      let stored = plan.answer, !Task.isCancelled, lifetime.isAlive, let value = try? decoder.decode(stored.body, stored.head),
      // The decoder may take its time, or end the owner.
      !Task.isCancelled, lifetime.isAlive
    else { return nil }
    return Response(value, stored.head, source: .cache, attempts: 0)
  }

  private func run<Value>(_ operation: RequestOperation<Value>) async throws -> Response<Value> {
    // Nothing is sent for a task that was cancelled before, however soon the answer would be there.
    guard !Task.isCancelled else {
      operation.cancel()
      throw RequestError.cancelled(.requested)
    }
    startAtOnce(operation)
    return try await withTaskCancellationHandler {
      do { return try await operation.value } catch is CancellationError { throw RequestError.cancelled(.requested) }
    } onCancel: {
      CancellationHandler.run { operation.cancel() }
    }
  }

  /// Sends a batch. Returns the responses in the order of the requests, or throws the first failure, which cancels the rest.
  /// - Throws: ``RequestError``.
  /// - Complexity: linear in the requests, and in what is sent and comes.
  public func responses<Value>(
    to requests: [Request], owner: some OperationOwner, decoding decoder: ResponseDecoder<Value>
  ) async throws -> [Response<Value>] {
    try await responses(to: requests, lifetime: owner.lifetimeToken.lifetime, decoding: decoder)
  }

  /// Sends a batch. Returns the responses in the order of the requests, or throws the first failure, which cancels the rest.
  /// - Throws: ``RequestError``.
  /// - Complexity: linear in the requests, and in what is sent and comes.
  public func responses<Value>(
    to requests: [Request], lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>
  ) async throws -> [Response<Value>] {
    let batch = RequestBatch()
    return try await withThrowingTaskGroup(of: (Int, Response<Value>).self) { group in
      // In the group, so that it is called before the group's tasks hear of a cancellation.
      try await withTaskCancellationHandler {
        for (index, request) in requests.enumerated() {
          group.addTask { (index, try await self.response(to: request, lifetime: lifetime, decoding: decoder, in: batch)) }
        }
        var responses = [Response<Value>?](repeating: nil, count: requests.count)
        do {
          for try await (index, response) in group { responses[index] = response }
        } catch {
          batch.end()
          group.cancelAll()  // and waits for them
          throw error
        }
        return responses.compactMap { $0 }
      } onCancel: {
        batch.end()
      }
    }
  }

  // MARK: Cancelling

  /// Cancels the owner's requests that this client has made and that are not over. The owner lives on, and handlers hear of it. Observers
  /// of one that are called here must not wait for another of them.
  /// - Complexity: linear in their number.
  public func cancelRequests(ownedBy lifetime: OwnerLifetime) {
    let requests = registry.withLock { $0[lifetime.id].map { $0.values.compactMap(\.request) } ?? [] }
    // None of them begins because one before it has made room. Others do: observers are called here, and may wait for those.
    for request in requests { request.willBeCancelled() }
    for request in requests { request.cancel() }
  }

  func register(_ request: any RegisteredRequest) {
    let (id, owner) = (ObjectIdentifier(request), request.lifetime.id)
    registry.withLock { $0[owner, default: [:]][id] = WeakRequest(request: request) }
  }

  func unregister(_ id: ObjectIdentifier, of owner: OwnerID) {
    registry.withLock { registry in
      guard registry[owner]?.removeValue(forKey: id) != nil else { return }
      if registry[owner]?.isEmpty == true { registry[owner] = nil }
    }
  }
}

extension RequestClient: CustomReflectable {
  /// Nothing of what is inside, such as addresses with passwords.
  public var customMirror: Mirror { Mirror(self, children: ["baseURL": baseURL.map(AddressText.shown(_:)) as Any]) }
}
