import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct ClientFaultTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()

  private func error(_ request: Request, client: RequestClient? = nil) async -> RequestError? {
    let client = client ?? server.client()
    return await failure { _ = try await client.response(to: request, lifetime: lifetime, decoding: .data) }
  }

  // MARK: Connections

  @Test func aRefusedConnectionIsATransportError() async throws {
    guard case .transport(let error) = await error(Request(.get, "http://127.0.0.1:1/")) else {
      Issue.record("no transport error")
      return
    }
    #expect(error.code == .cannotConnectToHost)
  }

  @Test(arguments: [
    "cut?in=body", "cut?in=chunk", "cut?in=nothing", "reset?in=head", "reset?in=body", "bytes?id=lie&length=100&lie=50&cuts=1&after=100",
  ])
  func anAnswerThatIsCutOffIsATransportError(path: String) async throws {
    guard case .transport = await error(Request(.get, path)) else {
      Issue.record("\(path): no transport error")
      return
    }
  }

  /// What the server said before is not lost.
  @Test(arguments: ["cut?in=body", "cut?in=chunk", "reset?in=body", "bytes?id=head-lie&length=100&lie=50&cuts=1&after=100"])
  func anAnswerThatIsCutOffInItsBodyHasAHead(path: String) async throws {
    let operation = server.client().send(Request(.get, path), lifetime: lifetime, decoding: .data) { _ in }
    guard case .transport? = await failure({ _ = try await operation.value }) else {
      Issue.record("\(path): no transport error")
      return
    }
    #expect(operation.head?.status == 200)
  }

  /// What comes after the length that was said is in no answer: at worst it fails the next request on that connection.
  @Test func moreThanWasSaidIsNotTaken() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    for turn in 0..<3 {
      let more = Request(.get, "bytes?id=more-\(turn)&length=100&lie=-50")
      #expect(try await client.response(to: more, lifetime: lifetime, decoding: .data).value.count == 50)
      do {
        let echo = try await client.response(to: Request(.get, "echo?turn=\(turn)"), lifetime: lifetime, decoding: .json(Echo.self))
        #expect(echo.value.query == "turn=\(turn)")
      } catch RequestError.transport {}
    }
  }

  #if canImport(FoundationNetworking)
    /// The limit that the documentation tells of. In a process of its own, which may end by it.
    @Test func anAnswerThatIsCutOffInItsHeadIsATransportError() async {
      await withKnownIssue("URLSession on Linux stops the process (Swift 6.3)", isIntermittent: true) {
        await #expect(processExitsWith: .success) {
          let server = try #require(LoopbackServer.shared)
          let error = await failure {
            _ = try await server.client().response(to: Request(.get, "cut?in=head"), lifetime: .process, decoding: .data)
          }
          guard case .transport? = error else { exit(1) }
        }
      }
    }

    /// The other limit that the documentation tells of.
    @Test func anAnswerThatClaimsToBeEndlessIsATransportError() async {
      await withKnownIssue("URLSession on Linux stops the process (Swift 6.3)", isIntermittent: true) {
        await #expect(processExitsWith: .success) {
          let server = try #require(LoopbackServer.shared)
          let bytes = Data("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nab".utf8).base64EncodedString()
          let request = Request(.get, "raw", parameters: .form(["bytes": .string(bytes)]))
          let error = await failure { _ = try await server.client().response(to: request, lifetime: .process, decoding: .data) }
          guard case .transport? = error else { exit(1) }
        }
      }
    }

    /// And the third one.
    @Test func anAnswerWithATrailerIsAnAnswer() async {
      await withKnownIssue("URLSession on Linux stops the process (Swift 6.3)", isIntermittent: true) {
        await #expect(processExitsWith: .success) {
          let server = try #require(LoopbackServer.shared)
          let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 1\r\n\r\n"
          let request = Request(.get, "raw", parameters: .form(["bytes": .string(Data(answer.utf8).base64EncodedString())]))
          let response = try await server.client().response(to: request, lifetime: .process, decoding: .string)
          if response.value != "ab" { exit(1) }
        }
      }
    }

    /// And the fourth one: a redirect, which may well be to an address in brackets.
    @Test func aRedirectWithoutASchemeLeadsToAnAddressInBrackets() async {
      await withKnownIssue("URLSession on Linux stops the process (Swift 6.3)", isIntermittent: true) {
        await #expect(processExitsWith: .success) {
          let server = try #require(LoopbackServer.shared)
          let answer = "HTTP/1.1 302 Found\r\nLocation: //[::1]:1/\r\nContent-Length: 0\r\n\r\n"
          let request = Request(.get, "raw", parameters: .form(["bytes": .string(Data(answer.utf8).base64EncodedString())]))
          let error = await failure { _ = try await server.client().response(to: request, lifetime: .process, decoding: .data) }
          guard case .transport? = error else { exit(1) }
        }
      }
    }
  #endif

  @Test(arguments: [
    "not http at all\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
  ])
  func nonsenseIsAnErrorAndNoCrash(answer: String) async throws {
    let bytes = Data(answer.utf8).base64EncodedString()
    #expect(await error(Request(.get, "raw", parameters: .form(["bytes": .string(bytes)]))) != nil)
  }

  @Test(arguments: [
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
  ])
  func interimAnswersAreSkipped(interim: String) async throws {
    let answer = interim + "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    let request = Request(.get, "raw", parameters: .form(["bytes": .string(Data(answer.utf8).base64EncodedString())]))
    let response = try await server.client().response(to: request, lifetime: lifetime, decoding: .string)
    #expect(response.status == 200 && response.value == "abc")
  }

  /// Foundation takes a head for UTF-8.
  @Test func aHeadInUTF8IsTakenAndOneThatIsNotIsATransportError() async throws {
    func request(_ value: [UInt8]) -> Request {
      let answer = Data("HTTP/1.1 200 OK\r\nX-Name: ".utf8) + value + Data("\r\nContent-Length: 3\r\n\r\nabc".utf8)
      return Request(.get, "raw", parameters: .form(["bytes": .string(answer.base64EncodedString())]))
    }
    let response = try await server.client().response(to: request(Array("ü".utf8)), lifetime: lifetime, decoding: .string)
    #expect(response.value == "abc" && response.headers["X-Name"] == "ü")
    #if canImport(FoundationNetworking)
      guard case .transport = await error(request([0xFC])) else {
        Issue.record("no transport error")
        return
      }
    #endif
  }

  @Test func compressedBodiesAreUnpacked() async throws {
    let operation = server.client().send(Request(.get, "gzip"), lifetime: lifetime, decoding: .string) { _ in }
    #expect(try await operation.value.value == String(repeating: "a", count: 100_000))
  }

  // MARK: Time-outs

  @Test(arguments: ["hang?id=timeout-hang", "drip?id=timeout-drip"])
  func aStalledRequestTimesOutAndItsConnectionIsClosed(path: String) async throws {
    let id = String(path.split(separator: "=")[1])
    var request = Request(.get, path)
    request.timeout = .milliseconds(300)
    let timers = await HeldTimers()
    let operation = server.client().send(request, lifetime: lifetime, decoding: .data) { _ in }
    // Or there might be no connection yet.
    try await server.reaches(.open, of: id, 1)
    timers.goOn()
    guard case .timedOut = await failure({ _ = try await operation.value }) else {
      Issue.record("no time-out")
      return
    }
    try await server.reaches(.closed, of: id, 1)
  }

  @Test func theTimeThatARequestWaitsForItsTurnDoesNotCount() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let first = client.send(Request(.get, "held?id=turn"), lifetime: lifetime, decoding: .data) { _ in }
    try await server.reaches(.open, of: "turn", 1)
    var request = Request(.get, "echo")
    request.timeout = .milliseconds(100)
    let second = client.send(request, lifetime: lifetime, decoding: .data) { _ in }
    #expect(try await eventually { client.hub.limits.waitingCount == 1 })
    // It would be over by then.
    try await Task.sleep(for: .milliseconds(300))
    #expect(!second.isFinished)
    // What comes now does count, and may take longer than that.
    let timers = await HeldTimers()
    defer { timers.goOn() }
    try await server.release("turn")
    _ = try await first.value
    _ = try await second.value
  }

  private struct Removal: RequestInterceptor {
    let file: URL
    func adapt(_ request: URLRequest) async throws -> URLRequest {
      try FileManager.default.removeItem(at: file)
      return request
    }
  }

  /// It was there when the request was looked at.
  @Test func aFileThatVanishesBeforeItIsSentIsNamed() async throws {
    let directory = try TemporaryDirectory()
    let file = try directory.file("upload.bin", Data(count: 1000))
    let client = server.client { $0.interceptors = [Removal(file: file)] }
    var request = Request(.put, "echo", parameters: .file(file, contentType: "application/octet-stream"))
    request.retry = .exponential(attempts: 4, base: .seconds(600))  // another attempt would not be seen to end
    do {
      _ = try await client.response(to: request, lifetime: lifetime, decoding: .data)
      Issue.record("what is not there was sent")
    } catch RequestError.fileSystem(let failure) {
      #expect("\(failure)".contains(file.path))
    }
  }

  // MARK: Retry

  @Test(arguments: ["status", "cut"])
  func whatFailsInPassingIsSentAgain(how: String) async throws {
    var request = Request(.get, "flaky?id=retry-\(how)&failures=2&how=\(how)")
    request.retry = .exponential(attempts: 3, base: .milliseconds(1))
    let response = try await server.client().response(to: request, lifetime: lifetime, decoding: .string)
    #expect(response.attempts == 3 && response.value == "3")
  }

  @Test func attemptsHaveAnEnd() async throws {
    var request = Request(.get, "flaky?id=retry-end&failures=9")
    request.retry = .exponential(attempts: 2, base: .milliseconds(1))
    guard case .status(503, body: Data("busy".utf8)) = await error(request) else {
      Issue.record("no 503")
      return
    }
    #expect(try await server.tell(.count, of: "retry-end") == 2)
  }

  @Test func aPostIsNotSentAgain() async throws {
    var request = Request(.post, "flaky?id=retry-post&failures=9")
    request.retry = .exponential(attempts: 5, base: .milliseconds(1))
    #expect(await error(request) != nil)
    #expect(try await server.tell(.count, of: "retry-post") == 1)
  }

  private struct Posting: RequestInterceptor {
    func adapt(_ request: URLRequest) async throws -> URLRequest {
      var request = request
      request.httpMethod = "POST"
      return request
    }
  }

  @Test func aPostThatAnInterceptorHasMadeIsNotSentAgain() async throws {
    let client = server.client { $0.interceptors = [Posting()] }
    var request = Request(.get, "flaky?id=retry-made-post&failures=9")
    request.retry = .exponential(attempts: 5, base: .milliseconds(1))
    guard case .status(503, _)? = await failure({ _ = try await client.response(to: request, lifetime: .process, decoding: .data) }) else {
      Issue.record("no 503")
      return
    }
    #expect(try await server.tell(.count, of: "retry-made-post") == 1)
  }

  @Test func aRetryAfterLongerThanTheTimeLeftFailsAtOnceWithWhatTheServerSaid() async throws {
    var request = Request(.get, #"flaky?id=retry-after&failures=9&headers=%7B%22Retry-After%22:%22600%22%7D"#)
    request.retry = .exponential(attempts: 5, base: .milliseconds(1))
    guard case .status(503, _) = await error(request) else {
      Issue.record("no 503")
      return
    }
    #expect(try await server.tell(.count, of: "retry-after") == 1)
  }

  @Test func aRetryAfterIsWaitedFor() async throws {
    var request = Request(.get, #"flaky?id=retry-wait&failures=1&headers=%7B%22Retry-After%22:%221%22%7D"#)
    request.retry = .exponential(attempts: 2, base: .milliseconds(1))
    let start = ContinuousClock.now
    let response = try await server.client().response(to: request, lifetime: lifetime, decoding: .string)
    #expect(response.attempts == 2)
    #expect(ContinuousClock.now - start >= .seconds(1))
  }

  // MARK: Redirects

  @Test func redirectsAreFollowedByTheirKind() async throws {
    let client = server.client()
    for (status, method) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
      let request = Request(.post, "redirect?status=\(status)&to=/echo", parameters: .data(Data("body".utf8), contentType: "text/x"))
      let response = try await client.response(to: request, lifetime: lifetime, decoding: .json(Echo.self))
      #expect(response.value.method == method, "\(status)")
      #expect(response.value.body == (method == "POST" ? "body" : ""), "\(status)")
      #expect((response.value.headers["content-type"] == "text/x") == (method == "POST"), "\(status)")
      #expect(response.url.path == "/echo")
    }
    let put = Request(.put, "redirect?status=301&to=/echo", parameters: .data(Data("body".utf8), contentType: "text/x"))
    #expect(try await client.response(to: put, lifetime: lifetime, decoding: .json(Echo.self)).value.method == "PUT")
  }

  @Test func credentialsStayWithTheirOrigin() async throws {
    let client = server.client()
    let headers = ["Authorization": "secret", "Cookie": "a=b", "Proxy-Authorization": "secret", "X-Other": "kept"]
    let away = Request(.get, "redirect", parameters: .form(["to": .string(server.other.absoluteString + "/echo")]), headers: headers)
    let elsewhere = try await client.response(to: away, lifetime: lifetime, decoding: .json(Echo.self)).value.headers
    #expect(elsewhere["authorization"] == nil && elsewhere["cookie"] == nil && elsewhere["proxy-authorization"] == nil)
    #expect(elsewhere["x-other"] == "kept")
    let near = Request(.get, "redirect?to=/echo", headers: headers)
    let here = try await client.response(to: near, lifetime: lifetime, decoding: .json(Echo.self)).value.headers
    #expect(here["authorization"] == "secret" && here["cookie"] == "a=b")
  }

  @Test func escapesInARedirectStayAsTheyAre() async throws {
    let request = Request(.get, "redirect", parameters: .form(["to": "/echo?f[name]=Ann%20Lee"]))
    let echo = try await server.client().response(to: request, lifetime: lifetime, decoding: .json(Echo.self)).value
    #expect(echo.query == "f%5Bname%5D=Ann%20Lee")
  }

  @Test func redirectsHaveAnEnd() async throws {
    guard case .transport(let error) = await error(Request(.get, "loop?id=loop")) else {
      Issue.record("no error")
      return
    }
    #expect(error.code == .httpTooManyRedirects)
    #expect(try await server.tell(.count, of: "loop") == 11)
  }

  @Test func aRedirectToWhatIsNotHTTPIsToldAsItCame() async throws {
    for to in ["file:///etc/passwd", "mailto:a@b", "http://"] {
      guard case .status(302, _) = await error(Request(.get, "redirect", parameters: .form(["to": .string(to)]))) else {
        Issue.record("\(to) was followed")
        continue
      }
    }
  }

  // MARK: Interceptors

  private struct Token: RequestInterceptor {
    let attempts = Journal<Int>()

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      var request = request
      request.setValue("token-\(attempts.entries.count)", forHTTPHeaderField: "Authorization")
      return request
    }

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      attempts.write(attempt)
      guard case .status(401, _) = error, attempt < 3 else { return .fail }
      return .retry
    }
  }

  @Test func interceptorsAdaptEveryAttemptAndDecideOnTheNext() async throws {
    let token = Token()
    let client = server.client { $0.interceptors = [token] }
    let response = try await client.response(
      to: Request(.post, "flaky?id=intercept&failures=2&status=401"), lifetime: lifetime, decoding: .string)
    #expect(response.attempts == 3)
    #expect(token.attempts.entries == [1, 2])
    let told = try await client.response(to: Request(.get, "echo"), lifetime: lifetime, decoding: .json(Echo.self)).value
    #expect(told.headers["authorization"] == "token-2")
  }

  /// Asks for a token before each attempt, and for another after a failure.
  private final class Refresh: RequestInterceptor {
    let client = Guarded<RequestClient?>(nil)

    private func askForToken() async throws {
      guard let client = client.withLock({ $0 }) else { return }
      _ = try await client.response(to: Request(.get, "status?status=200&token=yes"), lifetime: .process, decoding: .data)
    }

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      if request.url?.query?.contains("token") != true { try await askForToken() }
      return request
    }

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      guard attempt < 3, (try? await askForToken()) != nil else { return .fail }
      return .retry
    }
  }

  /// At a host that takes one request at a time: what is adapted, or decided on, has no place there.
  @Test func interceptorsMaySendRequestsThroughTheirClient() async throws {
    let refresh = Refresh()
    let client = server.client {
      $0.maxConcurrentRequestsPerHost = 1
      $0.interceptors = [refresh]
    }
    refresh.client.withLock { $0 = client }
    let operations = (0..<8).map { number in
      client.send(Request(.get, "flaky?id=refresh-\(number)&failures=1"), lifetime: lifetime, decoding: .data) { _ in }
    }
    for operation in operations { #expect(try await operation.value.attempts == 2) }
    refresh.client.withLock { $0 = nil }
  }

  /// Foundation asks its delegate for a credential then, and says nothing more until it has one.
  @Test(arguments: ["Basic realm=\"house\"", "Digest realm=\"house\", nonce=\"1\"", "Bearer"])
  func anAnswerThatAsksForAPasswordIsOneLikeAnyOther(challenge: String) async throws {
    let headers = try #require(String(data: JSONEncoder().encode(["WWW-Authenticate": challenge]), encoding: .utf8))
    let parameters: Parameters = .form(["status": 401, "body": "who are you?", "headers": .string(headers)])
    let client = server.client()
    let operation = client.send(Request(.get, "status", parameters: parameters), lifetime: lifetime, decoding: .string) { _ in }
    await operation.finished()
    #expect(operation.head?.status == 401)
    #expect(operation.head?.headers["WWW-Authenticate"] == challenge)
    guard case .failure(.status(401, let body)) = operation.result else {
      Issue.record("it ended with \(String(describing: operation.result))")
      return
    }
    #expect(body == Data("who are you?".utf8))

    let token = Token()
    let asking = server.client { $0.interceptors = [token] }
    let url = "flaky?id=challenge-\(challenge.prefix(5))&failures=2&status=401&headers="
    let query = try #require(headers.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
    #expect(try await asking.response(to: Request(.get, url + query), lifetime: lifetime, decoding: .string).attempts == 3)
  }

  @Test func aDownloadThatAsksForAPasswordFailsAndTheNextOneIsWhole() async throws {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let headers = #"{"WWW-Authenticate": "Basic realm=\"house\""}"#
    let client = server.client()
    let refused = client.download(
      Request(.get, "status", parameters: .form(["status": 401, "headers": .string(headers)])), to: directory.appendingPathComponent("a"),
      lifetime: lifetime)
    await refused.finished()
    guard case .failure(.status(401, _)) = refused.result else {
      Issue.record("it ended with \(String(describing: refused.result))")
      return
    }
    let whole = client.download(Request(.get, "bytes?length=300000"), to: directory.appendingPathComponent("b"), lifetime: lifetime)
    await whole.finished()
    #expect(try Data(contentsOf: directory.appendingPathComponent("b")).count == 300_000)
  }

  /// Foundation says nothing of such an answer. Its body is lost.
  @Test(arguments: [(301, nil), (302, nil), (307, "http://[nowhere"), (305, "/echo")] as [(Int, String?)])
  func aRedirectThatLeadsNowhereKeepsStatusAndHeaders(status: Int, location: String?) async throws {
    var headers = ["X-Why": "moved"]
    headers["Location"] = location
    let text = try #require(String(data: JSONEncoder().encode(headers), encoding: .utf8))
    let parameters: Parameters = .form(["status": .integer(status), "headers": .string(text)])
    let operation = server.client().send(Request(.get, "status", parameters: parameters), lifetime: lifetime, decoding: .string) { _ in }
    await operation.finished()
    #expect(operation.head?.status == status)
    #expect(operation.head?.headers["X-Why"] == "moved")
    guard case .failure(.status(status, _)) = operation.result else {
      Issue.record("it ended with \(String(describing: operation.result))")
      return
    }
  }

  private struct Refusal: RequestInterceptor, Error {
    func adapt(_ request: URLRequest) async throws -> URLRequest { throw self }
  }

  private struct NoURL: RequestInterceptor {
    func adapt(_ request: URLRequest) async throws -> URLRequest {
      var request = request
      request.url = URL(string: "file:///etc/passwd")
      return request
    }
  }

  /// The error of a request that an interceptor has sent is not that of the request.
  private struct NestedFailure: RequestInterceptor {
    let error: RequestError

    func adapt(_ request: URLRequest) async throws -> URLRequest { throw error }
  }

  @Test func theErrorOfAnInterceptorsOwnRequestIsTheInterceptors() async throws {
    for nested in [RequestError.cancelled(.requested), .timedOut, .status(403, body: Data())] {
      let client = server.client { $0.interceptors = [NestedFailure(error: nested)] }
      guard case .interceptor(let reason as RequestError) = await error(Request(.get, "echo?id=nested"), client: client) else {
        Issue.record("\(nested)")
        continue
      }
      #expect("\(reason)" == "\(nested)")
    }
    #expect(try await server.tell(.count, of: "nested") == 0)
  }

  /// Cancels its request in one step or the other.
  private struct Cancellation: RequestInterceptor {
    let step: String
    let subject: Guarded<RequestOperation<Data>?>

    private func come(to step: String) {
      guard step == self.step else { return }
      var operation: RequestOperation<Data>?
      subject.withLock { swap(&operation, &$0) }
      operation?.cancel()
    }

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      come(to: "adapt")
      return request
    }

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      come(to: "decision")
      return .asUsual
    }
  }

  private struct Witness: RequestInterceptor {
    let asked: Journal<String>

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      asked.write("adapt")
      return request
    }

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      asked.write("decision")
      return .asUsual
    }
  }

  private struct Weak { weak var operation: RequestOperation<Data>? }

  @Test(arguments: [("adapt", []), ("decision", ["adapt"])] as [(String, [String])])
  func noInterceptorIsAskedAboutARequestThatIsOver(step: String, expected: [String]) async throws {
    let (asked, subject) = (Journal<String>(), Guarded<RequestOperation<Data>?>(nil))
    let client = server.client { $0.interceptors = [Cancellation(step: step, subject: subject), Witness(asked: asked)] }
    let watched = Guarded(Weak())
    do {
      let operation = client.operation(for: Request(.get, "status?status=500"), lifetime: .process, decoding: .data)
      watched.withLock { $0.operation = operation }
      subject.withLock { $0 = operation }
      OwnerScopedQueue().addOperation(operation)
      guard case .cancelled(.requested)? = await failure({ _ = try await operation.value }) else {
        Issue.record("\(String(describing: operation.result))")
        return
      }
    }
    // The task that asks holds it.
    #expect(try await eventually { watched.withLock { $0.operation == nil } })
    #expect(asked.entries == expected)
  }

  @Test func whatInterceptorsRefuseOrSpoilIsNotSent() async throws {
    let refusing = server.client { $0.interceptors = [Refusal()] }
    guard case .interceptor(let reason) = await error(Request(.get, "echo?id=refused"), client: refusing) else {
      Issue.record("not refused")
      return
    }
    #expect(reason is Refusal)
    let spoiling = server.client { $0.interceptors = [NoURL()] }
    #expect(await error(Request(.get, "echo?id=refused"), client: spoiling)?.explanation?.contains("file:") == true)
    #expect(try await server.tell(.count, of: "refused") == 0)
  }
}
