import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Entries that tell by themselves whether they are whole.
private enum Sample {
  static let keys = 24

  static func key(_ number: Int) -> TransferKey { TransferKey(URLRequest(url: URL(string: "http://localhost/\(number)")!)) }

  /// Of different lengths, the larger of them written in several calls.
  static func entry(_ number: Int, version: UInt8) -> CachedResponse {
    CachedResponse(
      head: ResponseHead(status: 200, headers: ["X-Number": "\(number)"], url: URL(string: "http://localhost/\(number)")!),
      body: Data(repeating: version, count: 1000 + number * 4000), storedAt: Date(timeIntervalSince1970: 1_000_000))
  }

  static func isWhole(_ entry: CachedResponse, _ number: Int) -> Bool {
    guard let version = entry.body.first else { return false }
    return entry == self.entry(number, version: version)
  }

  static func file(_ number: Int, in directory: URL) -> URL { directory.appendingPathComponent(CacheFile.name(for: key(number))) }

  static func names(in directory: URL, _ suffix: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasSuffix(suffix) }
  }
}

@Suite(.serialized) struct SharedCacheTests {
  @Test func aWriterThatIsKilledLeavesTheOldEntriesOrTheNewOnes() async throws {
    let directory = try TemporaryDirectory()
    for round in 1...6 {
      await #expect(processExitsWith: .signal(SIGKILL)) { [path = directory.url.path as String, round = round as Int] in
        let directory = URL(fileURLWithPath: path)
        let cache = try ResponseCache(directory: directory, memoryLimit: 0, diskLimit: 100_000_000)
        // One write follows the other, so that the kill comes in the middle of one or beside it.
        Task.detached {
          for turn in 0... {
            for number in 0..<Sample.keys {
              cache.store(Sample.entry(number, version: UInt8(round * 16 + turn % 16)), for: Sample.key(number))
            }
            try? await cache.flush()
          }
        }
        // Each round dies at another place: when one of its files has arrived, and the next is written.
        let last = (round * 7) % Sample.keys
        while true {
          let data = (try? Data(contentsOf: Sample.file(last, in: directory))) ?? Data()
          if let entry = CacheFile.decode(data, for: Sample.key(last)), entry.body.first.map({ $0 / 16 == round }) == true {
            kill(getpid(), SIGKILL)
          }
          // With one processor there is one thread for both.
          await Task.yield()
        }
      }
      var found = 0
      for number in 0..<Sample.keys {
        guard let data = try? Data(contentsOf: Sample.file(number, in: directory.url)) else { continue }
        found += 1
        let entry = CacheFile.decode(data, for: Sample.key(number))
        #expect(entry.map { Sample.isWhole($0, number) } == true, "entry \(number) after round \(round)")
      }
      #expect(found > 0)
      #expect(try Sample.names(in: directory.url, ".unfinished").count <= round)
    }
    // Whoever comes next goes on with what is there.
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 100_000_000)
    for number in 0..<Sample.keys { cache.store(Sample.entry(number, version: 200), for: Sample.key(number)) }
    try await cache.flush()
    for number in 0..<Sample.keys { #expect(cache.response(for: Sample.key(number)) == Sample.entry(number, version: 200)) }
  }

  /// Writes, reads and evicts for a while beside another process that does the same.
  private static func share(_ path: String, as participant: Int) async throws {
    let directory = URL(fileURLWithPath: path).appendingPathComponent("cache")
    let cache = try ResponseCache(directory: directory, memoryLimit: 0, diskLimit: 600_000)
    // Neither begins before the other is there.
    #expect(FileManager.default.createFile(atPath: "\(path)/ready-\(participant)", contents: nil))
    #expect(try await eventually { FileManager.default.fileExists(atPath: "\(path)/ready-\(1 - participant)") })
    var found = 0
    for turn in 0..<15 {
      for number in 0..<Sample.keys {
        cache.store(Sample.entry(number, version: UInt8(participant * 100 + turn)), for: Sample.key(number))
        guard let entry = cache.response(for: Sample.key((number * 5 + turn) % Sample.keys)) else { continue }
        found += 1
        #expect(Sample.isWhole(entry, (number * 5 + turn) % Sample.keys))
      }
      try await cache.flush()
    }
    #expect(found > 0)
  }

  @Test func twoProcessesOnOneDirectoryDoEachOtherNoHarm() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.url.path
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        await #expect(processExitsWith: .success) { [path = path as String] in try await Self.share(path, as: 0) }
      }
      group.addTask {
        await #expect(processExitsWith: .success) { [path = path as String] in try await Self.share(path, as: 1) }
      }
    }
    let place = directory.url.appendingPathComponent("cache")
    #expect(try Sample.names(in: place, ".unfinished").isEmpty)
    let names = try Sample.names(in: place, ".response")
    #expect(!names.isEmpty)
    // Each keeps the limit by what it knows, so that together they may pass it, until one looks again.
    let size = { try Sample.names(in: place, ".response").reduce(0) { try $0 + Data(contentsOf: place.appendingPathComponent($1)).count } }
    #expect(try size() <= 2 * 600_000)
    let cache = try ResponseCache(directory: place, memoryLimit: 0, diskLimit: 600_000)
    #expect(try size() <= 600_000)
    let left = (0..<Sample.keys).compactMap { number in cache.response(for: Sample.key(number)).map { Sample.isWhole($0, number) } }
    #expect(!left.isEmpty && left.allSatisfy { $0 })
  }
}
