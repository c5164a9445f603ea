import Synchronization

/// What a queue knows of one owner: its pending work by priority, and how much of it is unfinished and executing.
///
/// Guarded by the queue's lock, but for what is constant. An owner queue is a member of its owner's lifetime, and so is told of the end.
/// The owner queue of work without an owner has no lifetime.
final class OwnerQueue: MemberToldWithOthers, Linked, @unchecked Sendable {  // guarded as said above, but for `memberIndex`
  // First what each job touches, so that it shares a cache line or two.

  /// `lifetime`, for those who must not count references: the count is in a cache line that other threads want.
  private(set) var unretainedLifetime: Borrowed<OwnerLifetime>?
  /// The phase that it is in. Valid until `isRemoved`, under the lock; `BarrierPhase.swift` says what it is.
  private(set) var unretainedHome: Borrowed<AnyObject>

  // Guarded by the queue's lock.
  /// Pending, taken by a worker, or executing.
  private(set) var unfinished = 0
  /// Counts `unfinished` of all phases while somebody waits for the owner.
  var awaited: OwnerWait?
  /// Taken by a worker or executing, asynchronous operations included.
  var executing = 0
  var isSuspended = false
  /// Only its own bodies hold the owner; see `OwnerHold`.
  var isHeldBack = false
  var hasEnded = false
  /// Taken out of its phase, which may be gone: a call that was on its way finds nothing left to do.
  var isRemoved = false
  /// Had work since `hasRestedSinceLook` was asked last.
  private var hasBeenUsed = true
  /// What `unfinished` comes to, for who doesn't have the queue's lock.
  private let pendingAmount = Atomic(PendingAmount.none.rawValue)
  private var flows: Flows = (nil, nil, nil, nil, nil)

  /// The flows of its lines that have work. Most owners never have one.
  private var lines: LineFlows?
  /// The part of `executing` that has yielded its permit: it waits for work of the queue.
  var yielded = 0
  /// The part of `yielded` whose wait is over: it goes on before anything else of the owner begins.
  var returning = 0
  /// The part of `returning` that waits for a line, and so holds up nothing else.
  var returningBehindLine = 0
  /// The last batch that was taken before the owner's work was cancelled last: what a worker puts back of that one is cancelled, too.
  var cancelledUpTo: UInt64 = 0

  // Constants; the lifetime as long as it is one owner's, see `begin`.
  private(set) var lifetime: OwnerLifetime?
  /// Hears of the end; may outlive the queue, and leads to its heir then.
  private let listener: (any OwnerEndListener)?

  /// In its phase.
  var links = Links<OwnerQueue>()
  /// See `OwnerQueueTable.insert`.
  var isInMap = false

  // What others guard.
  static let memberKind: MemberKind = MemberKind(of: OwnerQueue.self)
  var memberIndex = MemberList.notListed  // guarded by the lifetime's lock

  /// Retained.
  private typealias Flows = (Borrowed<Flow>?, Borrowed<Flow>?, Borrowed<Flow>?, Borrowed<Flow>?, Borrowed<Flow>?)

  init(lifetime: OwnerLifetime?, home: AnyObject, listener: (any OwnerEndListener)?, isSuspended: Bool) {
    self.lifetime = lifetime
    unretainedLifetime = lifetime.map { Borrowed($0) }
    unretainedHome = Borrowed(home)
    self.listener = listener
    self.isSuspended = isSuspended
  }

  /// It has left its phase and its lifetime, and nobody else holds it: gives up what was the owner's, and can be another's of the same
  /// queue then (`begin`). Its flows stay, with room for a few items, so that owners who come and go cost no memory of malloc's here.
  /// Without the lock: it may let go of the lifetime.
  func becomeSpare() {
    (lifetime, unretainedLifetime, lines, awaited) = (nil, nil, nil, nil)
    (isSuspended, isHeldBack, hasBeenUsed) = (false, false, true)
    if !Mutation.spareHasEnded.isOn { hasEnded = false }
    cancelledUpTo = 0
  }

  /// A spare one: void tickets may still stand in a run queue, under whose lock this is.
  func dropFlowsInUse() {
    for level in 0..<PriorityLevel.count {
      if let flow = unretainedFlows(level), flow.referenceCount > 1 || !flow.with({ $0.isFitForAnother }) {
        setFlow(nil, at: level)
        Retained(adopting: flow).release()
      }
    }
  }

  /// A spare one is this owner's from now on.
  func begin(for lifetime: OwnerLifetime, home: AnyObject, isSuspended: Bool) {
    self.lifetime = lifetime
    unretainedLifetime = Borrowed(lifetime)
    unretainedHome = Borrowed(home)
    self.isSuspended = isSuspended
    isRemoved = false
  }

  deinit {
    for level in 0..<PriorityLevel.count { if let flow = unretainedFlows(level) { Retained(adopting: flow).release() } }
  }

  /// Whether the owner may still have work started. Asked after the work is claimed: this load decides.
  var mayStart: Bool { Self.mayStart(unretainedLifetime) }

  /// The same for an item of the owner that has been begun.
  static func mayStart(_ lifetime: Borrowed<OwnerLifetime>?) -> Bool {
    lifetime?.with { $0.isAlive } ?? true || Mutation.jobSkipsTheLifetime.isOn
  }

  /// Whether the owner's turn has to wait.
  @inline(__always)  // for each job
  func isHeld(_ ownerLimit: Int) -> Bool {
    isSuspended || isHeldBack || ownerLimit != .max && (executing - yielded >= ownerLimit || returning > returningBehindLine)
  }

  @inline(__always)  // for each job
  func changeUnfinished(by count: Int) {
    let before = PendingAmount(unfinished)
    unfinished += count
    hasBeenUsed = true
    let now = PendingAmount(unfinished)
    if now != before, before != .none || !Mutation.workDoesNotEndTheRest.isOn { setPending(now) }
    guard let awaited else { return }
    if awaited.isOver { self.awaited = nil } else { awaited.change(by: count) }
  }

  @inline(never)  // or it is in the way of each job
  private func setPending(_ amount: PendingAmount) {
    pendingAmount.store(amount.rawValue, ordering: .relaxed)
    if amount == .several { unretainedLifetime?.with { $0.noteSeveral() } }
  }

  /// Whether it had no work since this was asked last.
  var hasRestedSinceLook: Bool {
    defer { hasBeenUsed = unfinished > 0 }
    return !hasBeenUsed
  }

  var pending: PendingAmount { PendingAmount(Int(pendingAmount.load(ordering: .relaxed))) }
  var isOnlyMemory: Bool { true }

  /// Nothing refers to the owner queue or its flows.
  var isIdle: Bool {
    unfinished == 0 && executing == 0 && (0..<PriorityLevel.count).allSatisfy { flow(at: $0)?.work.count ?? 0 == 0 }
  }

  func flow(at level: Int) -> Flow? { unretainedFlows(level)?.object }

  func unretainedFlow(ifThereAt level: Int) -> Borrowed<Flow>? { unretainedFlows(level) }

  func makeFlow(at level: Int) -> Flow { unretainedFlow(at: level).object }

  /// The flow, made if there is none, for those who must not count references.
  @inline(__always)  // for each job
  func unretainedFlow(at level: Int) -> Borrowed<Flow> { unretainedFlows(level) ?? addFlow(at: level) }

  private func unretainedFlows(_ level: Int) -> Borrowed<Flow>? {
    switch level {
    case 0: flows.0
    case 1: flows.1
    case 2: flows.2
    case 3: flows.3
    default: flows.4
    }
  }

  private func addFlow(at level: Int) -> Borrowed<Flow> {
    let flow = Retained(Flow(ownerQueue: self)).borrowed
    setFlow(flow, at: level)
    return flow
  }

  private func setFlow(_ flow: Borrowed<Flow>?, at level: Int) {
    switch level {
    case 0: flows.0 = flow
    case 1: flows.1 = flow
    case 2: flows.2 = flow
    case 3: flows.3 = flow
    default: flows.4 = flow
    }
  }

  /// All that have work at this level, and maybe others.
  func forEachFlow(at level: Int, _ body: (Flow) -> Void) {
    if let flow = flow(at: level) { body(flow) }
    if level == LineKey.level { lines?.byKey.visit(body) }
  }

  /// Whether it has, or has had, lines.
  var hasLines: Bool { lines != nil }

  func flow(of line: LineKey) -> Flow? { lines?.byKey[line] }

  func makeFlow(of line: LineKey) -> Flow {
    if let flow = flow(of: line) { return flow }
    let lines = lines ?? LineFlows()
    self.lines = lines
    let flow = Flow(ownerQueue: self, line: LineTurns(of: line, self))
    lines.byKey[line] = flow
    return flow
  }

  /// A line's flow goes when its work is over. One that is in a run queue still has no tickets but void ones.
  func removeIfIdle(_ flow: Flow) {
    guard let line = flow.line, flow.work.count == 0, line.executing == 0 else { return }
    lines?.byKey[line.key] = nil
  }

  /// Without work, and maybe for long.
  func giveUpSpareMemory(_ pool: inout ChunkPool) {
    for level in 0..<PriorityLevel.count { unretainedFlows(level)?.with { $0.work.giveUpSpareMemory(&pool) } }
  }

  func lifetimeDidEnd() { listener?.ownersDidEnd([self]) }

  static func lifetimeDidEndAtOnce(of ownerQueue: Retained<OwnerQueue>) -> Bool {
    ownerQueue.with { $0.listener }?.ownerDidEndAtOnce(ownerQueue) ?? false
  }

  /// Those of one queue are told in one hold of its lock.
  var companions: ObjectIdentifier { ObjectIdentifier(listener ?? self) }

  static func lifetimesDidEnd(of ownerQueues: consuming [OwnerQueue]) { ownerQueues.first?.listener?.ownersDidEnd(ownerQueues) }
}

/// Whoever is to do what an owner's end asks for: a queue, as far as owner queues know.
protocol OwnerEndListener: AnyObject, Sendable {
  /// - Parameter ownerQueues: a few.
  func ownersDidEnd(_ ownerQueues: consuming [OwnerQueue])

  /// See `MemberToldWithOthers.lifetimeDidEndAtOnce`.
  func ownerDidEndAtOnce(_ ownerQueue: Retained<OwnerQueue>) -> Bool
}

/// A box, because most owner queues have none.
private final class LineFlows {
  @exclusivity(unchecked) var byKey = PointerMap<Flow>()
}

/// The pending work of one owner at one priority, or in one line, in order. Guarded by the queue's lock.
final class Flow {
  /// The owner queue keeps its flows. A flow that outlives it, in a run queue, has no work left and doesn't look.
  let unretainedOwnerQueue: Borrowed<OwnerQueue>
  var ownerQueue: OwnerQueue { unretainedOwnerQueue.object }
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var work = WorkList()
  /// Tickets in the run queue whose work has been cancelled. They come up before those of younger work.
  var voidTickets = 0
  /// Round robin: whether the flow waits for its turn.
  var isInRunQueue = false
  /// If it is a line's.
  let line: LineTurns?
  /// Tickets that came up while the owner was suspended or at its limit.
  @exclusivity(unchecked) var held = HeldTickets()

  init(ownerQueue: OwnerQueue, line: LineTurns? = nil) {
    unretainedOwnerQueue = Borrowed(ownerQueue)
    self.line = line
  }
}

/// How much of a line is in the hands of workers. Guarded by the queue's lock.
final class LineTurns {
  let key: LineKey
  private let unretainedOwnerQueue: Borrowed<OwnerQueue>  // which keeps the flow, and that this
  /// Taken by a worker and not over.
  var executing = 0 { didSet { countReturning() } }
  /// The part of `executing` that has yielded: it waits for work of the queue.
  var yielded = 0 { didSet { countReturning() } }
  /// The part of `yielded` whose wait is over.
  var returning = 0 { didSet { countReturning() } }
  /// As the owner queue has it.
  private var returningBehindLine = 0

  init(of key: LineKey, _ ownerQueue: OwnerQueue) {
    self.key = key
    unretainedOwnerQueue = Borrowed(ownerQueue)
  }

  var isRunning: Bool { executing > yielded }

  /// Those that return and wait for the line hold up nothing else of their owner.
  private func countReturning() {
    let count = isRunning ? returning : 0
    guard count != returningBehindLine else { return }
    unretainedOwnerQueue.with { $0.returningBehindLine += count - returningBehindLine }
    returningBehindLine = count
  }

  /// Whether the next has to wait.
  var isHeld: Bool { (isRunning || returning > 0) && !Mutation.lineRunsSideBySide.isOn }
}

extension Flow {
  /// Whether nothing but a little room is left of its owner's. It is no line's.
  fileprivate var isFitForAnother: Bool { work.isSmall && voidTickets == 0 && held.count == 0 && !isInRunQueue }

  /// Has the processor fetch what a worker touches that takes work of it.
  func prefetch() {
    Prefetch.toWrite(unretainedOwnerQueue.address)
    work.prefetch()
  }
  var isLineHeld: Bool { line?.isHeld ?? false }
}
