/// The owner queues of a phase, by their lifetimes. Guarded by the queue's lock.
///
/// An owner queue without work is kept for the owner's next: to make one, have it join its lifetime and take it apart again costs several
/// times what a job does. How long it is kept depends on its lifetime, which it keeps in turn.
///
/// - A lifetime that is only dropped ends when nobody keeps it. Its owner queue goes in a sweep, or as soon as the queue has no work; if it
///   had barriers, when these are over.
/// - Where the end is announced, so does it, unless owners come back: half of those that were made since the last judgement, or more, had
///   been given up before. What is kept has to be told of the owner's end, which costs more than to make it for one who never comes back.
/// - If they do, it goes with the owner; or when the queue has rested for long (`QueueCore.tidyUpRest`); or in a sweep, if it had no work
///   since the last look.
///
/// A sweep is due when there are so and so many more. Where none is kept for owners who come back, it looks at twice as many as have come,
/// from where the last one has come to. So neither the cost for each owner queue made grows with their number, nor the time that others
/// wait for the lock, and of those without work no more are kept than there are others, or a few, as long as some come. Where they come
/// back, a sweep looks at all, but not before `rest` is over since the last: else owners that come again and again, but many of them, would
/// be taken for those that don't.
///
/// Most are found by the place that their owner has for one of them (`ClaimedPlace`), and only the others by the table.
struct OwnerQueueTable: ~Copyable {
  /// Lifetimes, by what becomes of them.
  enum Kind {
    case announced, dropped, all
  }

  private struct Part: ~Copyable {
    private static let smallest = 64
    var all = LinkedList<OwnerQueue>()
    /// Those that are not found otherwise.
    var byLifetime = PointerMap<OwnerQueue>()
    private var most = smallest
    /// How many a sweep has yet to look at: two for each that has come.
    private var unlooked = 0
    /// Looks in one hold of the lock.
    private static let looksAtOnce = 512

    var isSweepDue: Bool { all.count > most }
    var isSweepOverdue: Bool { all.count > 4 * most }

    mutating func insert(_ ownerQueue: OwnerQueue, of lifetime: OwnerLifetime, isPlaced: Bool) {
      unlooked += 2
      all.append(ownerQueue)
      ownerQueue.isInMap = !isPlaced
      if !isPlaced { byLifetime[lifetime] = ownerQueue }
    }

    /// - Returns: the reference that the table had.
    mutating func remove(_ ownerQueue: OwnerQueue) -> OwnerQueue {
      removeFromMap(ownerQueue)
      defer { if all.count < most / 4 { most = max(Self.smallest, all.count * 2) } }  // many have gone by themselves
      return all.remove(ownerQueue)
    }

    private mutating func removeFromMap(_ ownerQueue: OwnerQueue) {
      guard ownerQueue.isInMap, let lifetime = ownerQueue.unretainedLifetime else { return }
      ownerQueue.isInMap = false
      byLifetime[lifetime.address] = nil
    }

    /// Looks at twice as many as have come since the last sweep, as far as that goes at once; or at all.
    mutating func sweep(looksAtAll: Bool = false, _ isUnused: (OwnerQueue) -> Bool) -> [OwnerQueue] {
      let looks = looksAtAll ? all.count : min(unlooked, all.count, Self.looksAtOnce)
      let swept = all.take(lookingAt: looks, where: isUnused)
      for ownerQueue in swept { removeFromMap(ownerQueue) }
      if looksAtAll {
        putOff()
      } else {
        unlooked = min(unlooked - looks, all.count)  // no further than once round
        most = max(Self.smallest, all.count + Self.smallest)
      }
      return swept
    }

    /// No sweep until there are twice as many.
    mutating func putOff() {
      most = max(Self.smallest, all.count * 2)
      unlooked = 0
    }

    /// As `PointerMap.giveUpRoom`.
    mutating func giveUpRoom() { byLifetime.giveUpRoom() }
  }

  private var announced = Part()
  private var dropped = Part()
  private var lastSweep: UInt64 = 0
  private var (made, back) = (0, 0)
  /// As last judged.
  private(set) var keepsAnnounced = false
  /// In nanoseconds.
  static let rest: UInt64 = 5_000_000_000

  init() {}

  var count: Int { announced.all.count + dropped.all.count }
  var hasAnnounced: Bool { announced.all.count > 0 }

  /// The owner queue of the lifetime, if it was not placed when it was inserted.
  subscript(lifetime: OwnerLifetime) -> OwnerQueue? {
    lifetime.isEndAnnounced ? announced.byLifetime[lifetime] : dropped.byLifetime[lifetime]
  }

  /// - Parameters:
  ///   - isBack: one of the owner's has been given up.
  ///   - isPlaced: whether it is found by its place as long as it is here.
  mutating func insert(_ ownerQueue: OwnerQueue, of lifetime: OwnerLifetime, isBack: Bool, isPlaced: Bool) {
    if lifetime.isEndAnnounced {
      made += 1
      if isBack { back += 1 }
      announced.insert(ownerQueue, of: lifetime, isPlaced: isPlaced)
    } else {
      dropped.insert(ownerQueue, of: lifetime, isPlaced: isPlaced)
    }
  }

  /// How many references a table has to an owner queue that is in it.
  static func references(to ownerQueue: Borrowed<OwnerQueue>) -> Int { ownerQueue.with { $0.isInMap } ? 2 : 1 }

  /// It is in the table.
  /// - Returns: the reference that the table had.
  mutating func remove(_ ownerQueue: OwnerQueue) -> OwnerQueue {
    let isAnnounced = ownerQueue.unretainedLifetime.map { $0.with { $0.isEndAnnounced } } ?? false
    return isAnnounced ? announced.remove(ownerQueue) : dropped.remove(ownerQueue)
  }

  // MARK: Those without work

  var isSweepDue: Bool { announced.isSweepDue || dropped.isSweepDue }
  /// There are four times as many as would do for a sweep; or lifetimes are kept that are to end when nobody keeps them.
  var isSweepOverdue: Bool { announced.isSweepOverdue || dropped.isSweepDue }

  /// Nothing more is to come for now.
  mutating func giveUpRoom() {
    announced.giveUpRoom()
    dropped.giveUpRoom()
  }

  /// Whether owners come back, as far as can be told from those that came since this was asked last.
  mutating func judge() -> Bool {
    if made > 0 { keepsAnnounced = 2 * back >= made }
    (made, back) = (0, 0)
    return keepsAnnounced
  }

  /// Looks for those that are kept without need, if a sweep is due.
  /// - Parameter now: in nanoseconds of `Uptime`.
  /// - Returns: those, which are not in the table any more.
  mutating func sweep(now: UInt64) -> [OwnerQueue] {
    let swept = dropped.isSweepDue ? dropped.sweep { $0.isIdle } : []
    guard announced.isSweepDue else { return swept }
    guard judge() else { return swept + announced.sweep { $0.isIdle } }
    guard now > lastSweep + Self.rest else {
      announced.putOff()
      return swept
    }
    lastSweep = now
    return swept + announced.sweep(looksAtAll: true) { $0.hasRestedSinceLook && $0.isIdle }
  }

  /// Linear in the kind.
  func idle(_ kind: Kind) -> [OwnerQueue] {
    let first = kind == .dropped ? [] : announced.all.filter { $0.isIdle }
    return kind == .announced ? first : first + dropped.all.filter { $0.isIdle }
  }

  /// Those without work since the last look, or sweep, that looked at all. The others give up memory that they may not need. Linear.
  func restedSinceLook(_ pool: inout ChunkPool) -> [OwnerQueue] {
    announced.all.filter { ownerQueue in
      guard ownerQueue.isIdle else { return false }
      if ownerQueue.hasRestedSinceLook { return true }
      ownerQueue.giveUpSpareMemory(&pool)
      return false
    }
  }

  /// The body removes none but the one that it is given.
  func visit(_ body: (OwnerQueue) -> Void) {
    announced.all.visit(body)
    dropped.all.visit(body)
  }
}
