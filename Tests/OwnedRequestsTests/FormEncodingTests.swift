import Foundation
import OwnedOperations
import OwnedRequests
import Testing

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct FormEncodingTests {
  private func query(_ values: [String: ParameterValue], url: String = "http://localhost/") throws -> String? {
    try Request(.get, url, parameters: .form(values)).urlRequest(relativeTo: nil).url?.query(percentEncoded: true)
  }

  @Test func emptyFormsLeaveTheURLAlone() throws {
    let url = try Request(.get, "http://localhost/a", parameters: .form([:])).urlRequest(relativeTo: nil).url
    #expect(url?.absoluteString == "http://localhost/a")
    #expect(try query([:], url: "http://localhost/?x=1") == "x=1")
  }

  @Test(
    arguments: [
      (["foo": "bar"], "foo=bar"),
      (["foo": "bar", "baz": "qux"], "baz=qux&foo=bar"),
      (["foo": 1], "foo=1"),
      (["foo": -7], "foo=-7"),
      (["foo": 1.5], "foo=1.5"),
      (["foo": .number(2)], "foo=2"),
      (["foo": true, "bar": false], "bar=0&foo=1"),
      (["foo": nil], "foo="),
      (["foo": ""], "foo="),
      (["foo": [1, 2]], "foo%5B%5D=1&foo%5B%5D=2"),
      (["foo": []], ""),
      (["foo": ["bar": 1, "baz": "x"]], "foo%5Bbar%5D=1&foo%5Bbaz%5D=x"),
      (["foo": ["bar": ["baz": 1]]], "foo%5Bbar%5D%5Bbaz%5D=1"),
      (
        ["foo": ["bar": ["baz": ["a", 1, true]]]],
        "foo%5Bbar%5D%5Bbaz%5D%5B%5D=a&foo%5Bbar%5D%5Bbaz%5D%5B%5D=1&foo%5Bbar%5D%5Bbaz%5D%5B%5D=1"
      ),
      (["foo": [["a": 1], ["a": 2]]], "foo%5B%5D%5Ba%5D=1&foo%5B%5D%5Ba%5D=2"),
    ] as [([String: ParameterValue], String)])
  func valuesAreWrittenByTheirKind(values: [String: ParameterValue], expected: String) throws {
    #expect((try query(values) ?? "") == expected)
  }

  @Test(arguments: [
    (" ", "%20"), ("+", "%2B"), ("&", "%26"), ("=", "%3D"), ("%", "%25"), ("#", "%23"), ("[]", "%5B%5D"),
    (":@!$'()*,;", "%3A%40%21%24%27%28%29%2A%2C%3B"),
    ("/?", "/?"), ("-._~", "-._~"), ("\"", "%22"), ("<>", "%3C%3E"), ("\\", "%5C"), ("^`{|}", "%5E%60%7B%7C%7D"), ("\u{7F}", "%7F"),
    ("\n\0", "%0A%00"),
    ("français", "fran%C3%A7ais"), ("日本語", "%E6%97%A5%E6%9C%AC%E8%AA%9E"), ("😃", "%F0%9F%98%83"), ("%41", "%2541"),
  ])
  func reservedCharactersAreEscapedInNamesAndValues(text: String, expected: String) throws {
    #expect(try query(["k": .string(text)]) == "k=\(expected)")
    #expect(try query([text: "v"]) == "\(expected)=v")
  }

  @Test func formsAreAppendedToTheQueryOfTheURL() throws {
    #expect(try query(["b": 2], url: "http://localhost/?a=1") == "a=1&b=2")
    #expect(try query(["b": 2], url: "http://localhost/?a=%26%20x") == "a=%26%20x&b=2")
    #expect(try query(["b": 2], url: "http://localhost/?") == "b=2")
    let url = try Request(.get, "http://localhost/p%20q?a=1#part", parameters: .form(["b": 2])).urlRequest(relativeTo: nil).url
    #expect(url?.absoluteString == "http://localhost/p%20q?a=1&b=2#part")
  }

  @Test(arguments: [Request.Method.get, .head, .delete])
  func formsGoIntoTheQuery(of method: Request.Method) throws {
    let request = try Request(method, "http://localhost/", parameters: .form(["a": 1])).urlRequest(relativeTo: nil)
    #expect(request.url?.query() == "a=1")
    #expect(request.httpBody == nil)
    #expect(request.value(forHTTPHeaderField: "Content-Type") == nil)
    #expect(request.httpMethod == method.rawValue)
  }

  @Test(arguments: [Request.Method.post, .put, .patch])
  func formsGoIntoTheBody(of method: Request.Method) throws {
    let request = try Request(method, "http://localhost/?q=1", parameters: .form(["a": [1, 2], "b": "x y"])).urlRequest(relativeTo: nil)
    #expect(request.url?.query() == "q=1")
    #expect(request.httpBody == Data("a%5B%5D=1&a%5B%5D=2&b=x%20y".utf8))
    #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/x-www-form-urlencoded")
  }

  @Test func equalFormsAreWrittenEqually() throws {
    let values = Dictionary(uniqueKeysWithValues: (0..<50).map { ("key\($0)", ParameterValue.integer($0)) })
    let other = Dictionary(uniqueKeysWithValues: (0..<50).reversed().map { ("key\($0)", ParameterValue.integer($0)) })
    #expect(try query(values) == query(other))
  }

  @Test func numbersThatNoFormCanSayAreRefusedByName() {
    #expect(
      refusal(of: Request(.get, "http://localhost/", parameters: .form(["a": ["depth": .number(.nan)]])))?.contains("a[depth]") == true)
    #expect(refusal(of: Request(.post, "http://localhost/", parameters: .form(["a": [.number(.infinity)]])))?.contains("a[]") == true)
  }

  @Test func longFormsAreEncodedWhole() throws {
    let text = String(repeating: "汉字", count: 20_000)
    let body = try Request(.post, "http://localhost/", parameters: .form(["text": .string(text)])).urlRequest(relativeTo: nil).httpBody
    #expect(body?.count == "text=".utf8.count + text.utf8.count * 3)
  }
}
