import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Answers of servers, in memory in front of files.
///
/// ```swift
/// let directory = FileManager.default.temporaryDirectory.appendingPathComponent("answers")
/// let cache = try ResponseCache(directory: directory, memoryLimit: 10_000_000, diskLimit: 100_000_000)
/// let client = RequestClient(baseURL: URL(string: "https://example.com"), cache: cache)
/// var request = Request(.get, "news")
/// request.cache = .forTime(.seconds(300))
/// ```
///
/// What is stored is in memory at once, and reaches its file in the background; the least recently used goes first where a limit is
/// passed. Files are replaced whole, and checked when they are read: a damaged one is none. Several caches, also of several processes,
/// may use one directory.
///
/// When the cache goes, pending writes are still made in the background. A process that exits without ``flush()`` loses those.
///
/// All members may be used from any thread.
///
/// Protocol: `memory` and `pending` are under one lock, the files under none. Writes are made in the order in which entries were stored,
/// on `writes`. A pending entry is found until its file is there, and a file that is to be removed is not found any more: `removals` has its
/// key until it has gone. `generation` counts the calls of `removeAll()`; a write of an earlier one is not made.
public final class ResponseCache: Sendable {
  private struct State {
    var memory = RecencyList<TransferKey, CachedResponse>()
    var pending: [TransferKey: (entry: CachedResponse, number: Int)] = [:]
    /// What is to be removed from the disk, with the number of the removal.
    var removals: [TransferKey: Int] = [:]
    /// How many removals there were. Who has read a file meanwhile may have read one that was to go.
    var removalCount = 0
    var number = 0
    var generation = 0
    var failure: (any Error)?
  }

  private let memoryLimit: Int
  private let directory: CacheDirectory?
  private let state: SharedState
  let writes = DispatchQueue(label: "OwnedRequests.cache", qos: .utility)

  /// What writes in the background need: they may outlive the cache.
  private typealias SharedState = Guarded<State>

  /// Makes a cache.
  /// - Parameters:
  ///   - directory: where the files are; made if it is not there. Nil for a cache in memory alone.
  ///   - memoryLimit: in bytes. What is larger goes to its file alone.
  ///   - diskLimit: in bytes.
  /// - Throws: if the directory can't be made; ``RequestError/invalidParameters(_:)`` if a limit is negative.
  public init(directory: URL?, memoryLimit: Int, diskLimit: Int64) throws {
    guard memoryLimit >= 0 else { throw RequestError.invalidParameters("memoryLimit is \(memoryLimit); it can't be negative") }
    guard diskLimit >= 0 else { throw RequestError.invalidParameters("diskLimit is \(diskLimit); it can't be negative") }
    self.memoryLimit = memoryLimit
    self.directory = try directory.map { try CacheDirectory($0, limit: diskLimit) }
    state = Guarded(State())
  }

  // MARK: Entries

  /// What is stored for a request, however old it is; nil if nothing is. From memory in constant time, otherwise read from its file.
  /// - Parameter urlRequest: as ``Request/urlRequest(relativeTo:)`` makes it, and with what the client's interceptors add.
  public func response(to urlRequest: URLRequest) -> Response<Data>? {
    response(for: TransferKey(urlRequest)).map { Response($0.body, $0.head, source: .cache, attempts: 0) }
  }

  func responseInMemory(for key: TransferKey) -> CachedResponse? { state.withLock { $0.memory.use(key) ?? $0.pending[key]?.entry } }

  func response(for key: TransferKey) -> CachedResponse? {
    if let found = responseInMemory(for: key) { return found }
    let (generation, removalCount, isRemoved) = state.withLock { ($0.generation, $0.removalCount, $0.removals[key] != nil) }
    guard let directory, !isRemoved, let entry = directory.read(key) else { return nil }
    var removed: [CachedResponse] = []
    return state.withLock { state in
      guard state.generation == generation, state.removalCount == removalCount else { return nil }
      // Something newer may have been stored, and written, meanwhile.
      if let newer = state.memory.use(key) ?? state.pending[key]?.entry { return newer }
      keep(entry, for: key, in: &state, removed: &removed)
      return entry
    }
  }

  /// Counts the calls of `removeAll()`.
  var generation: Int { state.withLock { $0.generation } }

  /// - Parameter expected: the generation that the answer was asked for in. It is not stored if that has passed.
  func store(_ entry: CachedResponse, for key: TransferKey, ifStill expected: Int? = nil) {
    var removed: [CachedResponse] = []
    let number = state.withLock { state -> (Int, Int)? in
      guard expected == nil || expected == state.generation else { return nil }
      state.number += 1
      if directory != nil { state.pending[key] = (entry, state.number) }
      state.removals[key] = nil
      keep(entry, for: key, in: &state, removed: &removed)
      return (state.number, state.generation)
    }
    guard let directory, let number else { return }
    writes.async { [state] in Self.write(key, number.0, number.1, state, directory) }
  }

  /// Removes one entry: what is found for it from now on was stored later.
  func remove(_ key: TransferKey, ifStill expected: Int) {
    var removed: [CachedResponse?] = []
    let number = state.withLock { state -> Int? in
      guard expected == state.generation else { return nil }
      state.number += 1
      state.removalCount += 1
      removed = [state.memory.remove(key), state.pending.removeValue(forKey: key)?.entry]
      if directory != nil { state.removals[key] = state.number }
      return state.number
    }
    withExtendedLifetime(removed) {}
    guard let directory, let number else { return }
    writes.async { [state] in
      guard state.withLock({ $0.removals[key] == number }) else { return }
      directory.remove(key)
      state.withLock { if $0.removals[key] == number { $0.removals[key] = nil } }
    }
  }

  private static func write(_ key: TransferKey, _ number: Int, _ generation: Int, _ state: SharedState, _ directory: CacheDirectory) {
    let entry = state.withLock { state -> CachedResponse? in
      // A newer entry brings a write of its own.
      guard state.generation == generation, let pending = state.pending[key], pending.number == number else { return nil }
      return pending.entry
    }
    guard let entry else { return }
    do { try directory.write(entry, for: key) } catch { state.withLock { $0.failure = $0.failure ?? error } }
    state.withLock { state in
      if state.pending[key]?.number == number { state.pending[key] = nil }
    }
  }

  /// Under the lock.
  private func keep(_ entry: CachedResponse, for key: TransferKey, in state: inout State, removed: inout [CachedResponse]) {
    guard entry.weight <= memoryLimit else {
      if let former = state.memory.remove(key) { removed.append(former) }
      return
    }
    if let former = state.memory.insert(entry, for: key, weight: entry.weight) { removed.append(former) }
    while state.memory.weight > memoryLimit, let oldest = state.memory.removeOldest() { removed.append(oldest.value) }
  }

  // MARK: Files

  /// Returns when everything that was stored before has reached its file.
  /// - Throws: the first error of a write since the last call, if there was one: the disk is full, the directory has gone. Such entries
  ///   are in memory alone.
  public func flush() async throws {
    await withCheckedContinuation { continuation in writes.async { continuation.resume() } }
    let failure = state.withLock { state in
      defer { state.failure = nil }
      return state.failure
    }
    if let failure { throw failure }
  }

  /// Removes every entry. When this returns none is found; blocks for as long as removing the files takes.
  public func removeAll() {
    var former = State()
    state.withLock { state in
      swap(&former, &state)
      state.number = former.number
      state.removalCount = former.removalCount
      state.generation = former.generation + 1
    }
    writes.sync { directory?.removeAll() }
  }

  /// Removes entries whose time (``CachePolicy/forTime(_:)``) has passed: from memory at once, from the disk in the background.
  public func removeExpired() {
    let now = Date()
    var removed: [CachedResponse] = []
    state.withLock { state in
      for (key, entry) in state.memory.entries where entry.expiresAt.map({ $0 <= now }) ?? false {
        if let entry = state.memory.remove(key) { removed.append(entry) }
      }
    }
    if let directory { writes.async { directory.removeExpired(at: now) } }
  }

  var pendingWeight: Int { state.withLock { $0.pending.values.reduce(0) { $0 + $1.entry.weight } } }
  var memoryWeight: Int { state.withLock { $0.memory.weight } }
}
