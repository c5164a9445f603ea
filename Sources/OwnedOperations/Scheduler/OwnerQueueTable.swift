/// The owner queues of a phase, by their lifetimes. Guarded by the queue's lock.
///
/// An owner queue without work is kept for the owner's next: to make one, have it join its lifetime and take it apart again costs several
/// times what a job does. How long it is kept depends on its lifetime, which it keeps in turn.
///
/// - Where the end is announced, it goes with the owner; or when the queue has rested for long (`QueueCore.tidyUpRest`); or in a sweep, if
///   it had no work since the last look.
/// - A lifetime that is only dropped ends when nobody keeps it. Its owner queue goes in a sweep, or as soon as the queue has no work.
///
/// A sweep is due when there are more than twice as many of a kind as the last one has left. So the cost for each owner queue made is
/// constant. The announced are passed by until `rest` is over since the last: else owners that come again and again, but many of them,
/// would be taken for those that don't.
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

    mutating func sweep(_ isUnused: (OwnerQueue) -> Bool) -> [OwnerQueue] {
      let swept = byLifetime.filter(isUnused)
      most = max(Self.smallest, (byLifetime.count - swept.count) * 2)
      return swept
    }
  }

  private var announced = Part()
  private var dropped = Part()
  private var lastSweep: UInt64 = 0
  /// In nanoseconds.
  static let rest: UInt64 = 5_000_000_000

  init() {}

  var count: Int { announced.byLifetime.count + dropped.byLifetime.count }
  var hasAnnounced: Bool { !announced.byLifetime.isEmpty }

  subscript(lifetime: OwnerLifetime) -> OwnerQueue? {
    lifetime.isEndAnnounced ? announced.byLifetime[lifetime] : dropped.byLifetime[lifetime]
  }

  mutating func insert(_ ownerQueue: OwnerQueue, of lifetime: OwnerLifetime) {
    if lifetime.isEndAnnounced { announced.byLifetime[lifetime] = ownerQueue } else { dropped.byLifetime[lifetime] = ownerQueue }
  }

  mutating func remove(_ lifetime: OwnerLifetime) {
    if lifetime.isEndAnnounced { announced.byLifetime[lifetime] = nil } else { dropped.byLifetime[lifetime] = nil }
  }

  // MARK: Those without work

  var isSweepDue: Bool { announced.isSweepDue || dropped.isSweepDue }

  /// Looks for those that are kept without need, if a sweep is due. Linear in the kind.
  /// - Parameter now: in nanoseconds of `Uptime`.
  /// - Returns: those, which the caller is to remove.
  mutating func sweep(now: UInt64) -> [OwnerQueue] {
    let swept = dropped.isSweepDue ? dropped.sweep { $0.isIdle } : []
    guard announced.isSweepDue else { return swept }
    guard now > lastSweep + Self.rest else { return swept + announced.sweep { _ in false } }
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
