import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What a configuration adds to requests says who asks, as what is in the request itself does.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct CredentialsTests {
  private let server = LoopbackServer.shared!

  private func client(
    _ headers: [String: String], cache: ResponseCache? = nil, _ change: (URLSessionConfiguration) -> Void = { _ in }
  ) -> RequestClient {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.httpAdditionalHeaders = headers
    change(configuration)
    return RequestClient(baseURL: server.base, configuration: configuration, cache: cache)
  }

  private func cached(_ path: String) -> Request {
    var request = Request(.get, path)
    request.cache = .forTime(.seconds(600))
    return request
  }

  @Test func additionalHeadersAreSentOnceAndGiveWay() async throws {
    let client = client(["Authorization": "Basic YQ==", "X-Kind": "added"])
    let echo = try await client.response(
      to: Request(.get, "echo", headers: ["x-kind": "own"]), lifetime: .process, decoding: .json(Echo.self)
    ).value
    #expect(echo.headers["authorization"] == "Basic YQ==" && echo.headers["x-kind"] == "own")
  }

  @Test func anAnswerIsNotForAnotherAccount() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let request = cached("flaky?id=accounts&failures=0")
    for (turn, account) in ["Basic YQ==", "Basic Yg=="].enumerated() {
      let response = try await client(["Authorization": account], cache: cache).response(to: request, lifetime: .process, decoding: .string)
      #expect(response.source == .network && response.value == "\(turn + 1)")
    }
  }

  @Test func additionalCredentialsStayWithTheirOrigin() async throws {
    let client = client(["Authorization": "Basic YQ=="])
    let away = Request(.get, "redirect", parameters: .form(["to": .string(server.other.absoluteString + "/echo")]))
    let echo = try await client.response(to: away, lifetime: .process, decoding: .json(Echo.self)).value
    #expect(echo.headers["authorization"] == nil)
  }

  /// The same port, and another name for the same machine.
  @Test func credentialsAreNotForAnotherHost() async throws {
    let port = try #require(server.base.port)
    let away = Request(
      .get, "redirect", parameters: .form(["to": .string("http://localhost:\(port)/echo")]),
      headers: ["Authorization": "Basic YQ==", "Cookie": "session=1", "X-Kind": "kept"])
    let echo = try await client([:]).response(to: away, lifetime: .process, decoding: .json(Echo.self)).value
    #expect(echo.headers["host"] == "localhost:\(port)" && echo.headers["x-kind"] == "kept")
    #expect(echo.headers["authorization"] == nil && echo.headers["cookie"] == nil)
  }

  @Test func badAdditionalHeadersAreRefused() async throws {
    let error = await failure {
      _ = try await client(["X-Bad": "a\r\nb"]).response(to: Request(.get, "echo"), lifetime: .process, decoding: .empty)
    }
    guard case .invalidParameters? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func whatIsAskedForWithACookieIsForNobodyElse() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    var kept: HTTPCookieStorage?
    let client = client([:], cache: cache) { kept = $0.httpCookieStorage }
    let storage = try #require(kept)
    let request = cached("flaky?id=cookies&failures=0")
    #expect(try await client.response(to: request, lifetime: .process, decoding: .string).value == "1")
    let host = try #require(server.base.host)
    storage.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: "1", .domain: host, .path: "/"])))
    for turn in 2...3 {
      let response = try await client.response(to: request, lifetime: .process, decoding: .string)
      #expect(response.source == .network && response.value == "\(turn)")
    }
  }

  @Test func whatIsCachedForOneCookieIsNotForAnother() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    var kept: HTTPCookieStorage?
    let client = client([:], cache: cache) { kept = $0.httpCookieStorage }
    let (storage, host) = (try #require(kept), try #require(server.base.host))
    var request = cached("echo?accounts")
    request.cachesCredentials = true
    func answer(for account: String) async throws -> Response<Echo> {
      storage.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: account, .domain: host, .path: "/"])))
      return try await client.response(to: request, lifetime: .process, decoding: .json(Echo.self))
    }
    for account in ["1", "2"] {
      let response = try await answer(for: account)
      #expect(response.source == .network && response.value.headers["cookie"] == "session=\(account)")
    }
    #expect(try await answer(for: "1").source == .cache)
  }

  @Test func aTransferIsNotSharedWithAnotherCookie() async throws {
    var kept: HTTPCookieStorage?
    let client = client([:]) { kept = $0.httpCookieStorage }
    let (storage, host) = (try #require(kept), try #require(server.base.host))
    var request = Request(.get, "held?id=cookie-held")
    request.coalesces = true
    let lifetime = OwnerLifetime()
    var operations: [OwnedOperation] = []
    for (account, transfers) in [("1", 1), ("2", 2)] {
      storage.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: account, .domain: host, .path: "/"])))
      operations.append(client.send(request, lifetime: lifetime, decoding: .data) { _ in })
      try await server.reaches(.open, of: "cookie-held", transfers)
    }
    try await server.release("cookie-held")
    for operation in operations { await operation.finished() }
  }

  /// The cookie is for where the redirect leads, and for nothing else.
  @Test func whatARedirectHasAskedForWithACookieIsForNobodyElse() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    var kept: HTTPCookieStorage?
    let client = client([:], cache: cache) { kept = $0.httpCookieStorage }
    let port = try #require(server.base.port)
    let storage = try #require(kept)
    storage.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: "1", .domain: "localhost", .path: "/"])))
    defer { storage.removeCookies(since: .distantPast) }
    var request = Request(.get, "redirect", parameters: .form(["to": .string("http://localhost:\(port)/echo")]))
    request.cache = .forTime(.seconds(600))
    let own = try await client.response(to: request, lifetime: .process, decoding: .json(Echo.self))
    #expect(own.value.headers["cookie"] == "session=1")
    let other = URLSessionConfiguration.ephemeral
    other.httpCookieStorage = nil
    let stranger = RequestClient(baseURL: server.base, configuration: other, cache: cache)
    let response = try await stranger.response(to: request, lifetime: .process, decoding: .json(Echo.self))
    #expect(response.source == .network && response.value.headers["cookie"] == nil)
    // Where there are none, and where it is asked for, answers are kept as ever.
    #expect(try await stranger.response(to: request, lifetime: .process, decoding: .data).source == .cache)
  }

  /// Signs what was refused without a signature.
  private struct LateSignature: RequestInterceptor {
    let isRefused = Guarded(false)

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      var request = request
      if isRefused.withLock({ $0 }) { request.setValue("Basic YQ==", forHTTPHeaderField: "Authorization") }
      return request
    }

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      guard head?.status == 401 else { return .asUsual }
      isRefused.withLock { $0 = true }
      return .retry
    }
  }

  @Test func whatWasAskedForWithCredentialsInALaterAttemptIsForNobodyElse() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let request = cached("flaky?id=late-credentials&failures=1&status=401")
    let signed = client([:], cache: cache)
    signed.interceptors = [LateSignature()]
    #expect(try await signed.response(to: request, lifetime: .process, decoding: .string).value == "2")
    let other = try await client([:], cache: cache).response(to: request, lifetime: .process, decoding: .string)
    #expect(other.source == .network && other.value == "3")
  }

  @Test func aRedirectThatLosesTheBodyLosesWhatWasSaidOfIt() throws {
    let address = try #require(URL(string: "http://localhost/a"))
    var urlRequest = URLRequest(url: address)
    urlRequest.httpMethod = "POST"
    let names = ["Content-Type", "Content-Language", "Expect"]
    for name in names { urlRequest.setValue("5", forHTTPHeaderField: name) }
    urlRequest.setValue("kept", forHTTPHeaderField: "X-Kind")
    let outgoing = Outgoing(urlRequest: urlRequest, body: .data(Data(count: 5)))
    let head = { ResponseHead(status: $0, headers: ["Location": "/b"], url: address) }
    let next = try #require(Redirects.next(after: outgoing, head(303))).urlRequest
    #expect(next.httpMethod == "GET" && next.httpBody == nil && next.allHTTPHeaderFields == ["X-Kind": "kept"])
    let same = try #require(Redirects.next(after: outgoing, head(307))).urlRequest
    #expect(names.allSatisfy { same.value(forHTTPHeaderField: $0) == "5" })
  }

  @Test func aNameOfAHostStaysWithItsOrigin() throws {
    let address = try #require(URL(string: "http://localhost:8080/a"))
    var urlRequest = URLRequest(url: address)
    urlRequest.setValue("inner.example.com", forHTTPHeaderField: "Host")
    func host(after location: String) -> String? {
      let head = ResponseHead(status: 302, headers: ["Location": location], url: address)
      return Redirects.next(after: Outgoing(urlRequest: urlRequest, body: .none), head)?.urlRequest.value(forHTTPHeaderField: "Host")
    }
    #expect(host(after: "/b") == "inner.example.com")
    #expect(host(after: "http://LOCALHOST:8080/b") == "inner.example.com")
    #expect(host(after: "http://example.com/b") == nil)
    #expect(host(after: "http://localhost:8081/b") == nil)
  }
}
