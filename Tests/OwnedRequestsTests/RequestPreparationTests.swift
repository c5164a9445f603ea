import Foundation
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct RequestPreparationTests {
  private struct Note: Codable, Sendable, Equatable {
    var text: String
    var stars: Double
  }

  // MARK: URLs

  @Test(arguments: [
    ("users", "https://example.com/v1", "https://example.com/v1/users"),
    ("users", "https://example.com/v1/", "https://example.com/v1/users"),
    ("/users", "https://example.com/v1", "https://example.com/users"),
    ("users?page=2", "https://example.com", "https://example.com/users?page=2"),
    ("../users", "https://example.com/v1/x", "https://example.com/v1/users"),
    ("http://other.example/a", "https://example.com/v1", "http://other.example/a"),
    ("a%2Fb", "https://example.com", "https://example.com/a%2Fb"),
  ])
  func relativeURLsAreResolvedBelowTheBase(url: String, base: String, expected: String) throws {
    #expect(try Request(.get, url).urlRequest(relativeTo: URL(string: base)).url?.absoluteString == expected)
  }

  /// `URL(string:)` escapes these, too, and with them the percent signs beside them.
  @Test(arguments: [
    ("find?f[name]=Ann%20Lee", "find?f%5Bname%5D=Ann%20Lee"),
    ("a%2Fb/[1]/ä?q=%C3%A4", "a%2Fb/%5B1%5D/%C3%A4?q=%C3%A4"),
    ("find?q=ä&r=%c3%a4#ä%20#", "find?q=%C3%A4&r=%c3%a4#%C3%A4%20%23"),
    ("find?off=5%&by=%2&q={%22|\\^`}%7D", "find?off=5%25&by=%252&q=%7B%22%7C%5C%5E%60%7D%7D"),
    ("http://Ann%20Lee:[%5D@other.example:80/[%5D", "http://Ann%20Lee:%5B%5D@other.example:80/%5B%5D"),
    ("//other.example/?next=http://[%5D", "http://other.example/?next=http://%5B%5D"),
  ])
  func escapesAreAddedWhereTheyAreMissingAndNowhereElse(url: String, expected: String) throws {
    let sent = try Request(.get, url).urlRequest(relativeTo: URL(string: "http://localhost"))
    #expect(sent.url?.absoluteString == (expected.contains("//") ? expected : "http://localhost/\(expected)"))
  }

  @Test(arguments: [
    ("http://[::1]:8080/a", "http://[::1]:8080/a"), ("http://bücher.example/ä", "http://bücher.example/%C3%A4"),
    ("find?q=a+b&c='(*)'", "find?q=a+b&c='(*)'"), ("..", ".."), ("#a", "#a"),
    ("http://a@b%20c@host/", "http://a%40b%20c@host/"), ("items[1]:x", "items%5B1%5D%3Ax"), ("a:b[1]:c", "a:b%5B1%5D:c"),
  ])
  func neitherHostNorWhatIsAllowedIsEscaped(address: String, expected: String) {
    #expect(AddressEscapes.added(to: address) == expected)
  }

  @Test(arguments: [
    "", "not a url", "http://", "ftp://example.com/", "file:///etc/passwd", "http:///path", "mailto:somebody", "http://exa mple.com/",
    "http://h/\r\nX: y", "http://h:99999/", "http://h:0/",
  ])
  func whatIsNoURLIsRefusedAndNamed(url: String) throws {
    let request = Request(.get, url)
    do throws(RequestError) {
      _ = try request.urlRequest(relativeTo: URL(string: "http://localhost/"))
      Issue.record("\(url) was taken")
    } catch {
      guard case .invalidURL(let explanation) = error else { throw error }
      #expect(explanation.contains(url.isEmpty ? "empty" : url))
    }
  }

  @Test func aMissingOrUnfitBaseIsRefusedAndNamed() {
    #expect(refusal(of: Request(.get, "users"))?.contains("users") == true)
    #expect(refusal(of: Request(.get, "users"), relativeTo: URL(string: "example.com/v1"))?.contains("example.com/v1") == true)
    #expect(refusal(of: Request(.get, "users"), relativeTo: URL(string: "file:///tmp"))?.contains("http or https") == true)
  }

  // MARK: Headers

  @Test func headersAreSentAsGiven() throws {
    let request = try Request(.get, "http://localhost/", headers: ["X-One": "1", "Accept": "text/plain"]).urlRequest(relativeTo: nil)
    #expect(request.value(forHTTPHeaderField: "x-one") == "1")
    #expect(request.value(forHTTPHeaderField: "Accept") == "text/plain")
  }

  @Test(arguments: [
    ["X-One": "a\r\nX-Two: b"], ["X-One": "a\nb"], ["X-One": "a\rb"], ["X-One": "a\0"], ["X One": "a"], ["X-One:": "a"], ["": "a"],
    ["X-Öne": "a"],
    ["X\r\nY": "a"], ["X-One": "a", "x-one": "b"], ["Content-Length": "3"], ["transfer-encoding": "chunked"],
  ])
  func headersThatCannotBeSentAreRefusedAndNamed(headers: [String: String]) throws {
    let explanation = try #require(refusal(of: Request(.get, "http://localhost/", headers: headers)))
    #expect(explanation.lowercased().contains("header"))
    #expect(headers.keys.contains { $0.isEmpty || explanation.contains($0) })
  }

  /// An interceptor may have taken it from somewhere.
  @Test(arguments: ["GET / HTTP/1.1\r\nX-Injected: yes\r\nX:", "GET ", "É"])
  func methodsThatCannotBeSentAreRefusedAndNamed(method: String) throws {
    var urlRequest = URLRequest(url: try #require(URL(string: "http://localhost/")))
    for known in Request.Method.allCases {
      urlRequest.httpMethod = known.rawValue
      #expect(refusal(of: urlRequest) == nil)
    }
    urlRequest.httpMethod = method
    #expect(refusal(of: urlRequest)?.contains("method") == true)
  }

  @Test func aContentTypeOfTheCallersStays() throws {
    let request = try Request(
      .post, "http://localhost/", parameters: .json(["a": 1]), headers: ["content-type": "application/vnd.api+json"]
    )
    .urlRequest(relativeTo: nil)
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/vnd.api+json")
  }

  // MARK: Bodies

  @Test func jsonIsEncodedWithSortedKeys() throws {
    let request = try Request(.post, "http://localhost/", parameters: .json(Note(text: "a/b", stars: 4))).urlRequest(relativeTo: nil)
    #expect(request.httpBody == Data(#"{"stars":4,"text":"a/b"}"#.utf8))
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/json")
  }

  @Test func propertyListsAreEncoded() throws {
    let request = try Request(.put, "http://localhost/", parameters: .propertyList(Note(text: "a", stars: 4))).urlRequest(relativeTo: nil)
    #expect(try PropertyListDecoder().decode(Note.self, from: #require(request.httpBody)) == Note(text: "a", stars: 4))
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/x-plist")
  }

  @Test func valuesThatAreNotJSONAreRefusedAndNamed() throws {
    let explanation = try #require(refusal(of: Request(.post, "http://localhost/", parameters: .json(Note(text: "a", stars: .nan)))))
    #expect(explanation.contains("json") && explanation.contains("stars"))
    #expect(refusal(of: Request(.post, "http://localhost/", parameters: .propertyList("bare")))?.contains("propertyList") == true)
  }

  @Test(arguments: [Request.Method.get, .head])
  func aBodyIsRefused(on method: Request.Method) {
    #expect(refusal(of: Request(method, "http://localhost/", parameters: .json(["a": 1])))?.contains(method.rawValue) == true)
    #expect(
      refusal(of: Request(method, "http://localhost/", parameters: .data(Data([1]), contentType: "a/b")))?.contains(method.rawValue) == true
    )
    #expect(refusal(of: Request(method, "http://localhost/", parameters: .multipart(MultipartForm())))?.contains(method.rawValue) == true)
  }

  @Test func bytesAreSentAsTheyAre() throws {
    let request = try Request(.post, "http://localhost/", parameters: .data(Data([0, 1, 2]), contentType: "image/x")).urlRequest(
      relativeTo: nil)
    #expect(request.httpBody == Data([0, 1, 2]))
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "image/x")
  }

  @Test func aContentTypeWithALineBreakIsRefused() {
    #expect(
      refusal(of: Request(.post, "http://localhost/", parameters: .data(Data(), contentType: "a/b\r\nX: y")))?.contains("Content-Type")
        == true)
  }

  @Test func filesThatCannotBeSentAreRefusedAndNamed() throws {
    let directory = try TemporaryDirectory()
    let missing = directory.url.appendingPathComponent("missing.bin")
    for file in [missing, directory.url, URL(string: "http://localhost/x")!] {
      #expect(
        refusal(of: Request(.post, "http://localhost/", parameters: .file(file, contentType: "a/b")))?.contains(file.lastPathComponent)
          == true)
    }
    let present = try directory.file("present.bin", Data([1]))
    let request = try Request(.post, "http://localhost/", parameters: .file(present, contentType: "a/b")).urlRequest(relativeTo: nil)
    #expect(request.httpBody == nil)
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "a/b")
  }
}
