import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Cookies go where the configuration has them go, whoever reads them out of an answer.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct CookieTests {
  private let server = LoopbackServer.shared!

  private func client(_ configuration: URLSessionConfiguration = .ephemeral) -> RequestClient {
    RequestClient(baseURL: server.base, configuration: configuration)
  }

  /// An answer with such lines.
  private func answer(_ lines: [String], status: String = "200 OK") -> Request {
    let text = (["HTTP/1.1 \(status)"] + lines + ["Content-Length: 0", "", ""]).joined(separator: "\r\n")
    return Request(.get, "raw", parameters: .form(["bytes": .string(Data(text.utf8).base64EncodedString())]))
  }

  private func sentCookies(_ client: RequestClient) async throws -> Set<String> {
    let echo = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .json(Echo.self)).value
    return Set((echo.headers["cookie"] ?? "").split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) })
  }

  @Test func whatAnAnswerBringsIsStoredAndSentAlong() async throws {
    let configuration = URLSessionConfiguration.ephemeral
    let client = client(configuration)
    let lines = [
      "Set-Cookie: one=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "Set-Cookie: three=a, four=4",
      "Set-Cookie: other=5; Domain=example.com",
    ]
    _ = try await client.response(to: answer(lines), lifetime: .process, decoding: .empty)
    _ = try await client.response(to: answer(["set-cookie: two=2; HttpOnly"]), lifetime: .process, decoding: .empty)
    #expect(try await sentCookies(client) == ["one=1", "two=2", "three=a", "four=4"])
    let stored = try #require(configuration.httpCookieStorage?.cookies)
    #expect(stored.first { $0.name == "one" }?.expiresDate != nil && stored.first { $0.name == "two" }?.isHTTPOnly == true)
    _ = try await client.response(
      to: answer(["Set-Cookie: one=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "Set-Cookie: two=3"]), lifetime: .process, decoding: .empty)
    #expect(try await sentCookies(client) == ["two=3", "three=a", "four=4"])
  }

  /// Foundation takes counts of code units for counts of characters, and stops the process.
  @Test(arguments: ["Set-Cookie: 😀😀=x", "Set-Cookie: a=😀; 😀😀=x", "Set-Cookie: e\u{301}e\u{301}=x", "Set-Cookie: b=1; Path=/😀"])
  func oneWithSuchCharactersIsNotTaken(line: String) async throws {
    let client = client()
    let lines = ["Set-Cookie: one=1", line, "Set-Cookie: two=2; 😀=😀"]
    _ = try await client.response(to: answer(lines), lifetime: .process, decoding: .empty)
    #expect(try await sentCookies(client) == ["one=1", "two=2"])
  }

  /// Characters that join with what takes the place of others.
  @Test(arguments: ["Set-Cookie: \u{E0001}\u{301}=", "Set-Cookie: \u{600}\u{E0001}="])
  func noneIsTakenFromSuchAField(line: String) async throws {
    let client = client()
    _ = try await client.response(to: answer(["Set-Cookie: one=1", line]), lifetime: .process, decoding: .empty)
    #expect(try await sentCookies(client).isEmpty)
  }

  @Test func whatARedirectBringsIsSentWithTheNextRequest() async throws {
    let client = client()
    let redirect = answer(["Set-Cookie: moved=1", "Location: /echo"], status: "302 Found")
    let echo = try await client.response(to: redirect, lifetime: .process, decoding: .json(Echo.self)).value
    #expect(echo.headers["cookie"] == "moved=1")
  }

  @Test func whatAnErrorOrADownloadBringsIsStored() async throws {
    let client = client()
    _ = await failure {
      _ = try await client.response(to: answer(["Set-Cookie: a=1"], status: "404 No"), lifetime: .process, decoding: .empty)
    }
    let directory = try TemporaryDirectory()
    let target = directory.url.appendingPathComponent("file")
    _ = try await client.download(answer(["Set-Cookie: b=2"]), to: target, lifetime: .process).value
    #expect(try await sentCookies(client) == ["a=1", "b=2"])
  }

  @Test func aConfigurationMayBeChangedForAnotherClient() async throws {
    let configuration = URLSessionConfiguration.ephemeral
    let client = client(configuration)
    let other = try #require(URLSessionConfiguration.ephemeral.httpCookieStorage)
    let host = try #require(server.base.host)
    other.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: "other", .domain: host, .path: "/"])))
    configuration.httpCookieStorage = other
    #expect(try await sentCookies(client) == [])
    let directory = try TemporaryDirectory()
    _ = try await client.download(Request(.get, "echo"), to: directory.target, lifetime: .process).value
    #expect(try JSONDecoder().decode(Echo.self, from: Data(contentsOf: directory.target)).headers["cookie"] == nil)
  }

  @Test func noneAreTakenWhereTheConfigurationHasNone() async throws {
    let refusing = URLSessionConfiguration.ephemeral
    refusing.httpCookieAcceptPolicy = .never
    let without = URLSessionConfiguration.ephemeral
    without.httpCookieStorage = nil
    let silent = URLSessionConfiguration.ephemeral
    silent.httpShouldSetCookies = false
    for configuration in [refusing, without, silent] {
      let client = client(configuration)
      _ = try await client.response(to: answer(["Set-Cookie: a=1"]), lifetime: .process, decoding: .empty)
      #expect(try await sentCookies(client) == [])
    }
    #expect(refusing.httpCookieStorage?.cookies?.isEmpty == true && silent.httpCookieStorage?.cookies?.count == 1)
    // What was given is left as it was.
    #expect(silent.httpCookieAcceptPolicy != .never)
  }
}
