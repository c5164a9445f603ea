import Foundation
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct ResponseCacheTests {
  private func key(_ path: String) -> TransferKey { TransferKey(URLRequest(url: URL(string: "http://localhost/\(path)")!)) }

  private func entry(_ body: String, expiresAt: Date? = nil) -> CachedResponse {
    CachedResponse(
      head: ResponseHead(status: 200, headers: ["ETag": "\"1\"", "X-Name": "value"], url: URL(string: "http://localhost/a")!),
      body: Data(body.utf8), storedAt: Date(timeIntervalSince1970: 1_000_000), expiresAt: expiresAt)
  }

  private func files(in directory: TemporaryDirectory) throws -> [URL] {
    try FileManager.default.contentsOfDirectory(at: directory.url, includingPropertiesForKeys: nil).filter {
      $0.pathExtension == "response"
    }
  }

  @Test func whatWasAskedForBeforeAllWasRemovedDoesNotComeBack() throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let client = RequestClient(cache: cache)
    var request = Request(.get, "http://localhost/removed")
    request.cache = .revalidate
    let outgoing = Outgoing(urlRequest: try request.urlRequest(relativeTo: nil), body: .none)
    let key = TransferKey(outgoing.urlRequest)
    cache.store(entry("old"), for: key)
    let plan = try #require(CachePlan(request, outgoing, client))
    #expect(plan.stored == entry("old"))
    cache.removeAll()
    let url = try #require(outgoing.urlRequest.url)
    #expect(plan.revalidated(by: Exchange(head: ResponseHead(status: 304, headers: [:], url: entry("old").head.url), body: Data())) != nil)
    plan.store(Exchange(head: ResponseHead(status: 200, headers: ["ETag": "\"2\""], url: url), body: Data()))
    #expect(cache.response(for: key) == nil)
  }

  @Test func whatIsNotAcceptedIsNotTakenFromTheCache() throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    var request = Request(.get, "http://localhost/status")
    request.cache = .cachedThenFresh
    request.acceptedStatus = 201..<202
    let outgoing = Outgoing(urlRequest: try request.urlRequest(relativeTo: nil), body: .none)
    cache.store(entry("two hundred"), for: TransferKey(outgoing.urlRequest))
    #expect(CachePlan(request, outgoing, RequestClient(cache: cache))?.preview == nil)
  }

  @Test func entriesAreFoundInMemoryAndAfterwardsOnTheDisk() async throws {
    let directory = try TemporaryDirectory()
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 1_000_000, diskLimit: 1_000_000)
    cache.store(entry("one"), for: key("1"))
    #expect(cache.response(for: key("1")) == entry("one"))
    #expect(cache.response(for: key("2")) == nil)
    try await cache.flush()
    let later = try ResponseCache(directory: directory.url, memoryLimit: 1_000_000, diskLimit: 1_000_000)
    #expect(later.response(for: key("1")) == entry("one"))
    #expect(later.memoryWeight > 0)
    later.store(entry("two"), for: key("1"))
    try await later.flush()
    #expect(try files(in: directory).count == 1)
    #expect(try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000).response(for: key("1")) == entry("two"))
  }

  @Test func keysAreMethodAddressAndHeaders() throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    var request = URLRequest(url: URL(string: "http://localhost/a")!)
    request.setValue("de", forHTTPHeaderField: "Accept-Language")
    cache.store(entry("deutsch"), for: TransferKey(request))
    #expect(cache.response(for: key("a")) == nil)
    request.setValue("fr", forHTTPHeaderField: "Accept-Language")
    #expect(cache.response(for: TransferKey(request)) == nil)
    request.setValue("de", forHTTPHeaderField: "accept-language")
    #expect(cache.response(for: TransferKey(request)) == entry("deutsch"))
  }

  @Test func whatIsStoredForARequestCanBeLookedUp() throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let urlRequest = try Request(.get, "http://localhost/a", headers: ["Accept-Language": "de"]).urlRequest(relativeTo: nil)
    #expect(cache.response(to: urlRequest)?.value == nil)
    cache.store(entry("deutsch"), for: TransferKey(urlRequest))
    let found = try #require(cache.response(to: urlRequest))
    #expect(found.value == Data("deutsch".utf8) && found.source == .cache && found.headers["x-name"] == "value" && found.attempts == 0)
    #expect(cache.response(to: try Request(.get, "http://localhost/a").urlRequest(relativeTo: nil))?.value == nil)
  }

  @Test func theLeastRecentlyUsedLeavesMemoryFirst() throws {
    let weight = entry("0").weight
    let cache = try ResponseCache(directory: nil, memoryLimit: weight * 3, diskLimit: 0)
    for number in 0..<3 { cache.store(entry("\(number)"), for: key("\(number)")) }
    #expect(cache.response(for: key("0")) != nil)
    cache.store(entry("3"), for: key("3"))
    #expect(cache.response(for: key("1")) == nil)
    #expect([0, 2, 3].allSatisfy { cache.response(for: key("\($0)")) != nil })
    #expect(cache.memoryWeight == weight * 3)
    cache.store(entry(String(repeating: "x", count: weight * 3)), for: key("0"))
    #expect(cache.response(for: key("0")) == nil)
  }

  @Test func theLeastRecentlyUsedLeavesTheDiskFirst() async throws {
    let directory = try TemporaryDirectory()
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 30_000)
    let body = String(repeating: "x", count: 4000)
    for number in 0..<6 {
      cache.store(entry(body), for: key("\(number)"))
      try await cache.flush()
      let file = directory.url.appendingPathComponent(CacheFile.name(for: key("\(number)")))
      let used = Date(timeIntervalSinceNow: Double(number - 100))
      try FileManager.default.setAttributes([.modificationDate: used], ofItemAtPath: file.path)
    }
    #expect(cache.response(for: key("0")) != nil)  // used now
    cache.store(entry(body), for: key("6"))
    cache.store(entry(body), for: key("7"))
    try await cache.flush()
    #expect(cache.response(for: key("1")) == nil)
    #expect(cache.response(for: key("0")) != nil && cache.response(for: key("7")) != nil)
    let size = try files(in: directory).reduce(0) { try $0 + Data(contentsOf: $1).count }
    #expect(size <= 30_000)
    cache.store(entry(String(repeating: "x", count: 40_000)), for: key("0"))
    try await cache.flush()
    #expect(cache.response(for: key("0")) == nil)
  }

  @Test func aDamagedFileIsAMissAndIsRemoved() async throws {
    let directory = try TemporaryDirectory()
    let file = directory.url.appendingPathComponent(CacheFile.name(for: key("1")))
    let whole = try CacheFile.encode(entry("some body"), for: key("1"))
    var version = whole
    version[4] += 1
    var damages = [Data(), Data("nonsense".utf8), whole + Data([0]), version, try CacheFile.encode(entry("x"), for: key("2"))]
    for length in stride(from: 0, to: whole.count, by: 7) { damages.append(whole.prefix(length)) }
    for index in stride(from: 16, to: whole.count, by: 11) {
      var flipped = whole
      flipped[index] ^= 0x40
      damages.append(flipped)
    }
    for damaged in damages {
      try damaged.write(to: file)
      let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000)
      #expect(cache.response(for: key("1")) == nil)
      #expect(!FileManager.default.fileExists(atPath: file.path))
    }
    try whole.write(to: file)
    #expect(try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000).response(for: key("1")) != nil)
  }

  @Test func twoCachesOnOneDirectoryDoNoHarm() async throws {
    let directory = try TemporaryDirectory()
    let caches = try (0..<2).map { _ in try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 20_000) }
    let bodies = (0..<4).map { String(repeating: "\($0)", count: 3000) }
    await withTaskGroup(of: Void.self) { group in
      for (number, cache) in caches.enumerated() {
        group.addTask {
          for round in 0..<60 {
            let path = "\(round % 8)"
            cache.store(entry(bodies[(round + number) % 4]), for: key(path))
            if let found = cache.response(for: key(path)) { #expect(bodies.contains(String(decoding: found.body, as: UTF8.self))) }
          }
        }
      }
    }
    for cache in caches { try await cache.flush() }
    #expect(try files(in: directory).allSatisfy { try CacheFile.expiry(ofHeader: Data(contentsOf: $0)) != nil })
  }

  @Test func pendingWritesOutliveTheCache() async throws {
    let directory = try TemporaryDirectory()
    do {
      let cache = try ResponseCache(directory: directory.url, memoryLimit: 1_000_000, diskLimit: 10_000_000)
      for number in 0..<50 { cache.store(entry("\(number)"), for: key("\(number)")) }
    }
    let path = directory.url
    _ = try await eventually {
      ((try? FileManager.default.contentsOfDirectory(atPath: path.path)) ?? []).filter { $0.hasSuffix(".response") }.count == 50
    }
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 10_000_000)
    #expect((0..<50).allSatisfy { cache.response(for: key("\($0)")) == entry("\($0)") })
  }

  @Test func everythingOrWhatHasExpiredCanBeRemoved() async throws {
    let directory = try TemporaryDirectory()
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 1_000_000, diskLimit: 1_000_000)
    cache.store(entry("old", expiresAt: Date(timeIntervalSinceNow: -1)), for: key("old"))
    cache.store(entry("new", expiresAt: Date(timeIntervalSinceNow: 1000)), for: key("new"))
    cache.store(entry("for ever"), for: key("ever"))
    cache.removeExpired()
    try await cache.flush()
    #expect(try files(in: directory).count == 2)
    #expect(cache.response(for: key("old")) == nil && cache.response(for: key("new")) != nil && cache.response(for: key("ever")) != nil)
    cache.store(entry("last"), for: key("last"))
    cache.removeAll()
    try await cache.flush()
    #expect(try files(in: directory).isEmpty)
    #expect(["new", "ever", "last"].allSatisfy { cache.response(for: key($0)) == nil })
  }

  @Test func aDirectoryThatCannotBeWrittenIsToldByFlush() async throws {
    let directory = try TemporaryDirectory()
    let place = directory.url.appendingPathComponent("cache")
    let cache = try ResponseCache(directory: place, memoryLimit: 1_000_000, diskLimit: 1_000_000)
    try FileManager.default.removeItem(at: place)
    try Data().write(to: place)
    cache.store(entry("one"), for: key("1"))
    await #expect(throws: (any Error).self) { try await cache.flush() }
    try await cache.flush()
    #expect(cache.response(for: key("1")) == entry("one"))
    let file = try directory.file("file", Data())
    #expect(throws: (any Error).self) { try ResponseCache(directory: file, memoryLimit: 1, diskLimit: 1) }
    #expect(throws: RequestError.self) { try ResponseCache(directory: nil, memoryLimit: -1, diskLimit: 1) }
  }

  @Test func aDirectoryThatWasRemovedIsMadeAgain() async throws {
    let directory = try TemporaryDirectory()
    let place = directory.url.appendingPathComponent("cache/of/answers")
    let cache = try ResponseCache(directory: place, memoryLimit: 0, diskLimit: 1_000_000)
    cache.store(entry("one"), for: key("1"))
    try await cache.flush()
    try FileManager.default.removeItem(at: directory.url.appendingPathComponent("cache"))
    #expect(cache.response(for: key("1")) == nil)
    cache.removeExpired()
    cache.store(entry("two"), for: key("2"))
    try await cache.flush()
    #expect(cache.response(for: key("2")) == entry("two"))
  }

  @Test func whatAKilledWriterLeftBehindIsRemovedLater() throws {
    let directory = try TemporaryDirectory()
    let old = try directory.file("a.unfinished", Data([1]))
    let young = try directory.file("b.unfinished", Data([1]))
    let foreign = try directory.file("README", Data([1]))
    try FileManager.default.setAttributes([.modificationDate: Date(timeIntervalSinceNow: -7200)], ofItemAtPath: old.path)
    _ = try ResponseCache(directory: directory.url, memoryLimit: 1, diskLimit: 0)
    #expect(!FileManager.default.fileExists(atPath: old.path))
    #expect([young, foreign].allSatisfy { FileManager.default.fileExists(atPath: $0.path) })
  }
}
