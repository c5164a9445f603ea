import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// A server that says `no-store` has what was stored before removed.
@Suite struct NoStoreTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func plan(_ cache: ResponseCache) throws -> CachePlan {
    var request = Request(.get, "http://localhost/secret")
    request.cache = .revalidate
    let outgoing = Outgoing(urlRequest: try request.urlRequest(relativeTo: nil), body: .none)
    return try #require(CachePlan(request, outgoing, RequestClient(cache: cache)))
  }

  private func head(_ status: Int, _ headers: HeaderFields) throws -> ResponseHead {
    ResponseHead(status: status, headers: headers, url: try #require(URL(string: "http://localhost/secret")))
  }

  private func storeOld(in cache: ResponseCache) throws -> TransferKey {
    let plan = try plan(cache)
    plan.store(Exchange(head: try head(200, ["ETag": "\"1\""]), body: Data("old".utf8)))
    #expect(cache.response(for: plan.key) != nil)
    return plan.key
  }

  private func cache(memoryLimit: Int) throws -> ResponseCache {
    try ResponseCache(directory: directory.url, memoryLimit: memoryLimit, diskLimit: 1_000_000)
  }

  @Test(arguments: [0, 1_000_000], [true, false])
  func anAnswerThatIsNotToBeStoredLeavesNoFormerOne(memoryLimit: Int, isFlushed: Bool) async throws {
    let cache = try cache(memoryLimit: memoryLimit)
    let key = try storeOld(in: cache)
    if isFlushed { try await cache.flush() }
    let plan = try plan(cache)
    plan.store(Exchange(head: try head(200, ["ETag": "\"2\"", "Cache-Control": "private, No-Store"]), body: Data("new".utf8)))
    #expect(cache.response(for: key) == nil)
    try await cache.flush()
    #expect(cache.response(for: key) == nil)
    #expect(try self.cache(memoryLimit: memoryLimit).response(for: key) == nil)
  }

  @Test func anAnswerThatConfirmsWhatIsStoredMayForbidItToo() async throws {
    let cache = try cache(memoryLimit: 1_000_000)
    let key = try storeOld(in: cache)
    let plan = try plan(cache)
    let confirmed = plan.revalidated(by: Exchange(head: try head(304, ["Cache-Control": "no-store"]), body: Data()))
    #expect(confirmed?.body == Data("old".utf8))
    #expect(cache.response(for: key) == nil)
    try await cache.flush()
    #expect(try self.cache(memoryLimit: 0).response(for: key) == nil)
  }

  @Test func anErrorThatIsNotToBeStoredLeavesWhatIsThere() throws {
    let cache = try cache(memoryLimit: 1_000_000)
    let key = try storeOld(in: cache)
    try plan(cache).store(Exchange(head: try head(503, ["Cache-Control": "no-store"]), body: Data("later".utf8)))
    #expect(cache.response(for: key)?.body == Data("old".utf8))
  }

  @Test func whatIsStoredAgainIsFoundAgain() async throws {
    let cache = try cache(memoryLimit: 0)
    let key = try storeOld(in: cache)
    let plan = try plan(cache)
    plan.store(Exchange(head: try head(200, ["Cache-Control": "no-store"]), body: Data()))
    plan.store(Exchange(head: try head(200, ["ETag": "\"3\""]), body: Data("third".utf8)))
    #expect(cache.response(for: key)?.body == Data("third".utf8))
    try await cache.flush()
    #expect(try self.cache(memoryLimit: 0).response(for: key)?.body == Data("third".utf8))
  }
}
