import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What is said of addresses: a hint at what was meant, and never a password.
@Suite struct AddressTextTests {
  // MARK: Hints

  @Test(arguments: [
    ("htp:/x", "http://x"), ("htp://example.com/a", "http://example.com/a"), ("http:/example.com", "http://example.com"),
    ("http:example.com", "http://example.com"), ("http:///example.com/a", "http://example.com/a"),
    ("http//example.com", "http://example.com"),
    ("https;//example.com", "https://example.com"), ("http:\\\\example.com", "http://example.com"),
    ("htps://example.com", "https://example.com"),
    ("httsp://example.com", "https://example.com"), ("htttps://example.com", "https://example.com"),
    ("ttp://example.com", "http://example.com"),
    ("HTP://example.com", "http://example.com"), ("http://example.com/a b", "http://example.com/a%20b"),
    ("example.com/a", "https://example.com/a"), ("//example.com/a", "https://example.com/a"),
    ("example.com:8080/a", "https://example.com:8080/a"),
    ("localhost:8080/a", "http://localhost:8080/a"), ("127.0.0.1:80", "http://127.0.0.1:80"), ("192.168.1.7/a", "https://192.168.1.7/a"),
    ("box:8080/a", "https://box:8080/a"), (" example.com", "https://example.com"), ("example.com?x=1", "https://example.com?x=1"),
  ])
  func whatWasLikelyMeantIsSaid(text: String, meant: String) {
    #expect(AddressText.hint(for: text) == "; did you mean \(meant)?")
  }

  @Test(arguments: [
    "", " ", "users", "users/5", "/users", "/example.com", "../a", ".profile", "index.html", "ftp://example.com/", "file:///etc/hosts",
    "mailto:a", "ws://example.com", "http://", "http:", "://", "data:,x", "a\u{1}b", "1.2", "git://example.com/x", "http://example.com/",
  ])
  func whereThereIsNoTellingNothingIsSaid(text: String) {
    #expect(AddressText.hint(for: text) == "")
  }

  @Test(arguments: [
    ("htp:/x", nil, "http://x"), ("example.com/a", nil, "https://example.com/a"), ("http:/example.com/a", nil, "http://example.com/a"),
    ("htp://example.com/a", "http://localhost", "http://example.com/a"), ("a", "example.com", "https://example.com"),
    ("a", "htp://example.com", "http://example.com/a"), ("http://example.com/a b", nil, "http://example.com/a%20b"),
  ])
  func aClientThatRefusesAnAddressSaysWhatWasLikelyMeant(url: String, base: String?, meant: String) throws {
    let explanation = try #require(refusal(of: Request(.get, url), relativeTo: base.flatMap { URL(string: $0) }))
    #expect(explanation.contains("did you mean \(meant)?"), "\(explanation)")
  }

  // MARK: Passwords

  @Test(arguments: [
    ("http://user:secret@example.com/a@b", "http://…@example.com/a@b"), ("https://secret@example.com", "https://…@example.com"),
    ("http://user:se%40cret@example.com", "http://…@example.com"), ("http://user:se@cret@example.com", "http://…@example.com"),
    ("http://user:se/cret@example.com", "http://…@example.com"), ("http://user:se//cret@example.com", "http://…@example.com"),
    ("user:secret@example.com", "…@example.com"), ("user:se//cret@example.com", "…@example.com"),
    ("//user:secret@example.com", "//…@example.com"),
    ("htp:/user:secret@x", "htp:/…@x"), ("http;//user:secret@x", "http;//…@x"), ("http:user:secret@x", "…@x"), ("http://@x", "http://@x"),
    ("http://example.com/a@b?c@d#e@f", "http://example.com/a@b?c@d#e@f"), ("users/5", "users/5"), ("http://user:secret@", "http://…@"),
  ])
  func whoAsksIsNotShown(text: String, shown: String) {
    #expect(AddressText.shown(text) == shown)
  }

  @Test func messagesLoseWhoAsksWhereverTheyQuoteAnAddress() {
    let message = "a http://user:secret@x/y@z, \"https://u:secret@x\" and http://x/a@b, nothing@else"
    #expect(AddressText.withoutUsers(in: message) == "a http://…@x/y@z, \"https://…@x\" and http://x/a@b, nothing@else")
    #expect(AddressText.withoutUsers(in: "://") == "://")
  }

  @Test func aHintShowsNoPassword() {
    #expect(AddressText.hint(for: "htp:/user:secret@x/y") == "; did you mean http://…@x/y?")
    #expect(AddressText.hint(for: "user:secret@example.com/y") == "; did you mean https://…@example.com/y?")
  }

  /// All that Swift's ways of printing make of it.
  private func prints(of value: Any) -> String {
    var dumped = ""
    dump(value, to: &dumped)
    return "\(value) \(String(reflecting: value)) \(dumped)"
  }

  private func showsNoPassword(_ value: Any) -> Bool { !prints(of: value).contains("secret") }

  @Test(arguments: [
    "htp:/user:secret@x", "user:secret@example.com", "http://user:secret@", "http://user:secret@exa mple.com",
    "ftp://user:secret@example.com",
    "http://user:se/secret@x\u{7}",
  ])
  func noErrorOfABadAddressShowsThePassword(url: String) throws {
    for base in [nil, URL(string: "ftp://user:secret@base"), URL(string: "user:secret@base")] {
      for url in [url, "relative"] {
        do throws(RequestError) {
          _ = try Request(.get, url).urlRequest(relativeTo: base)
        } catch {
          #expect(showsNoPassword(error), "\(url)")
          #expect(showsNoPassword(RequestFailure(error: error, head: nil)))
        }
      }
    }
    let address = try #require(URL(string: "http://user:secret@x"))
    #expect(refusal(of: Request(.post, "http://x", parameters: .file(address, contentType: "a/b")))?.contains("http://…@x") == true)
  }

  @Test func aRequestIsPrintedWithoutPasswords() throws {
    let request = Request(.get, "http://user:secret@x/y", headers: ["authorization": "secret", "Accept": "text/plain"])
    #expect(showsNoPassword(request))
    #expect("\(request)".contains("http://…@x/y") && "\(request)".contains("text/plain"))
    let client = RequestClient(baseURL: URL(string: "http://user:secret@x"))
    #expect(showsNoPassword(client))
    let operation = client.operation(for: request, lifetime: .process, decoding: .data)
    #expect(showsNoPassword(operation) && showsNoPassword(operation.description))
    operation.cancel()
  }

  @Test func anAnswerIsPrintedWithoutPasswords() throws {
    let head = ResponseHead(status: 200, headers: ["X-One": "1"], url: try #require(URL(string: "http://user:secret@x/y")))
    #expect(showsNoPassword(head) && "\(head)".contains("http://…@x/y"))
    let response = Response("value", head, source: .network, attempts: 1)
    #expect(showsNoPassword(response) && "\(response)".contains("value") && "\(response)".contains("http://…@x/y"))
    #expect(showsNoPassword(RequestFailure(error: .status(500, body: Data()), head: head)))
  }

  @Test func aRefusedConnectionIsToldWithoutThePassword() async throws {
    let error = await failure {
      _ = try await RequestClient().response(to: Request(.get, "http://user:secret@127.0.0.1:1/"), lifetime: .process, decoding: .empty)
    }
    guard case .transport(let urlError)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(showsNoPassword(urlError) && showsNoPassword(RequestError.transport(urlError)))
    #expect(!"\(urlError.userInfo) \(urlError.localizedDescription)".contains("secret"))
  }

  /// Foundation's errors have the address in several places.
  @Test func whatComesWithAnErrorHasNoPassword() throws {
    let address = try #require(URL(string: "http://user:secret@x/y"))
    let inner = NSError(domain: "inner", code: 1, userInfo: ["url": address])
    let error = NSError(
      domain: NSURLErrorDomain, code: -1004,
      userInfo: [
        NSURLErrorFailingURLErrorKey: address, "NSErrorFailingURLStringKey": address.absoluteString, NSUnderlyingErrorKey: inner,
        "kept": 5,
      ])
    let wrapped = URLError(wrapping: error)
    #expect(wrapped.code == .cannotConnectToHost && wrapped.userInfo["kept"] as? Int == 5)
    #expect(wrapped.failingURL?.absoluteString == "http://x/y")
    #expect(showsNoPassword(wrapped) && !"\(wrapped.userInfo)".contains("secret"))
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func theServerIsToldWhoAsksAndNobodyElse() async throws {
    let server = try #require(LoopbackServer.shared)
    let address = server.base.absoluteString.replacingOccurrences(of: "://", with: "://user:secret@")
    let client = RequestClient(baseURL: URL(string: address))
    let response = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .json(Echo.self))
    #expect(response.value.headers["authorization"] == "Basic dXNlcjpzZWNyZXQ=")
    #expect(!"\(response.url) \(response.headers)".contains("secret") || showsNoPassword(response.headers))
    let operation = client.send(Request(.get, "status?status=404"), lifetime: .process, decoding: .data) { _ in }
    let error = await failure { _ = try await operation.value }
    #expect(error.map(showsNoPassword) == true && operation.head.map(showsNoPassword) == true && showsNoPassword(operation))
  }

  /// Others may read it.
  @Test(.enabled(if: LoopbackServer.isThere)) func theFileBesideAPartHasNoPasswordAndThePartIsGoneOnWith() async throws {
    let server = try #require(LoopbackServer.shared)
    let directory = try TemporaryDirectory()
    let target = directory.url.appendingPathComponent("file")
    let address = server.base.absoluteString.replacingOccurrences(of: "://", with: "://user:secret@")
    let request = Request(.get, "\(address)/bytes?id=password-part&length=50000&etag=strong&cuts=1&after=20000")
    let error = await failure { _ = try await server.client().download(request, to: target, lifetime: .process).value }
    #expect(error.map(showsNoPassword) == true)
    let info = try String(contentsOf: directory.url.appendingPathComponent("file.part.info"), encoding: .utf8)
    #expect(info.contains("password-part") && !info.contains("secret"))
    let response = try await server.client().download(request, to: target, lifetime: .process).value
    #expect(response.status == 206)
  }
}
