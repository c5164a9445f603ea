import Foundation
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct ResponseValueTests {
  private func head(_ headers: HeaderFields = [:], status: Int = 200) -> ResponseHead {
    ResponseHead(status: status, headers: headers, url: URL(string: "http://localhost/")!)
  }

  // MARK: Header fields

  @Test func headersAreFoundWhateverTheirCase() {
    var fields: HeaderFields = ["Content-Type": "text/plain", "X-One": "1"]
    #expect(fields["content-type"] == "text/plain" && fields["CONTENT-TYPE"] == "text/plain")
    #expect(fields["missing"] == nil)
    #expect(fields == HeaderFields(["content-type": "text/plain", "x-one": "1"]))
    #expect(fields.hashValue == HeaderFields(["content-type": "text/plain", "x-one": "1"]).hashValue)
    fields["x-one"] = nil
    #expect(fields.count == 1 && fields.dictionary == ["Content-Type": "text/plain"])
  }

  // MARK: Decoders

  @Test func textIsDecodedInTheCharacterSetOfTheAnswer() throws {
    #expect(try ResponseDecoder.string.decode(Data("ü".utf8), head()) == "ü")
    #expect(try ResponseDecoder.string.decode(Data([0xFC]), head(["Content-Type": "text/plain; charset=ISO-8859-1"])) == "ü")
    #expect(try ResponseDecoder.string.decode(Data("ü".utf8), head(["Content-Type": "text/html; a=b; Charset=\"utf-8\""])) == "ü")
    #expect(throws: UndecodableText.self) { try ResponseDecoder.string.decode(Data([0xFC]), head()) }
    #expect(throws: UndecodableText.self) {
      try ResponseDecoder.string.decode(Data(), head(["Content-Type": "text/plain; charset=klingon"]))
    }
  }

  @Test func valuesAreDecoded() throws {
    #expect(try ResponseDecoder.json([String: Int].self).decode(Data(#"{"a":1}"#.utf8), head()) == ["a": 1])
    #expect(throws: DecodingError.self) { try ResponseDecoder.json([String: Int].self).decode(Data(), head()) }
    let list = try PropertyListEncoder().encode(["a": 1])
    #expect(try ResponseDecoder.propertyList([String: Int].self).decode(list, head()) == ["a": 1])
    #expect(try ResponseDecoder.data.decode(Data([1]), head()) == Data([1]))
    try ResponseDecoder.empty.decode(Data([1]), head())
    #expect(try ResponseDecoder<Int> { data, head in data.count + head.status }.decode(Data([1]), head()) == 201)
  }

  // MARK: Retry

  private func delay(
    _ policy: RetryPolicy, _ error: RequestError, _ attempt: Int = 1, method: Request.Method = .get, headers: HeaderFields = [:],
    randomness: Double = 1
  ) -> Duration? {
    policy.delay(
      after: error, head: head(headers), attempt: attempt, method: method, now: Date(timeIntervalSince1970: 784_111_777),
      randomness: randomness)
  }

  @Test func waitsDoubleUpToTheCapWithJitter() {
    let policy = RetryPolicy.exponential(attempts: 100, base: .milliseconds(100), cap: .seconds(1))
    let refused = RequestError.transport(URLError(.cannotConnectToHost))
    #expect((1...6).map { delay(policy, refused, $0) } == [100, 200, 400, 800, 1000, 1000].map { .milliseconds($0) })
    #expect(delay(policy, refused, 3, randomness: 0) == .milliseconds(200))
    #expect(delay(policy, refused, 99) == .seconds(1))
    #expect(delay(policy, refused, 100) == nil)
    #expect(delay(.none, refused) == nil)
  }

  @Test func onlyWhatMayPassIsTriedAgain() {
    let patient = RetryPolicy.exponential(attempts: .max, base: .seconds(300), cap: .seconds(300))
    #expect(
      (patient.delay(
        after: .transport(URLError(.timedOut)), head: nil, attempt: 61, method: .get, now: Date(), randomness: 1)).map {
          $0 == .seconds(300)
        } == true)
    let policy = RetryPolicy.exponential(attempts: 2)
    for status in [408, 429, 500, 502, 503, 504, 599] { #expect(delay(policy, .status(status, body: Data())) != nil) }
    for status in [301, 400, 401, 403, 404, 409, 422] { #expect(delay(policy, .status(status, body: Data())) == nil) }
    for error in [
      RequestError.timedOut, .invalidURL(""), .cancelled(.requested), .decoding(CocoaError(.coderReadCorrupt), body: Data()),
      .transport(URLError(.badURL)),
    ] { #expect(delay(policy, error) == nil) }
    for method in Request.Method.allCases {
      #expect((delay(policy, .status(503, body: Data()), method: method) != nil) == (method != .post && method != .patch))
    }
  }

  @Test func retryAfterIsHonoured() {
    let policy = RetryPolicy.exponential(attempts: 2, base: .milliseconds(100))
    let busy = RequestError.status(503, body: Data())
    #expect(delay(policy, busy, headers: ["retry-after": "7"]) == .seconds(7))
    #expect(delay(policy, busy, headers: ["Retry-After": "Sun, 06 Nov 1994 08:49:47 GMT"]) == .seconds(10))
    #expect(delay(policy, busy, headers: ["Retry-After": "Sun, 06 Nov 1994 08:00:00 GMT"]) == .milliseconds(100))
    for nonsense in ["soon", "-5", "", "99999999999999999999"] {
      #expect(delay(policy, busy, headers: ["Retry-After": nonsense]) == .milliseconds(100))
    }
  }

  @Test func datesOfHTTPAreRead() {
    #expect(HTTPDate.parse("Sun, 06 Nov 1994 08:49:37 GMT")?.timeIntervalSince1970 == 784_111_777)
    #expect(HTTPDate.parse("Sunday, 06-Nov-94 08:49:37 GMT")?.timeIntervalSince1970 == 784_111_777)
    #expect(HTTPDate.parse("Thu, 29 Feb 2024 00:00:00 GMT")?.timeIntervalSince1970 == 1_709_164_800)
    for nonsense in ["", "tomorrow", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT"] {
      #expect(HTTPDate.parse(nonsense) == nil)
    }
  }
}
