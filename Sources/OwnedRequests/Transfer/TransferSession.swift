import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What a session has handed over and nobody has dealt with.
protocol SessionBacklog: AnyObject, Sendable {
  /// A task is to stop. If the session is for one task, what it hands over from now on is discarded. Any thread; doesn't wait.
  func cancellationBegins()
  /// The session has heard of it. As often as `cancellationBegins`; one call may come before the other.
  func cancellationEnds()
  /// Whether this thread is handing over what is to be discarded.
  var isDiscarding: Bool { get }
  /// Whether what comes from now on is discarded.
  var discards: Bool { get }
  /// - Parameter handler: called when what the session has handed over is not being dealt with; must not wait.
  func whenStalled(_ handler: @escaping @Sendable () -> Void)
  /// Whether what the session hands over is dealt with at once, on the session's own thread. There no task may be made: that waits for
  /// this thread. So what ends a task, which makes room for others, is put into `addLast`.
  var isAtOnce: Bool { get }
  /// Runs the block when all that is not discarded has been dealt with.
  func addLast(_ block: @escaping @Sendable () -> Void)
}

/// A `URLSession` and its delegate. Holds no transfer longer than its task.
///
/// Protocol of cancelling:
/// - `URLSessionTask.cancel()` waits for the work of all sessions of the process (on Linux), and one may be flooded.
/// - So whoever cancels closes the task, has a download's session discard what comes, and goes. Neither waits.
/// - The session hears of it on the queue `cancellations`, one task after the other: one thread, however many they are.
///
/// What `URLSession` would do beyond moving bytes is turned off: redirects, the cache, limits of time and of connections are ours. So are,
/// on Linux, the cookies that answers bring. To send them along stays the session's.
final class TransferSession: Sendable {
  private let session: URLSession
  private let router: TaskRouter
  private let cancellations: Cancellations
  private let backlog: (any SessionBacklog)?

  /// Foundation's timer stays, but never goes off before ours. On Linux the number has to fit an `Int` in milliseconds.
  private static let longestPause: TimeInterval = 7 * 24 * 3600

  /// - Parameter isBacklogLimited: whether nothing more is read when so many pieces have not been dealt with yet. For a session with one
  ///   task at a time.
  init(configuration: URLSessionConfiguration, isBacklogLimited: Bool = false) {
    let queue = SessionPlatform.makeDelegateQueue(isLimited: isBacklogLimited)
    let takesCookies = SessionPlatform.looksForCookiesSlowly && configuration.httpCookieAcceptPolicy != .never
    let router = TaskRouter(queue, cookies: takesCookies ? configuration.httpCookieStorage : nil)
    backlog = queue
    self.router = router
    cancellations = Cancellations(queue)
    queue?.whenStalled { [weak router] in router?.tasksAreStalled() }
    let configuration = (configuration.copy() as? URLSessionConfiguration) ?? .default
    configuration.urlCache = nil
    configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
    configuration.timeoutIntervalForRequest = Self.longestPause
    configuration.httpMaximumConnectionsPerHost = 4096
    // The client's, which adds them to each request where they are seen: as what makes two requests equal, and as credentials.
    configuration.httpAdditionalHeaders = nil
    if SessionPlatform.looksForCookiesSlowly { configuration.httpCookieAcceptPolicy = .never }
    session = URLSession(configuration: configuration, delegate: router, delegateQueue: queue)
  }

  /// The session keeps its delegate until it is told that nothing more will come.
  deinit { session.finishTasksAndInvalidate() }

  /// Whether it is of no use to another task.
  var isSpent: Bool { backlog?.discards ?? false }

  /// A task that begins when it is resumed.
  func task(for urlRequest: URLRequest, body: RequestBody, receiver: any SessionTaskReceiver) -> SessionTask {
    var urlRequest = Self.withPlainScheme(urlRequest)
    // An interceptor may have set another.
    urlRequest.timeoutInterval = Self.longestPause
    let task: URLSessionTask
    switch body {
    case .file(let url): task = session.uploadTask(with: urlRequest, fromFile: url)
    case .none, .data, .form: task = session.dataTask(with: urlRequest)
    }
    let sessionTask = SessionTask(task, receiver, cancellations)
    router.add(sessionTask, for: task)
    return sessionTask
  }

  /// Schemes are without regard to case; but not to `URLSession` on Linux.
  private static func withPlainScheme(_ urlRequest: URLRequest) -> URLRequest {
    guard let url = urlRequest.url, let scheme = url.scheme, scheme != scheme.lowercased(),
      var components = URLComponents(url: url, resolvingAgainstBaseURL: true)
    else { return urlRequest }
    components.scheme = scheme.lowercased()
    var plain = urlRequest
    plain.url = components.url
    return plain
  }
}

/// Tells a session of tasks that are to stop. Calls wait for nothing.
private final class Cancellations: Sendable {
  private let queue = DispatchQueue(label: "OwnedRequests.cancellations", qos: .userInitiated)
  private let backlog: (any SessionBacklog)?

  init(_ backlog: (any SessionBacklog)?) { self.backlog = backlog }

  func cancel(_ task: URLSessionTask) {
    backlog?.cancellationBegins()
    queue.async { task.cancel() }
  }

  /// Stops what nobody hears of any more.
  func perform(_ stop: @escaping @Sendable () -> Void) { queue.async { stop() } }

  func hasEnded() { backlog?.cancellationEnds() }
}

/// One task, from its start to its completion or cancellation.
///
/// On Linux, `URLSession` stops the process if a redirect is answered after its task was cancelled. So it is answered under the lock of
/// `state`, and not once the task is closed, which comes before it is cancelled. That waits for nothing and calls no code of the user's.
final class SessionTask: Sendable {
  private struct State {
    /// Nil once the task is over or cancelled.
    var receiver: (any SessionTaskReceiver)?
    var isOver = false
    var isCancelled = false
    var hasHead = false

    /// - Returns: true if it was neither over nor cancelled before.
    mutating func beCancelled(andOver isOver: Bool) -> Bool {
      defer {
        isCancelled = isCancelled || !self.isOver
        self.isOver = self.isOver || isOver
      }
      return !self.isOver && !isCancelled
    }
  }

  private let task: URLSessionTask
  private let cancellations: Cancellations
  private let state: Guarded<State>

  fileprivate init(_ task: URLSessionTask, _ receiver: any SessionTaskReceiver, _ cancellations: Cancellations) {
    self.task = task
    self.cancellations = cancellations
    state = Guarded(State(receiver: receiver))
  }

  func resume() { task.resume() }

  /// Nothing is received after this has returned, but for a call that is under way. Any thread; waits neither for the session nor for
  /// that call.
  func cancel() {
    var former: (any SessionTaskReceiver)?
    let isFirst = state.withLock { state in
      swap(&former, &state.receiver)
      return state.beCancelled(andOver: true)
    }
    if isFirst { cancellations.cancel(task) }
  }

  /// Cancels it if that is what its receiver wants, who hears of its completion then. Waits for nothing.
  fileprivate func isStalled() {
    guard receiver?.taskIsStalled() == true, state.withLock({ $0.beCancelled(andOver: false) }) else { return }
    cancellations.cancel(task)
  }

  fileprivate var receiver: (any SessionTaskReceiver)? { state.withLock { $0.receiver } }

  /// The session has come to the task's end.
  fileprivate func takeReceiver() -> (any SessionTaskReceiver)? {
    var former: (any SessionTaskReceiver)?
    let isCancelled = state.withLock { state in
      swap(&former, &state.receiver)
      state.isOver = true
      return state.isCancelled
    }
    if isCancelled { cancellations.hasEnded() }
    return former
  }

  fileprivate func takeHead(_ head: ResponseHead) {
    state.withLock { state in
      state.hasHead = true
      return state.receiver
    }?.taskDidReceive(head)
  }

  /// Foundation tells nothing of an answer that it takes for a redirect, and that leads nowhere. The task has its head.
  fileprivate var headThatWasNotTold: ResponseHead? {
    guard !state.withLock({ $0.hasHead }), let response = task.response as? HTTPURLResponse else { return nil }
    return ResponseHead(response)
  }

  /// What has come is the whole answer, and the session, which waits for something else, is to stop.
  fileprivate func endWithWhatHasCome(_ stop: @escaping @Sendable () -> Void) {
    takeReceiver()?.taskDidComplete(nil)
    cancellations.perform(stop)
  }

  /// Ends the task with this error, and has the session stop it.
  fileprivate func fail(_ error: URLError) {
    var former: (any SessionTaskReceiver)?
    let isFirst = state.withLock { state in
      swap(&former, &state.receiver)
      return state.beCancelled(andOver: true)
    }
    if isFirst { cancellations.cancel(task) }
    former?.taskDidComplete(error)
  }

  fileprivate func refuseRedirect(_ completionHandler: @Sendable (URLRequest?) -> Void) {
    state.withLock { state in
      guard !state.isOver || SessionPlatform.wantsAnswersAfterEnd else { return }
      completionHandler(nil)
    }
  }
}

/// The delegate: hands each event to the task's receiver.
private final class TaskRouter: NSObject, URLSessionDataDelegate {
  private let tasks = Guarded<[Int: SessionTask]>([:])
  private let backlog: (any SessionBacklog)?
  /// Where the cookies of answers go; nil if nowhere, or if the session sees to that.
  private let cookies: HTTPCookieStorage?

  init(_ backlog: (any SessionBacklog)?, cookies: HTTPCookieStorage?) {
    self.backlog = backlog
    self.cookies = cookies
  }

  func add(_ sessionTask: SessionTask, for task: URLSessionTask) {
    tasks.withLock { $0[task.taskIdentifier] = sessionTask }
  }

  func tasksAreStalled() {
    for task in tasks.withLock({ Array($0.values) }) { task.isStalled() }
  }

  private func receiver(of task: URLSessionTask) -> (any SessionTaskReceiver)? {
    tasks.withLock { $0[task.taskIdentifier] }?.receiver
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
    completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) {
    tasks.withLock { $0[task.taskIdentifier] }?.refuseRedirect(completionHandler)
  }

  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
  ) {
    if !isDiscarding, let response = response as? HTTPURLResponse, let sessionTask = tasks.withLock({ $0[dataTask.taskIdentifier] }) {
      SharedThread.run { take(ResponseHead(response), of: sessionTask) }
    }
    completionHandler(.allow)
  }

  /// Where characters aren't single code units, Foundation on Linux takes the one count for the other, and stops the process. Cookies with
  /// such characters are left out.
  private static func cookies(in fields: String, of url: URL) -> [HTTPCookie] {
    let mark = "_7f3a9c_"  // of characters that names may have, so that the field is taken apart as it is
    let plain = fields.map { $0.utf16.count == 1 ? String($0) : mark }.joined()
    guard plain.utf16.count == plain.count else { return [] }  // what stands beside the marks may join with them
    let found = HTTPCookie.cookies(withResponseHeaderFields: ["Set-Cookie": plain], for: url)
    return found.filter { cookie in ![cookie.name, cookie.value, cookie.path, cookie.domain].contains { $0.contains(mark) } }
  }

  /// Cookies first: what follows from the head, such as the next request of a redirect, is sent with them.
  private func take(_ head: ResponseHead, of sessionTask: SessionTask) {
    if let cookies, let fields = head.headers["Set-Cookie"] {
      cookies.setCookies(Self.cookies(in: fields, of: head.url), for: head.url, mainDocumentURL: nil)
    }
    sessionTask.takeHead(head)
  }

  /// A server asks for a name and a password. Who has them signs the request, see `RequestInterceptor`; the answer is one like any other.
  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    guard SessionPlatform.challengesComeLast else { return completionHandler(.performDefaultHandling, nil) }
    let sessionTask = tasks.withLock { $0[task.taskIdentifier] }
    end { sessionTask?.endWithWhatHasCome { completionHandler(.cancelAuthenticationChallenge, nil) } }
  }

  /// A server has closed a connection that was kept, just as the next request came, and libcurl begins anew with another one. On Linux
  /// the session then sends a body from where it was: the rest of it, or nothing, to a server that waits for all. So this is the end of the
  /// attempt. Called on the session's thread, wherever other events go.
  func urlSession(
    _ session: URLSession, task: URLSessionTask, needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
  ) {
    completionHandler(nil)
    let sessionTask = tasks.withLock { $0[task.taskIdentifier] }
    let explanation = "The server closed the connection before it answered, and the body had begun to be sent."
    let end = { @Sendable () -> Void in
      sessionTask?.fail(URLError(.networkConnectionLost, userInfo: [NSLocalizedDescriptionKey: explanation]))
    }
    if let backlog { backlog.addLast(end) } else { end() }
  }

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    if !isDiscarding, !data.isEmpty { SharedThread.run { receiver(of: dataTask)?.taskDidReceive(data) } }
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64, totalBytesExpectedToSend: Int64
  ) {
    let total = totalBytesExpectedToSend > 0 ? totalBytesExpectedToSend : nil
    SharedThread.run { receiver(of: task)?.taskDidSend(totalBytesSent, of: total) }
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let error = error.map(URLError.init(wrapping:))
    let sessionTask = tasks.withLock { $0.removeValue(forKey: task.taskIdentifier) }
    guard let backlog, isDiscarding else {
      return end { [self] in
        if error == nil, let sessionTask, let head = sessionTask.headThatWasNotTold { take(head, of: sessionTask) }
        sessionTask?.takeReceiver()?.taskDidComplete(error)
      }
    }
    // Something may have been discarded, even if the session has come to the end of it.
    backlog.addLast { SharedThread.run { sessionTask?.takeReceiver()?.taskDidComplete(error ?? URLError(.cancelled)) } }
  }

  private func end(_ body: @escaping @Sendable () -> Void) {
    if let backlog, backlog.isAtOnce { backlog.addLast { SharedThread.run(body) } } else { SharedThread.run(body) }
  }

  private var isDiscarding: Bool { backlog?.isDiscarding ?? false }
}
