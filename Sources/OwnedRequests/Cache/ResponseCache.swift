import Foundation
import OwnedOperations

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
/// What is stored is in memory at once, and reaches its file in the background. Where a limit is passed, the least recently used goes
/// first. Files are replaced whole, and checked when they are read: a damaged one is none. Several caches, also of several processes, may
/// use one directory.
///
/// When the cache goes, pending writes are still made in the background. A process that exits without ``flush()`` loses those. Pending are
/// as many bytes as the memory's limit, and 64 MiB at least. Where more comes than is written, the oldest pending ones are not written;
/// ``flush()`` says so.
///
/// All members may be used from any thread.
public final class ResponseCache: Sendable {
  // Protocol: `memory` and `pending` are under one lock, the files under none.
  // - Writes and removals are made on `writes`, writes in the order in which entries were stored. `isWriting` says that a round of them is
  //   on its way there; so many stores bring no more than one.
  // - A pending entry is found until its file is there.
  // - A file that is to be removed is not found any more: `removals` has its key until it has gone. A key is pending or in `removals`.
  // - Whoever reads a file is counted in `readers`, and so are the removals of its key meanwhile: what was read may have been to go.
  // - `generation` counts the calls of `removeAll()`, which take away all that is pending.
  // - Until such a call has removed the files, none is read: what is there is to go. `removers` counts those calls.

  private struct State {
    var memory = RecencyList<TransferKey, CachedResponse>()
    var pending = RecencyList<TransferKey, Pending>()
    var isWriting = false
    /// What is to be removed from the disk, with the number of the removal.
    var removals: [TransferKey: Int] = [:]
    var readers: [TransferKey: Readers] = [:]
    var number = 0
    var generation = 0
    var removers = 0
    var flushes = 0
    var failure: (any Error)?
  }

  /// Of one file.
  private struct Readers {
    var count = 0
    /// While there was one.
    var removals = 0
  }

  private struct Pending {
    var entry: CachedResponse
    var number: Int
    /// The list is in this order: the number of the first entry for the key that has not reached its file, nor this one instead.
    var since: Int
  }

  /// What has to be done with a file.
  private struct FileChange {
    var key: TransferKey
    /// Nil if it is to be removed.
    var entry: CachedResponse?
    var number: Int
  }

  private static let leastPendingLimit = 64 << 20

  private let memoryLimit: Int
  private let pendingLimit: Int
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
  /// - Complexity: linear in the files that are there.
  public convenience init(directory: URL?, memoryLimit: Int, diskLimit: Int64) throws {
    try self.init(directory: directory, memoryLimit: memoryLimit, diskLimit: diskLimit, leastPendingLimit: Self.leastPendingLimit)
  }

  /// - Parameters:
  ///   - leastPendingLimit: another one for tests.
  ///   - willRead: for tests, called before a file is read.
  ///   - willWrite: for tests, called before a file is written.
  init(
    directory: URL?, memoryLimit: Int, diskLimit: Int64, leastPendingLimit: Int, willRead: (@Sendable () -> Void)? = nil,
    willWrite: (@Sendable () -> Void)? = nil
  ) throws {
    guard memoryLimit >= 0 else { throw RequestError.invalidParameters("memoryLimit is \(memoryLimit); it can't be negative") }
    guard diskLimit >= 0 else { throw RequestError.invalidParameters("diskLimit is \(diskLimit); it can't be negative") }
    self.memoryLimit = memoryLimit
    pendingLimit = max(memoryLimit, leastPendingLimit)
    self.directory = try directory.map { try CacheDirectory($0, limit: diskLimit, willRead: willRead, willWrite: willWrite) }
    state = Guarded(State())
  }

  // MARK: Entries

  /// What is stored for a request, however old it is; nil if nothing is. From memory, otherwise read from its file.
  /// - Parameter urlRequest: as ``Request/urlRequest(relativeTo:)`` makes it, and with what the client's interceptors add.
  /// - Complexity: linear in the request's fields; from its file, in the size of the response, too.
  public func response(to urlRequest: URLRequest) -> Response<Data>? {
    response(for: TransferKey(urlRequest)).map { Response($0.body, $0.head, source: .cache, attempts: 0) }
  }

  func responseInMemory(for key: TransferKey) -> CachedResponse? {
    state.withLock { $0.memory.use(key) ?? $0.pending.value(for: key)?.entry }
  }

  func response(for key: TransferKey) -> CachedResponse? {
    // What was read while it was removed is read again, though not without end.
    for _ in 0..<3 {
      if let found = responseInMemory(for: key) { return found }
      guard let directory, let begin = state.withLock({ Self.beginReading(key, &$0) }) else { return nil }
      let entry = directory.read(key)
      var removed: [CachedResponse] = []
      let (found, isOver) = state.withLock { state -> (CachedResponse?, Bool) in
        let wasRemoved = Self.endReading(key, since: begin, &state)
        guard let entry, state.generation == begin.generation else { return (nil, true) }
        // Something newer may have been stored, and written, meanwhile.
        if let newer = state.memory.use(key) ?? state.pending.value(for: key)?.entry { return (newer, true) }
        if wasRemoved { return (nil, false) }
        keep(entry, for: key, in: &state, removed: &removed)
        return (entry, true)
      }
      if isOver { return found }
    }
    return nil
  }

  /// Nil if the file is not to be found any more.
  private static func beginReading(_ key: TransferKey, _ state: inout State) -> (generation: Int, removals: Int)? {
    guard state.removals[key] == nil, state.removers == 0 else { return nil }
    state.readers[key, default: Readers()].count += 1
    return (state.generation, state.readers[key]?.removals ?? 0)
  }

  /// - Returns: whether it was removed since.
  private static func endReading(_ key: TransferKey, since begin: (generation: Int, removals: Int), _ state: inout State) -> Bool {
    guard var readers = state.readers[key] else { return true }
    readers.count -= 1
    state.readers[key] = readers.count > 0 ? readers : nil
    return readers.removals != begin.removals
  }

  /// For tests: how many have been in line.
  var flushCount: Int { state.withLock { $0.flushes } }

  /// Counts the calls of `removeAll()`.
  var generation: Int { state.withLock { $0.generation } }

  /// - Parameter expected: the generation that the answer was asked for in. It is not stored if that has passed.
  func store(_ entry: CachedResponse, for key: TransferKey, ifStill expected: Int? = nil) {
    var removed: [CachedResponse] = []
    let beginsRound = state.withLock { state -> Bool in
      guard expected == nil || expected == state.generation else { return false }
      state.number += 1
      keep(entry, for: key, in: &state, removed: &removed)
      guard let directory else { return false }
      state.removals[key] = nil
      if let former = state.pending.value(for: key) {
        let next = Pending(entry: entry, number: state.number, since: former.since)
        _ = state.pending.replace(next, for: key, weight: entry.weight)
        removed.append(former.entry)
        // Where some have to go, it is the newest.
        if state.pending.weight > pendingLimit {
          let last = Pending(entry: entry, number: state.number, since: state.number)
          state.pending.insert(last, for: key, weight: entry.weight)
        }
      } else {
        state.pending.insert(Pending(entry: entry, number: state.number, since: state.number), for: key, weight: entry.weight)
      }
      while state.pending.weight > pendingLimit, state.pending.count > 1, let oldest = state.pending.removeOldest() {
        removed.append(oldest.value.entry)
        // Nor is an older answer to be found in its place. If this one is just being written, it stays: the number is the same.
        state.removals[oldest.key] = oldest.value.number
        state.readers[oldest.key]?.removals += 1
        let failure = FileFailure(action: "keep all that waits to be written to", path: directory.url.path, code: ENOBUFS)
        state.failure = state.failure ?? RequestError.fileSystem(failure)
      }
      defer { state.isWriting = true }
      return !state.isWriting
    }
    if beginsRound { beginRound() }
  }

  /// Removes one entry: what is found for it from now on was stored later.
  func remove(_ key: TransferKey, ifStill expected: Int) {
    var removed: [CachedResponse?] = []
    let beginsRound = state.withLock { state -> Bool in
      guard expected == state.generation else { return false }
      state.number += 1
      state.readers[key]?.removals += 1
      removed = [state.memory.remove(key), state.pending.remove(key)?.entry]
      guard directory != nil else { return false }
      state.removals[key] = state.number
      defer { state.isWriting = true }
      return !state.isWriting
    }
    withExtendedLifetime(removed) {}
    if beginsRound { beginRound() }
  }

  private func beginRound() {
    guard let directory else { return }
    writes.async { [state, writes] in Self.writeAll(state, directory, writes) }
  }

  /// One round after the other, so that others on the queue have their turn between them.
  private static func writeAll(_ state: SharedState, _ directory: CacheDirectory, _ writes: DispatchQueue) {
    write(upTo: state.withLock { $0.number }, state, directory)
    let goesOn = state.withLock { state in
      state.isWriting = state.pending.count > 0 || !state.removals.isEmpty
      return state.isWriting
    }
    if goesOn { writes.async { writeAll(state, directory, writes) } }
  }

  /// On the queue of writes.
  private static func write(upTo last: Int, _ state: SharedState, _ directory: CacheDirectory) {
    while let change = state.withLock({ next(upTo: last, in: $0) }) {
      if let entry = change.entry {
        do { try directory.write(entry, for: change.key) } catch {
          state.withLock { state in
            state.failure = state.failure ?? error
            state.readers[change.key]?.removals += 1
          }
        }
      } else {
        directory.remove(change.key)
      }
      var former: Pending?
      state.withLock { state in
        // Otherwise something newer has come, or it was dropped.
        if let present = state.pending.value(for: change.key) {
          if present.number == change.number {
            former = state.pending.remove(change.key)
          } else if change.entry != nil {
            // As if it were stored just now: it waits behind all others.
            let next = Pending(entry: present.entry, number: present.number, since: state.number)
            state.pending.insert(next, for: change.key, weight: next.entry.weight)
          }
        }
        if state.removals[change.key] == change.number { state.removals[change.key] = nil }
      }
      withExtendedLifetime(former) {}
    }
  }

  private static func next(upTo last: Int, in state: State) -> FileChange? {
    if let (key, number) = state.removals.first(where: { $0.value <= last }) { return FileChange(key: key, number: number) }
    guard let (key, pending) = state.pending.first, pending.since <= last else { return nil }
    return FileChange(key: key, entry: pending.entry, number: pending.number)
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
  /// - Throws: the first error of a write since the last call, if there was one. The disk is full, its directory can't be made, or more was
  ///   waiting than is kept. Such entries are in memory alone, if they fit.
  /// - Complexity: linear in what has yet to be written.
  public func flush() async throws {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      let task = SuspendedTask(continuation)
      writes.async { [state, directory] in
        // What has come since the call is written, too: it may have come in the place of what was there.
        if let directory { Self.write(upTo: state.withLock { $0.number }, state, directory) }
        task.resume()
      }
      state.withLock { $0.flushes += 1 }
    }
    let failure = state.withLock { state in
      defer { state.failure = nil }
      return state.failure
    }
    if let failure { throw failure }
  }

  /// Removes every entry. When this returns none is found; blocks for as long as removing the files takes.
  /// - Complexity: linear in the entries.
  public func removeAll() {
    var former = State()
    state.withLock { state in
      swap(&former, &state)
      state.number = former.number
      state.readers = former.readers
      state.isWriting = former.isWriting
      state.generation = former.generation + 1
      state.removers = former.removers + 1
    }
    writes.sync { directory?.removeAll() }
    state.withLock { $0.removers -= 1 }
  }

  /// Removes entries whose time (``CachePolicy/forTime(_:)``) has passed: from memory at once, from the disk in the background.
  /// - Complexity: linear in the entries.
  public func removeExpired() {
    let now = Date()
    var removed: [CachedResponse] = []
    state.withLock { state in
      for (key, entry) in state.memory.entries where entry.expiresAt.map({ $0 <= now }) ?? false {
        if let entry = state.memory.remove(key) { removed.append(entry) }
      }
    }
    guard let directory else { return }
    let last = state.withLock { $0.number }
    writes.async { [state] in
      // What was stored before may expire as well.
      Self.write(upTo: last, state, directory)
      directory.removeExpired(at: now)
    }
  }

  var pendingWeight: Int { state.withLock { $0.pending.weight } }
  var memoryWeight: Int { state.withLock { $0.memory.weight } }
}
