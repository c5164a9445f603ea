import Synchronization

/// Hands out identifiers and knows which of them belong to owners that are alive, without holding the owners.
///
/// Identifiers are cut into pages of 4,096, each with one bit per identifier, set when the owner ends. A page goes when every owner on it
/// has ended. So a living owner costs an eighth of a byte, and a process that runs for years keeps only the pages of those alive.
///
/// - `issue` and `isAlive` hold the lock for a few instructions.
/// - `markEnded` takes no lock unless it was the last on its page. A page can't go before every identifier on it has ended, so the holder
///   of a living identifier may touch its page freely. Of those who fill a word, the last has filled the page.
final class OwnerIDRegistry: Sendable {
  static let shared = OwnerIDRegistry()

  private let book: Locked<Book>

  private struct Book {
    var nextID: UInt64 = 1
    var pages: [UInt64: OwnerIDPage]
    var newestPage: OwnerIDPage
    var pageBefore: OwnerIDPage?

    mutating func beginPage(_ number: UInt64) {
      let page = OwnerIDPage(number: number)
      pages[number] = page
      pageBefore?.isRecent = false
      (pageBefore, newestPage) = (newestPage, page)
    }
  }

  init() {
    let page = OwnerIDPage(number: 0)
    _ = page.markEnded(0)  // zero is never issued
    book = Locked(Book(pages: [0: page], newestPage: page))
  }

  /// The next identifier, and its page. The page lives at least until `markEnded` is called for the identifier.
  func issue() -> (OwnerID, Borrowed<OwnerIDPage>) {
    book.withLock { book in
      let id = book.nextID
      book.nextID += 1
      if id % OwnerIDPage.size == 0 {
        book.beginPage(id / OwnerIDPage.size)
      }
      return (OwnerID(rawValue: id), Borrowed(book.newestPage))
    }
  }

  /// Call once for each identifier issued. The page may go with it.
  /// - Parameter registry: asked for only if the page goes. An end finds little of this in the caches.
  static func markEnded(_ id: OwnerID, on page: Borrowed<OwnerIDPage>?, in registry: @autoclosure () -> OwnerIDRegistry = .shared) {
    page?.with { page in
      if page.markEnded(id.rawValue) { registry().remove(page) }
    }
  }

  private func remove(_ page: OwnerIDPage) { book.withLock { $0.pages[page.number] = nil } }

  func isAlive(_ id: OwnerID) -> Bool {
    book.withLock { book in
      guard id.rawValue < book.nextID, let page = book.pages[id.rawValue / OwnerIDPage.size] else { return false }
      return !page.hasEnded(id.rawValue)
    }
  }

  /// How many pages are held: for the test that says memory stays flat.
  var pageCount: Int { book.withLock { $0.pages.count } }
}

final class OwnerIDPage: Sendable {
  static let size: UInt64 = 4096
  private static let wordCount = Int(size / 64)

  let number: UInt64
  /// Words that still have a bit clear.
  private let remaining = Atomic<Int>(wordCount)
  private let recent = Atomic(true)
  private let words = RawStorage<Atomic<UInt64>>(zeroes: wordCount)

  init(number: UInt64) {
    self.number = number
  }

  /// Whether it is the newest page, or the one before: whose identifier it is was made lately. A hint.
  var isRecent: Bool {
    get { recent.load(ordering: .relaxed) }
    set { recent.store(newValue, ordering: .relaxed) }
  }

  /// True when this was the last living identifier of the page.
  func markEnded(_ id: UInt64) -> Bool {
    let place = Int(id % Self.size)
    let word = words[place / 64].bitwiseOr(1 << UInt64(place % 64), ordering: .acquiringAndReleasing).newValue
    guard word == .max else { return false }
    return remaining.subtract(1, ordering: .acquiringAndReleasing).newValue == 0
  }

  func hasEnded(_ id: UInt64) -> Bool {
    let place = Int(id % Self.size)
    return words[place / 64].load(ordering: .acquiring) & (1 << UInt64(place % 64)) != 0
  }
}
