import Synchronization

/// Hands out identifiers and knows which of them belong to owners that are alive, without holding the owners.
///
/// Identifiers are cut into pages of 4,096, each with one bit per identifier, set when the owner ends. A page goes when every owner on it
/// has ended, so a living owner costs an eighth of a byte, and a process that makes owners for years keeps only
/// the pages of those alive.
///
/// - `issue` and `isAlive` hold the lock for a few instructions.
/// - `markEnded` takes no lock unless it was the last on its page: a page can't go before every identifier on it has ended, so
///   the holder of a living identifier may touch its page freely. Of those who fill a word, the last has filled the page.
final class OwnerIDRegistry: Sendable {
  static let shared = OwnerIDRegistry()

  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var nextID: UInt64 = 1
  nonisolated(unsafe) private var pages: [UInt64: OwnerIDPage] = [:]
  nonisolated(unsafe) private var newestPage: OwnerIDPage

  init() {
    newestPage = OwnerIDPage(number: 0)
    pages[0] = newestPage
    _ = newestPage.markEnded(0)  // zero is never issued
  }

  /// The next identifier, and its page. The page lives at least until `markEnded` is called for the identifier.
  func issue() -> (OwnerID, Unmanaged<OwnerIDPage>) {
    lock.lock()
    defer { lock.unlock() }
    let id = nextID
    nextID += 1
    if id % OwnerIDPage.size == 0 {
      newestPage = OwnerIDPage(number: id / OwnerIDPage.size)
      pages[newestPage.number] = newestPage
    }
    return (OwnerID(rawValue: id), .passUnretained(newestPage))
  }

  /// Call once for each identifier issued.
  func markEnded(_ id: OwnerID, on page: Unmanaged<OwnerIDPage>) {
    page._withUnsafeGuaranteedRef { page in
      guard page.markEnded(id.rawValue) else { return }
      lock.withLock { pages[page.number] = nil }
    }
  }

  func isAlive(_ id: OwnerID) -> Bool {
    lock.withLock {
      guard id.rawValue < nextID, let page = pages[id.rawValue / OwnerIDPage.size] else { return false }
      return !page.hasEnded(id.rawValue)
    }
  }

  /// How many pages are held: for the test that says memory stays flat.
  var pageCount: Int { lock.withLock { pages.count } }
}

final class OwnerIDPage: Sendable {
  static let size: UInt64 = 4096
  private static let wordCount = Int(size / 64)

  let number: UInt64
  /// Words that still have a bit clear.
  private let remaining = Atomic<Int>(wordCount)
  nonisolated(unsafe) private let words: UnsafeMutablePointer<Atomic<UInt64>>  // the pointer never changes; what it points to is atomic

  init(number: UInt64) {
    self.number = number
    words = .allocate(capacity: Self.wordCount)
    for index in 0..<Self.wordCount { (words + index).initialize(to: Atomic(0)) }
  }

  deinit {
    words.deinitialize(count: Self.wordCount)
    words.deallocate()
  }

  /// True when this was the last living identifier of the page.
  func markEnded(_ id: UInt64) -> Bool {
    let slot = Int(id % Self.size)
    let word = words[slot / 64].bitwiseOr(1 << UInt64(slot % 64), ordering: .releasing).newValue
    guard word == .max else { return false }
    return remaining.subtract(1, ordering: .acquiringAndReleasing).newValue == 0
  }

  func hasEnded(_ id: UInt64) -> Bool {
    let slot = Int(id % Self.size)
    return words[slot / 64].load(ordering: .acquiring) & (1 << UInt64(slot % 64)) != 0
  }
}
