import Synchronization

/// What a worker looks at after each item, without the queue's lock: which levels have ready work, and whether the queue wants its
/// attention.
///
/// Written under the lock, and only when it changes. It stands apart from what else is written, so that workers keep their copy of it while
/// others add work. A hint (relaxed): what it leads to is decided under the lock.
///
/// Apart from it, whether workers have kept nested work that nobody has taken in. That is written by workers, and no hint: see
/// `NestedWork`.
///
/// The queue's core owns the memory. A worker has a copy of the pointers, and runs only while the queue is there.
struct QueueHint: Sendable {
  struct Flags: OptionSet {
    let rawValue: UInt32

    /// Every worker had better look at the queue before it begins its next item.
    static let interrupt = Flags(rawValue: 1 << 8)
    /// A thread or a task waits for the queue, or for an owner's work in it.
    static let somebodyWaits = Flags(rawValue: 1 << 9)
    /// A graph's nodes have to go through the ready lists one by one.
    static let chainsYield = Flags(rawValue: 1 << 10)

    /// The levels with ready work: a bit for each, the lowest is the highest priority.
    static func ready(_ levels: UInt32) -> Flags { Flags(rawValue: levels) }
    static func above(_ level: Int) -> Flags { Flags(rawValue: 1 << UInt32(level) - 1) }
    static func level(_ level: Int) -> Flags { Flags(rawValue: 1 << UInt32(level)) }
    /// What comes before nested work of this level, if it is not kept in a deep list.
    static func olderThanNested(at level: Int) -> Flags { [.interrupt, .above(level), .level(level)] }
    /// What comes before it anyway.
    static func moreUrgentThanNested(at level: Int) -> Flags { [.interrupt, .above(level)] }
  }

  private let word: BorrowedStorage<Atomic<UInt32>>
  private let nestedFlag: BorrowedStorage<Atomic<Bool>>

  /// Two lines of 64 bytes for each of the two, for processors fetch them in pairs.
  static func makeMemory() -> ApartStorage { ApartStorage(capacity: 2, distance: 128) }

  init(in memory: borrowing ApartStorage) {
    word = memory.place(Atomic(0), at: 0)
    nestedFlag = memory.place(Atomic(false), at: 1)
  }

  /// Setting it to what it is writes nothing.
  var flags: Flags {
    get { Flags(rawValue: word[0].load(ordering: .relaxed)) }
    nonmutating set {
      if word[0].load(ordering: .relaxed) != newValue.rawValue { word[0].store(newValue.rawValue, ordering: .relaxed) }
    }
  }

  /// Whether nested work has been kept that is still to be taken in.
  var hasNestedWork: Bool { nestedFlag[0].load(ordering: .sequentiallyConsistent) }

  /// By a worker that has kept nested work.
  func noteNestedWork() { if !hasNestedWork { nestedFlag[0].store(true, ordering: .sequentiallyConsistent) } }

  /// Under the lock, before it is taken in.
  func forgetNestedWork() { nestedFlag[0].store(false, ordering: .sequentiallyConsistent) }

  /// Whether a worker with a batch of this level had better look at the queue before it begins its next item.
  func wantsAttention(at level: Int) -> Bool { !flags.isDisjoint(with: [.interrupt, .above(level)]) }

  /// Whether a worker that has run a graph's node of this level may run one that follows without a look at the queue.
  func mayGoOn(at level: Int) -> Bool { flags.isDisjoint(with: [.interrupt, .chainsYield, .above(level)]) }

  func hasReadyWork(at level: Int) -> Bool { flags.contains(.level(level)) }
}
