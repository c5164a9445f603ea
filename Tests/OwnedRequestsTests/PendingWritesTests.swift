import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What waits to be written to the disk is bounded.
@Suite struct PendingWritesTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func key(_ number: Int) throws -> TransferKey {
    TransferKey(URLRequest(url: try #require(URL(string: "http://localhost/\(number)"))))
  }

  private func entry(_ number: Int, _ count: Int) throws -> CachedResponse {
    CachedResponse(
      head: ResponseHead(status: 200, headers: [:], url: try #require(URL(string: "http://localhost/a"))),
      body: Data(repeating: UInt8(number), count: count), storedAt: Date(timeIntervalSince1970: 1_000_000))
  }

  @Test func entriesThatWaitForAStalledDiskAreDroppedWhereTheyWouldFillMemory() async throws {
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 1_000_000, diskLimit: 1_000_000_000)
    let gate = Gate()
    cache.writes.async { gate.wait() }
    defer { gate.open() }
    let size = 1_000_000
    for number in 0..<50 { cache.store(try entry(number, size), for: try key(number)) }
    #expect(cache.pendingWeight <= 17_000_000)
    // The last ones are still found, and are written.
    #expect(cache.response(for: try key(49)) == (try entry(49, size)))
    gate.open()
    try await cache.flush()
    #expect(cache.pendingWeight == 0)
    let later = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000)
    #expect(later.response(for: try key(49)) == (try entry(49, size)))
    #expect(later.response(for: try key(0)) == nil)
  }

  @Test func oneThatIsLargerThanTheLimitIsWrittenAlone() async throws {
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000)
    cache.store(try entry(1, 20_000_000), for: try key(1))
    try await cache.flush()
    #expect(cache.response(for: try key(1)) == (try entry(1, 20_000_000)))
  }
}
