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
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 10_000, diskLimit: 1_000_000_000, leastPendingLimit: 64_000)
    let gate = Gate()
    cache.writes.async { gate.wait() }
    defer { gate.open() }
    let size = 1_000
    for number in 0..<200 { cache.store(try entry(number, size), for: try key(number)) }
    #expect(cache.pendingWeight <= 66_000)
    // The last ones are still found, and are written.
    #expect(cache.response(for: try key(199)) == (try entry(199, size)))
    gate.open()
    await #expect(throws: RequestError.self) { try await cache.flush() }
    try await cache.flush()
    #expect(cache.pendingWeight == 0)
    let later = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000)
    #expect(later.response(for: try key(199)) == (try entry(199, size)))
    #expect(later.response(for: try key(0)) == nil)
  }

  @Test func noOlderAnswerIsFoundInThePlaceOfOneThatWasDropped() async throws {
    let first = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000)
    first.store(try entry(1, 10), for: try key(1))
    try await first.flush()
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000, leastPendingLimit: 64_000)
    let gate = Gate()
    cache.writes.async { gate.wait() }
    cache.store(try entry(2, 10), for: try key(1))
    for number in 2..<10 { cache.store(try entry(number, 10_000), for: try key(number)) }
    #expect(cache.response(for: try key(1)) == nil)
    gate.open()
    await #expect(throws: RequestError.self) { try await cache.flush() }
    #expect(cache.response(for: try key(1)) == nil)
    #expect(cache.response(for: try key(9)) == (try entry(9, 10_000)))
  }

  /// Holds each write until the test lets it go on.
  private final class Disk: Sendable {
    let writes = Journal<Int>()
    private let gates = [Gate(), Gate(), Gate(), Gate()]

    func write() {
      let number = writes.entries.count
      writes.write(number)
      gates[number].wait()
    }

    func pass(_ number: Int) { gates[number].open() }

    /// Returns when a write of that number is under way.
    func reaches(_ number: Int) async throws -> Bool { try await soon { self.writes.entries.count == number + 1 } }
  }

  private func cache(on disk: Disk) throws -> ResponseCache {
    try ResponseCache(
      directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000, leastPendingLimit: 64_000, willWrite: { disk.write() })
  }

  private func stored(_ number: Int) throws -> CachedResponse? {
    try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000).response(for: try key(number))
  }

  /// Who waits for an entry to be written finds it, or what has replaced it meanwhile.
  @Test func whatIsReplacedWhileItWaitsIsWrittenBeforeAFlushReturns() async throws {
    let disk = Disk()
    let cache = try cache(on: disk)
    cache.store(try entry(1, 10), for: try key(1))
    #expect(try await disk.reaches(0))
    cache.store(try entry(2, 10), for: try key(2))
    let flushed = Journal<Int>()
    let flush = Task {
      try await cache.flush()
      flushed.write(1)
    }
    #expect(try await soon { cache.flushCount == 1 })
    cache.store(try entry(3, 10), for: try key(2))
    disk.pass(0)
    #expect(try await disk.reaches(1))
    #expect(flushed.entries.isEmpty)
    disk.pass(1)
    try await flush.value
    #expect(try stored(2) == (try entry(3, 10)))
  }

  /// Nor does one that comes anew all the time hold up a flush, or what was stored after it.
  @Test func whatIsReplacedWhileItIsWrittenWaitsBehindOthers() async throws {
    let disk = Disk()
    let cache = try cache(on: disk)
    cache.store(try entry(1, 10), for: try key(1))
    #expect(try await disk.reaches(0))
    cache.store(try entry(2, 10), for: try key(2))
    cache.store(try entry(3, 10), for: try key(1))
    disk.pass(0)
    #expect(try await disk.reaches(1))
    #expect(try stored(1) == (try entry(1, 10)))
    let flush = Task { try await cache.flush() }
    disk.pass(1)
    #expect(try await disk.reaches(2))
    #expect(try stored(2) == (try entry(2, 10)))
    disk.pass(2)
    try await flush.value
    #expect(try stored(1) == (try entry(3, 10)))
  }

  @Test func oneThatIsLargerThanTheLimitIsWrittenAlone() async throws {
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000_000, leastPendingLimit: 64_000)
    cache.store(try entry(1, 80_000), for: try key(1))
    try await cache.flush()
    #expect(cache.response(for: try key(1)) == (try entry(1, 80_000)))
  }
}
