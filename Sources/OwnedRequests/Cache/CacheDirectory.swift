import Foundation

/// The files of a cache. Several processes may use one directory.
///
/// - An entry is written to a file of its own beside its place and renamed into it. So a reader, also after a kill, finds the old one or
///   the new one.
/// - What is read is checked; what is damaged is removed. Nobody trusts a list of files: each process lists them anew when its own count
///   says that
///   the limit may be passed.
/// - The time of a file's last change is the time of its last use.
/// - Writes, and removals to keep the limit, come from one queue. Reads come from any thread.
final class CacheDirectory: Sendable {
  let url: URL
  private let limit: Int64
  /// For tests: called before a file is read, or written.
  private let willRead: (@Sendable () -> Void)?
  private let willWrite: (@Sendable () -> Void)?
  /// How much may be there, for all that this process knows. Used on the queue of writes alone, and in `init`.
  private let knownSize = Guarded<Int64>(0)

  init(_ url: URL, limit: Int64, willRead: (@Sendable () -> Void)? = nil, willWrite: (@Sendable () -> Void)? = nil) throws {
    self.url = url
    self.limit = limit
    self.willRead = willRead
    self.willWrite = willWrite
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    var size: Int64 = 0
    for file in files() {
      // Left behind by a process that was killed while it wrote.
      if file.isUnfinished, file.used < Date(timeIntervalSinceNow: -3600) { try? FileManager.default.removeItem(at: file.url) }
      size += file.size
    }
    knownSize.withLock { $0 = size }
    keepLimit()
  }

  private struct File {
    let url: URL
    let size: Int64
    let used: Date
    let isUnfinished: Bool
  }

  private func files() -> [File] {
    let keys: [URLResourceKey] = [.fileSizeKey, .contentModificationDateKey]
    let urls = (try? FileManager.default.contentsOfDirectory(at: url, includingPropertiesForKeys: keys)) ?? []
    return urls.compactMap { url in
      guard ["response", "unfinished"].contains(url.pathExtension),
        let values = try? url.resourceValues(forKeys: [.fileSizeKey, .contentModificationDateKey])
      else { return nil }
      return File(
        url: url, size: Int64(values.fileSize ?? 0), used: values.contentModificationDate ?? .distantPast,
        isUnfinished: url.pathExtension == "unfinished")
    }
  }

  func read(_ key: TransferKey) -> CachedResponse? {
    let file = url.appendingPathComponent(CacheFile.name(for: key))
    willRead?()
    guard let data = try? Data(contentsOf: file) else { return nil }
    guard let entry = CacheFile.decode(data, for: key) else {
      try? FileManager.default.removeItem(at: file)
      return nil
    }
    try? FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: file.path)
    return entry
  }

  func write(_ entry: CachedResponse, for key: TransferKey) throws {
    let data = try CacheFile.encode(entry, for: key)
    guard Int64(data.count) <= limit else { return remove(key) }
    let file = url.appendingPathComponent(CacheFile.name(for: key))
    let unfinished = url.appendingPathComponent("\(UUID().uuidString).unfinished")
    willWrite?()
    do {
      // Whoever cleans up may take the directory along. What was in it has gone; what comes is kept.
      if !FileManager.default.fileExists(atPath: url.path) {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
      }
      try data.write(to: unfinished)
      guard rename(unfinished.path, file.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    } catch {
      try? FileManager.default.removeItem(at: unfinished)
      // Nor is an older answer to be found in its place.
      remove(key)
      throw error
    }
    knownSize.withLock { $0 += Int64(data.count) }
    keepLimit()
  }

  func remove(_ key: TransferKey) {
    try? FileManager.default.removeItem(at: url.appendingPathComponent(CacheFile.name(for: key)))
  }

  func removeAll() {
    for file in files() where !file.isUnfinished { try? FileManager.default.removeItem(at: file.url) }
    knownSize.withLock { $0 = 0 }
  }

  func removeExpired(at now: Date) {
    for file in files() where !file.isUnfinished {
      guard let handle = try? FileHandle(forReadingFrom: file.url) else { continue }
      let header = (try? handle.read(upToCount: CacheFile.headerLength)) ?? Data()
      try? handle.close()
      if (CacheFile.expiry(ofHeader: header) ?? 0) <= now.timeIntervalSince1970 { try? FileManager.default.removeItem(at: file.url) }
    }
  }

  /// Down to nine tenths, so that not every write has to list the files.
  private func keepLimit() {
    guard knownSize.withLock({ $0 }) > limit else { return }
    var files = files().sorted { $0.used < $1.used }
    var size = files.reduce(0) { $0 + $1.size }
    if size > limit {
      files.reverse()
      while size > limit / 10 * 9, let oldest = files.popLast() {
        guard !oldest.isUnfinished else { continue }
        try? FileManager.default.removeItem(at: oldest.url)
        size -= oldest.size
      }
    }
    knownSize.withLock { $0 = size }
  }
}
