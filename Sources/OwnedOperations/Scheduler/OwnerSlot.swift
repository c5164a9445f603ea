/// What a queue knows of one owner: its pending work by priority, and how much of it is unfinished and executing.
///
/// Guarded by the queue's lock, but for the constants. A slot is a member of its owner's lifetime and so hears of the end; the slot of
/// work without an owner has no lifetime.
final class OwnerSlot: LifetimeMember {
  let lifetime: OwnerLifetime?
  /// The same, for those who must not count references: the count is in a cache line that other threads want.
  let unretainedLifetime: Borrowed<OwnerLifetime>?
  /// Hears of the end; may outlive the queue.
  private let listener: (any OwnerEndListener)?
  /// The phase that it is in. Valid until `isRemoved`, under the lock; `BarrierPhase.swift` says what it is.
  let unretainedHome: Borrowed<AnyObject>

  /// Retained.
  private typealias Lanes = (Borrowed<Lane>?, Borrowed<Lane>?, Borrowed<Lane>?, Borrowed<Lane>?, Borrowed<Lane>?)

  static let memberKind: MemberKind = MemberKindOf<OwnerSlot>()
  nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock

  // Guarded by the queue's lock.
  nonisolated(unsafe) private var lanes: Lanes = (nil, nil, nil, nil, nil)
  /// Of its lines that have work. Most owners never have one.
  nonisolated(unsafe) private var lines: LineLanes?
  /// Pending, taken by a worker, or executing.
  nonisolated(unsafe) private(set) var unfinished = 0
  /// Counts `unfinished` of all phases while somebody waits for the owner.
  nonisolated(unsafe) var awaited: OwnerWait?
  /// Taken by a worker or executing, asynchronous operations included.
  nonisolated(unsafe) var executing = 0
  /// The part of `executing` that has yielded its permit: it waits for work of the queue.
  nonisolated(unsafe) var yielded = 0
  /// The part of `yielded` whose wait is over: it goes on before anything else of the owner begins.
  nonisolated(unsafe) var returning = 0
  /// The part of `returning` that waits for a line, and so holds up nothing else.
  nonisolated(unsafe) var returningBehindLine = 0
  nonisolated(unsafe) var isSuspended = false
  /// Only its own bodies hold the owner; see `OwnerHold`.
  nonisolated(unsafe) var isHeldBack = false
  nonisolated(unsafe) var hasEnded = false
  /// The last batch that was taken before the owner's work was cancelled last: what a worker puts back of that one is cancelled, too.
  nonisolated(unsafe) var cancelledUpTo: UInt64 = 0

  /// Taken out of its phase, which may be gone: a call that was on its way finds nothing left to do.
  nonisolated(unsafe) var isRemoved = false

  init(lifetime: OwnerLifetime?, home: AnyObject, listener: (any OwnerEndListener)?, isSuspended: Bool) {
    self.lifetime = lifetime
    unretainedLifetime = lifetime.map { Borrowed($0) }
    unretainedHome = Borrowed(home)
    self.listener = listener
    self.isSuspended = isSuspended
  }

  deinit {
    for level in 0..<PriorityLevel.count { if let lane = unretainedLanes(level) { Retained(adopting: lane).release() } }
  }

  /// Whether the owner may still have work started. Asked after the work is claimed: this load decides.
  var mayStart: Bool { unretainedLifetime?.with { $0.isAlive } ?? true || Mutation.jobSkipsTheLifetime.isOn }

  /// Whether the owner's turn has to wait.
  @inline(__always)
  func isHeld(_ ownerLimit: Int) -> Bool {
    isSuspended || isHeldBack || ownerLimit != .max && (executing - yielded >= ownerLimit || returning > returningBehindLine)
  }

  @inline(__always)
  func changeUnfinished(by count: Int) {
    unfinished += count
    guard let awaited else { return }
    if awaited.isOver { self.awaited = nil } else { awaited.change(by: count) }
  }

  /// Nothing refers to the slot or its lanes.
  var isIdle: Bool {
    unfinished == 0 && executing == 0 && (0..<PriorityLevel.count).allSatisfy { lane(at: $0)?.work.count ?? 0 == 0 }
  }

  func lane(at level: Int) -> Lane? { unretainedLanes(level)?.object }

  func makeLane(at level: Int) -> Lane { unretainedLane(at: level).object }

  /// The same, for those who must not count references.
  @inline(__always)
  func unretainedLane(at level: Int) -> Borrowed<Lane> { unretainedLanes(level) ?? addLane(at: level) }

  @inline(__always)
  private func unretainedLanes(_ level: Int) -> Borrowed<Lane>? {
    switch level {
    case 0: lanes.0
    case 1: lanes.1
    case 2: lanes.2
    case 3: lanes.3
    default: lanes.4
    }
  }

  private func addLane(at level: Int) -> Borrowed<Lane> {
    let lane = Retained(Lane(slot: self)).borrowed
    switch level {
    case 0: lanes.0 = lane
    case 1: lanes.1 = lane
    case 2: lanes.2 = lane
    case 3: lanes.3 = lane
    default: lanes.4 = lane
    }
    return lane
  }

  /// All that have work at this level, and maybe others.
  func forEachLane(at level: Int, _ body: (Lane) -> Void) {
    if let lane = lane(at: level) { body(lane) }
    if level == LineKey.level { lines?.byKey.visit(body) }
  }

  /// Whether it has, or has had, lines.
  var hasLines: Bool { lines != nil }

  func lane(of line: LineKey) -> Lane? { lines?.byKey[line] }

  func makeLane(of line: LineKey) -> Lane {
    if let lane = lane(of: line) { return lane }
    let lines = lines ?? LineLanes()
    self.lines = lines
    let lane = Lane(slot: self, line: LineTurns(of: line, self))
    lines.byKey[line] = lane
    return lane
  }

  /// A line's lane goes when its work is over. One that is in a ready ring still has no tickets but void ones.
  func removeIfIdle(_ lane: Lane) {
    guard let line = lane.line, lane.work.count == 0, line.executing == 0 else { return }
    lines?.byKey[line.key] = nil
  }

  /// The slot is about to go.
  func leaveBorrowedChunks() {
    for level in 0..<PriorityLevel.count { forEachLane(at: level) { $0.work.leaveBorrowedChunks() } }
  }

  func lifetimeDidEnd() {
    listener?.ownerDidEnd(self)
  }
}

/// Whoever is to do what an owner's end asks for: a queue, as far as slots know.
protocol OwnerEndListener: AnyObject, Sendable {
  func ownerDidEnd(_ slot: OwnerSlot)
}

/// Slots that have been taken out of their phases and have yet to leave their lifetimes. Guarded by the queue's lock.
///
/// To leave may mean to let go of the last reference to a lifetime, or to other pending work of the owner, whose hooks and deinits are the
/// user's code. So it is done after unlocking, in the background.
final class SlotDepartures {
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var slots: [OwnerSlot] = []

  static func complete(_ slots: consuming [OwnerSlot]) {
    guard !slots.isEmpty else { return }
    for slot in copy slots { slot.lifetime?.leave(slot) }
    DeferredReleases.add(contentsOf: slots)
  }
}

/// A box, because most slots have none.
private final class LineLanes {
  @exclusivity(unchecked) var byKey = PointerMap<Lane>()
}

/// The pending work of one owner at one priority, or in one line, in order. Guarded by the queue's lock.
final class Lane {
  /// The slot keeps its lanes. A lane that outlives it, in a ready ring, has no work left and doesn't look.
  let unretainedSlot: Borrowed<OwnerSlot>
  var slot: OwnerSlot { unretainedSlot.object }
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var work = WorkList()
  /// Tickets in the ready ring whose work has been cancelled. They come up before those of younger work.
  var voidTickets = 0
  /// Tickets that came up while the owner was suspended or at its limit.
  @exclusivity(unchecked) var held = HeldTickets()
  /// Round robin: whether the lane waits for its turn.
  var isInRing = false
  /// If it is a line's.
  let line: LineTurns?

  init(slot: OwnerSlot, line: LineTurns? = nil) {
    unretainedSlot = Borrowed(slot)
    self.line = line
  }
}

/// What the scheduler knows a line by: jobs of one owner of which one runs at a time, see `SerialLine`. It keeps nothing.
final class LineKey: Sendable {
  nonisolated(unsafe) var isClosed = false  // guarded by the queue's lock

  /// Of normal priority.
  static let level = PriorityLevel.of(.normal)
}

/// How much of a line is in the hands of workers. Guarded by the queue's lock.
final class LineTurns {
  let key: LineKey
  private let unretainedSlot: Borrowed<OwnerSlot>  // which keeps the lane, and that this
  /// Taken by a worker and not over.
  var executing = 0 { didSet { countReturning() } }
  /// The part of `executing` that has yielded: it waits for work of the queue.
  var yielded = 0 { didSet { countReturning() } }
  /// The part of `yielded` whose wait is over.
  var returning = 0 { didSet { countReturning() } }
  /// As the slot has it.
  private var returningBehindLine = 0

  init(of key: LineKey, _ slot: OwnerSlot) {
    self.key = key
    unretainedSlot = Borrowed(slot)
  }

  var isRunning: Bool { executing > yielded }

  /// Those that return and wait for the line hold up nothing else of their owner.
  private func countReturning() {
    let count = isRunning ? returning : 0
    guard count != returningBehindLine else { return }
    unretainedSlot.with { $0.returningBehindLine += count - returningBehindLine }
    returningBehindLine = count
  }

  /// Whether the next has to wait.
  var isHeld: Bool { (isRunning || returning > 0) && !Mutation.lineRunsSideBySide.isOn }
}

extension Lane {
  @inline(__always)
  var isLineHeld: Bool { line?.isHeld ?? false }
}
