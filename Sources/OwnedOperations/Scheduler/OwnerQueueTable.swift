/// The owner queues of a phase, by their lifetimes. Guarded by the queue's lock.
///
/// An owner queue without work is kept for the owner's next: to make one, have it join its lifetime and take it apart again costs several
/// times what a job does. How long it is kept depends on its lifetime, which it keeps in turn.
///
/// - A lifetime that is only dropped ends when nobody keeps it. Its owner queue goes in a sweep, or as soon as the queue has no work.
/// - Where the end is announced, so does it, unless owners come back: half of those that were made since the last judgement, or more, had
///   been given up before. What is kept has to be told of the owner's end, which costs more than to make it for one who never comes back.
/// - If they do, it goes with the owner; or when the queue has rested for long (`QueueCore.tidyUpRest`); or in a sweep, if it had no work
///   since the last look.
///
/// A sweep is due when there are more than twice as many of a kind as the last one has left. So the cost for each owner queue made is
/// constant. Those that come back are passed by until `rest` is over since the last: else owners that come again and again, but many of
/// them, would be taken for those that don't.
struct OwnerQueueTable: ~Copyable {
  /// Lifetimes, by what becomes of them.
  enum Kind {
    case announced, dropped, all
  }

  private struct Part: ~Copyable {
    private static let smallest = 64
    var byLifetime = PointerMap<OwnerQueue>()
    private var most = smallest

    var isSweepDue: Bool { byLifetime.count > most }
    var isSweepOverdue: Bool { byLifetime.count > 4 * most }

    mutating func sweep(_ isUnused: (OwnerQueue) -> Bool) -> [OwnerQueue] {
      let swept = byLifetime.filter(isUnused)
      // One by one, or all others are moved.
      if swept.count * 2 < byLifetime.count {
        for ownerQueue in swept { if let lifetime = ownerQueue.lifetime { byLifetime[lifetime] = nil } }
      } else {
        for ownerQueue in swept { ownerQueue.isRemoved = true }
        _ = byLifetime.removeThose { $0.isRemoved }
      }
      putOff()
      return swept
    }

    /// No sweep until there are twice as many.
    mutating func putOff() { most = max(Self.smallest, byLifetime.count * 2) }

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

  var count: Int { announced.byLifetime.count + dropped.byLifetime.count }
  var hasAnnounced: Bool { !announced.byLifetime.isEmpty }

  subscript(lifetime: OwnerLifetime) -> OwnerQueue? {
    lifetime.isEndAnnounced ? announced.byLifetime[lifetime] : dropped.byLifetime[lifetime]
  }

  /// - Parameter isBack: one of the owner's has been given up.
  mutating func insert(_ ownerQueue: OwnerQueue, of lifetime: OwnerLifetime, isBack: Bool) {
    if lifetime.isEndAnnounced {
      made += 1
      if isBack { back += 1 }
      announced.byLifetime[lifetime] = ownerQueue
    } else {
      dropped.byLifetime[lifetime] = ownerQueue
    }
  }

  mutating func remove(_ lifetime: OwnerLifetime) {
    if lifetime.isEndAnnounced { announced.byLifetime[lifetime] = nil } else { dropped.byLifetime[lifetime] = nil }
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

  /// Looks for those that are kept without need, if a sweep is due. Linear in the kind.
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
    return swept + announced.sweep { $0.hasRestedSinceLook && $0.isIdle }
  }

  /// Linear in the kind.
  func idle(_ kind: Kind) -> [OwnerQueue] {
    let first = kind == .dropped ? [] : announced.byLifetime.filter { $0.isIdle }
    return kind == .announced ? first : first + dropped.byLifetime.filter { $0.isIdle }
  }

  /// Those without work since the last look, or sweep, that looked at all. The others give up memory that they may not need. Linear.
  func restedSinceLook(_ pool: inout ChunkPool) -> [OwnerQueue] {
    announced.byLifetime.filter { ownerQueue in
      guard ownerQueue.isIdle else { return false }
      if ownerQueue.hasRestedSinceLook { return true }
      ownerQueue.giveUpSpareMemory(&pool)
      return false
    }
  }

  /// In no particular order.
  func visit(_ body: (OwnerQueue) -> Void) {
    announced.byLifetime.visit(body)
    dropped.byLifetime.visit(body)
  }
}
