import Foundation
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Numbers from a seed: what a thread does is the same each time.
private struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

/// Eight threads in one cache.
@Suite struct CacheThreadsTests {
  private static let threads = 8
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private static func key(_ number: Int) -> TransferKey { TransferKey(URLRequest(url: URL(string: "http://localhost/\(number)")!)) }

  /// One that tells by itself whether it is whole, and which version of which it is.
  private static func entry(_ number: Int, _ version: Int, expiresAt: Date? = nil) -> CachedResponse {
    CachedResponse(
      head: ResponseHead(status: 200, headers: ["X-Version": "\(version)"], url: URL(string: "http://localhost/\(number)")!),
      body: Data(repeating: UInt8(truncatingIfNeeded: number * 31 + version), count: 200 + number % 7 * 900),
      storedAt: Date(timeIntervalSince1970: 1_000_000), expiresAt: expiresAt)
  }

  private static func version(of entry: CachedResponse, _ number: Int) -> Int? {
    guard let version = entry.head.headers["X-Version"].flatMap({ Int($0) }) else { return nil }
    return entry == self.entry(number, version, expiresAt: entry.expiresAt) ? version : nil
  }

  /// Each on a thread of its own, however few processors there are.
  private func run(_ body: @escaping @Sendable (Int) -> Void) async {
    let group = DispatchGroup()
    for number in 0..<Self.threads {
      group.enter()
      Thread.detachNewThread {
        body(number)
        group.leave()
      }
    }
    await withCheckedContinuation { continuation in group.notify(queue: .global()) { continuation.resume() } }
  }

  private var files: [URL] {
    get throws { try FileManager.default.contentsOfDirectory(at: directory.url, includingPropertiesForKeys: nil) }
  }

  private func cache(memory: Int, disk: Int64) throws -> ResponseCache {
    try ResponseCache(directory: directory.url, memoryLimit: memory, diskLimit: disk)
  }

  // MARK: Counts

  /// Each thread has keys of its own and reads what it has stored, in memory or from its file, while others store and remove theirs.
  @Test(arguments: [0, 20_000, 10_000_000]) func eachThreadFindsWhatItHasStoredAndNothingElse(memoryLimit: Int) async throws {
    let cache = try cache(memory: memoryLimit, disk: 1_000_000_000)
    let (keys, rounds) = (16, 60)
    let (hits, misses, wrong) = (Guarded(0), Guarded(0), Guarded<[String]>([]))
    let last = Guarded<[Int: Int]>([:])
    await run { thread in
      var random = SplitMix(state: UInt64(thread))
      var stored: [Int: Int] = [:]
      for round in 0..<rounds {
        let number = thread * keys + Int.random(in: 0..<keys, using: &random)
        switch Int.random(in: 0..<8, using: &random) {
        case 0:
          cache.remove(Self.key(number), ifStill: 0)
          stored[number] = nil
        case 1...4:
          cache.store(Self.entry(number, round), for: Self.key(number))
          stored[number] = round
        default: break
        }
        let found = cache.response(for: Self.key(number))
        if found.flatMap({ Self.version(of: $0, number) }) != stored[number] || (found == nil) != (stored[number] == nil) {
          wrong.withLock { $0.append("\(number) in round \(round): \(String(describing: found?.head.headers["X-Version"]))") }
        }
        if found == nil { misses.withLock { $0 += 1 } } else { hits.withLock { $0 += 1 } }
      }
      last.withLock { $0.merge(stored) { _, _ in -1 } }
    }
    #expect(wrong.withLock { $0 }.isEmpty)
    #expect(hits.withLock { $0 } + misses.withLock { $0 } == Self.threads * rounds)
    #expect(hits.withLock { $0 } > 0 && misses.withLock { $0 } > 0)
    try await cache.flush()
    #expect(cache.memoryWeight <= memoryLimit && cache.pendingWeight == 0)
    let expected = last.withLock { $0 }
    let names = try files.map(\.lastPathComponent)
    #expect(Set(names) == Set(expected.keys.map { CacheFile.name(for: Self.key($0)) }) && names.count == expected.count)
    // Who comes later has only the files.
    let later = try self.cache(memory: 0, disk: 1_000_000_000)
    for number in 0..<Self.threads * keys {
      #expect(later.response(for: Self.key(number)).flatMap { Self.version(of: $0, number) } == expected[number], "entry \(number)")
    }
  }

  // MARK: Limits

  /// All threads use the same keys, and every kind of call. The limits are small, so that entries are evicted all the time.
  @Test func nothingIsDamagedAndLimitsHoldWhateverThreadsDoAtOnce() async throws {
    let (memoryLimit, diskLimit, keys, rounds) = (12_000, Int64(24_000), 24, 150)
    let cache = try cache(memory: memoryLimit, disk: diskLimit)
    let (past, future) = (Date(timeIntervalSinceNow: -1000), Date(timeIntervalSinceNow: 1000))
    let (damaged, tooMuch, hits, removals) = (Guarded(0), Guarded(0), Guarded(0), Guarded(0))
    await run { thread in
      var random = SplitMix(state: UInt64(1000 + thread))
      for round in 0..<rounds {
        let number = Int.random(in: 0..<keys, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<45:
          let expiresAt = [nil, past, future].randomElement(using: &random) ?? nil
          cache.store(Self.entry(number, thread * rounds + round, expiresAt: expiresAt), for: Self.key(number))
        case 45..<55: cache.remove(Self.key(number), ifStill: cache.generation)
        case 55: cache.removeExpired()
        case 56 where round > rounds / 4:
          cache.removeAll()
          removals.withLock { $0 += 1 }
        default:
          if let found = cache.response(for: Self.key(number)) {
            hits.withLock { $0 += 1 }
            if Self.version(of: found, number) == nil { damaged.withLock { $0 += 1 } }
          }
        }
        if cache.memoryWeight > memoryLimit { tooMuch.withLock { $0 += 1 } }
      }
    }
    #expect(damaged.withLock { $0 } == 0 && tooMuch.withLock { $0 } == 0)
    #expect(hits.withLock { $0 } > 0)
    #expect(cache.generation == removals.withLock { $0 } && cache.generation > 0)
    try await cache.flush()
    // The last of them may have removed all.
    cache.store(Self.entry(0, 1), for: Self.key(0))
    try await cache.flush()
    #expect(cache.pendingWeight == 0)
    // All that is counted is there, and of all that is there the cache knows.
    let inMemory = (0..<keys).compactMap { number in cache.responseInMemory(for: Self.key(number)).map { (number, $0) } }
    #expect(cache.memoryWeight == inMemory.reduce(0) { $0 + $1.1.weight })
    #expect(inMemory.allSatisfy { Self.version(of: $0.1, $0.0) != nil })
    let files = try files
    #expect(files.allSatisfy { $0.pathExtension == "response" })
    #expect(try files.reduce(0) { try $0 + Int64(Data(contentsOf: $1).count) } <= diskLimit)
    let later = try self.cache(memory: 0, disk: diskLimit)
    let onDisk = (0..<keys).filter { number in later.response(for: Self.key(number)).flatMap { Self.version(of: $0, number) } != nil }
    #expect(onDisk.count == files.count && !onDisk.isEmpty)
    cache.removeAll()
    try await cache.flush()
    #expect(try self.files.isEmpty)
    #expect((0..<keys).allSatisfy { cache.response(for: Self.key($0)) == nil } && cache.memoryWeight == 0)
  }

  // MARK: Readers

  /// Does something while an entry's file, which is in order, is about to be read.
  private func find(memoryLimit: Int, meanwhile: @escaping @Sendable (ResponseCache) -> Void) async throws -> CachedResponse? {
    let former = try cache(memory: 0, disk: 1_000_000)
    former.store(Self.entry(1, 1), for: Self.key(1))
    try await former.flush()
    let reading = Guarded<ResponseCache?>(nil)
    let cache = try ResponseCache(
      directory: directory.url, memoryLimit: memoryLimit, diskLimit: 1_000_000, leastPendingLimit: 1_000_000,
      willRead: { if let cache = reading.withLock({ $0 }) { meanwhile(cache) } })
    reading.withLock { $0 = cache }
    defer { reading.withLock { $0 = nil } }
    return cache.response(for: Self.key(1))
  }

  /// Each time that it is read.
  @Test func theRemovalOfOneEntryIsNothingToWhoReadsAnother() async throws {
    #expect(try await find(memoryLimit: 0) { $0.remove(Self.key(2), ifStill: 0) } == Self.entry(1, 1))
  }

  @Test func whatIsRemovedWhileItIsReadIsNotFound() async throws {
    let kept = Guarded<[ResponseCache]>([])
    let found = try await find(memoryLimit: 1_000_000) { cache in
      // Its file is still there until the test is over: the queue that removes it does nothing.
      cache.writes.suspend()
      cache.remove(Self.key(1), ifStill: 0)
      kept.withLock { $0.append(cache) }
    }
    let suspended = kept.withLock { kept in
      // A cache has what is done meanwhile, and that this list.
      defer { kept = [] }
      return kept
    }
    #expect(found == nil && suspended.count == 1)
    for cache in suspended { cache.writes.resume() }
  }

  /// Reads while the files are to be removed, and have yet to be. When the call has returned nothing is found.
  @Test(arguments: [0, 1_000_000]) func whatIsReadWhileAllIsRemovedIsNotFound(memoryLimit: Int) async throws {
    let cache = try cache(memory: memoryLimit, disk: 1_000_000)
    cache.store(Self.entry(1, 1), for: Self.key(1))
    try await cache.flush()
    cache.writes.suspend()
    let isRemoved = Guarded(false)
    Thread.detachNewThread {
      cache.removeAll()
      isRemoved.withLock { $0 = true }
    }
    #expect(try await soon { cache.generation == 1 })
    #expect(cache.response(for: Self.key(1)) == nil)
    #expect(isRemoved.withLock { !$0 })
    cache.writes.resume()
    #expect(try await soon { isRemoved.withLock { $0 } })
    #expect(cache.response(for: Self.key(1)) == nil && directory.names.isEmpty)
    // What comes later is kept, and read.
    cache.store(Self.entry(1, 2), for: Self.key(1))
    try await cache.flush()
    #expect(cache.response(for: Self.key(1)) == Self.entry(1, 2))
  }

  // MARK: Writers

  /// Does something while an entry is about to be written to its file. Then it is written, and what is left to do is done.
  private func write(_ cache: @Sendable (ResponseCache) -> Void, found: CachedResponse?) async throws {
    let (entered, gate) = (Journal<Int>(), Gate())
    defer { gate.open() }
    let subject = try ResponseCache(
      directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000, leastPendingLimit: 1_000_000,
      willWrite: {
        entered.write(1)
        gate.wait()
      })
    subject.store(Self.entry(1, 1), for: Self.key(1))
    try await entered.reaches(1)
    cache(subject)
    #expect(subject.response(for: Self.key(1)) == found)
    gate.open()
    try await subject.flush()
    #expect(subject.response(for: Self.key(1)) == found && subject.pendingWeight == 0)
    // Who comes later has only the file.
    #expect(try self.cache(memory: 0, disk: 1_000_000).response(for: Self.key(1)) == found)
  }

  @Test func whatIsStoredWhileAnOlderOneIsWrittenIsWrittenAfterIt() async throws {
    try await write({ $0.store(Self.entry(1, 2), for: Self.key(1)) }, found: Self.entry(1, 2))
  }

  @Test func whatIsRemovedWhileItIsWrittenIsNotFound() async throws {
    try await write({ $0.remove(Self.key(1), ifStill: 0) }, found: nil)
    #expect(directory.names.isEmpty)
  }

  // MARK: Readers and writers

  @Test func whatIsStoredWhileAnOlderOneIsReadIsFound() async throws {
    #expect(try await find(memoryLimit: 1_000_000) { $0.store(Self.entry(1, 2), for: Self.key(1)) } == Self.entry(1, 2))
    #expect(try await find(memoryLimit: 0) { $0.store(Self.entry(1, 2), for: Self.key(1)) } == Self.entry(1, 2))
  }
}
