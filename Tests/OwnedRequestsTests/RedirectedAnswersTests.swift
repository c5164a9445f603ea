import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Answers that redirects have led to, in the cache: they belong to all the addresses on the way.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct RedirectedAnswersTests {
  private let server = LoopbackServer.shared!
  private let cache: ResponseCache

  init() throws { cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0) }

  private func client(_ cookies: HTTPCookieStorage? = nil) -> RequestClient {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.httpCookieStorage = cookies
    return RequestClient(baseURL: server.base, configuration: configuration, cache: cache)
  }

  private func request(_ path: String, _ query: [String: ParameterValue], _ policy: CachePolicy) -> Request {
    var request = Request(.get, path, parameters: .form(query))
    request.cache = policy
    return request
  }

  private func get(_ client: RequestClient, _ request: Request) async throws -> Response<String> {
    try await client.response(to: request, lifetime: .process, decoding: .string)
  }

  /// Both places call their first version "1".
  private func moving(_ id: String, _ policy: CachePolicy) -> Request {
    let (first, then) = ("/validated?id=\(id)-first&changes=9&text=first", "/validated?id=\(id)-then&changes=9&text=then")
    return request("moving", ["id": .string(id), "changes": 2, "first": .string(first), "then": .string(then)], policy)
  }

  @Test func whatIsValidAtAnotherAddressIsNotTakenForWhatIsStored() async throws {
    let client = client()
    let request = moving("moved", .revalidate)
    #expect(try await get(client, request).value == "first1")
    let confirmed = try await get(client, request)
    #expect(confirmed.source == .revalidated && confirmed.value == "first1")
    let moved = try await get(client, request)
    #expect(moved.source == .network && moved.value == "then1")
  }

  @Test func nobodyWhoHasNothingStoredSharesATransferThatAsksWhetherItIsValid() async throws {
    let client = client()
    client.maxConcurrentRequestsPerHost = 1
    let lifetime = OwnerLifetime()
    _ = try await get(client, moving("alone", .revalidate))
    let held = client.send(Request(.get, "held?id=alone-held"), lifetime: lifetime, decoding: .data) { _ in }
    try await server.reaches(.open, of: "alone-held", 1)
    let operations = [CachePolicy.revalidate, .none].map { policy in
      client.send(moving("alone", policy), lifetime: lifetime, decoding: .string) { _ in }
    }
    // One of them would do if they shared it.
    #expect(try await eventually { client.hub.limits.waitingCount == 2 })
    try await server.release("alone-held")
    _ = try await held.value
    for operation in operations { #expect(try await operation.value.value.hasSuffix("1")) }
  }

  @Test func whatACookieOnTheWayHasLedToIsForNobodyElse() async throws {
    let storage = try #require(URLSessionConfiguration.ephemeral.httpCookieStorage)
    storage.setCookie(try #require(HTTPCookie(properties: [.name: "session", .value: "1", .domain: "localhost", .path: "/"])))
    let port = try #require(server.base.port)
    let last = server.base.absoluteString + "/order?id=way"
    let middle = "http://localhost:\(port)/redirect?to=\(last.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")"
    let request = request("redirect", ["to": .string(middle)], .forTime(.seconds(600)))
    _ = try await get(client(storage), request)
    let response = try await get(client(), request)
    #expect(response.source == .network && response.headers["X-Order"] == "2")
    // Without cookies it is kept as ever.
    #expect(try await get(client(), request).source == .cache)
  }

  @Test func whatAnAnswerThatIsNotToBeStoredHasLedToIsNotStored() async throws {
    let request = request(
      "moving", ["id": "led", "changes": 9, "first": "/order?id=led-to", "headers": #"{"Cache-Control": "no-store"}"#],
      .forTime(.seconds(600)))
    for turn in 1...2 {
      let response = try await get(client(), request)
      #expect(response.source == .network && response.headers["X-Order"] == "\(turn)")
    }
  }

  @Test func aSchemeInCapitalLettersIsTheSame() async throws {
    let capital = "HTTP" + server.base.absoluteString.dropFirst(4)
    let away = Request(.get, "redirect", parameters: .form(["to": .string(capital + "/echo")]))
    #expect(try await get(client(), away).status == 200)
    #expect(try await get(client(), Request(.get, capital + "/echo")).status == 200)
  }
}
