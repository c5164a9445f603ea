/// A queue's lock, what it guards, and the only way to it.
///
/// Whoever wants something of the queue hands `mutate` a closure. It gets the state for itself, decides, and returns; what follows from
/// the decision is done when the lock is free: a worker is dispatched, those whose wait is over are woken, what was taken out is released.
/// So no hold of the lock crosses the end of a function, nothing under it calls out, and nobody has to remember to follow up.
///
/// The closure must not touch the core again, run code of the user's, or release anything of the user's. What it wants released it puts
/// into `state.garbage`, or returns.
final class QueueCore: Sendable {
  private let lock = Lock()
  /// Guarded by `lock`, which is what makes its accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) private var state: QueueState
  let hint = QueueHint()
  /// Written once, before anybody else has the core.
  nonisolated(unsafe) private var queue: Borrowed<OwnerScopedQueue>?
  /// In place of threads and timers; nil for all but users' tests.
  let driver: (any QueueDriver)?

  init(_ state: consuming QueueState, driver: (any QueueDriver)? = nil) {
    self.state = state
    self.driver = driver
  }

  deinit { hint.deallocate() }

  /// In the queue's `init`.
  func setQueue(_ queue: OwnerScopedQueue) {
    self.queue = Borrowed(queue)
    state.reference = queue.reference
  }

  // MARK: The way to the state

  /// Changes the state, and follows up.
  @inline(__always)  // or the closure would be made, and what it captures boxed, at each call
  func mutate<Result: ~Copyable>(_ body: (inout QueueState, inout FollowUp) -> Result) -> Result {
    var followUp = FollowUp()
    lock.lock()
    let result = body(&state, &followUp)
    unlock(followUp)
    return result
  }

  /// Changes the state with something that goes into it, without a copy; and follows up.
  @inline(__always)  // as above
  func mutate<Argument: ~Copyable, Result: ~Copyable>(
    with argument: consuming Argument, _ body: (inout QueueState, inout FollowUp, consuming Argument) -> Result
  ) -> Result {
    var followUp = FollowUp()
    lock.lock()
    let result = body(&state, &followUp, argument)
    unlock(followUp)
    return result
  }

  /// Looks.
  @inline(__always)  // as above
  func read<Result: ~Copyable>(_ body: (borrowing QueueState) -> Result) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return body(state)
  }

  /// Changes what nobody else waits for; or under a lock of somebody else's, who sees to it that `followUp` comes when that is free.
  @inline(__always)  // as above
  func note<Result: ~Copyable>(_ body: (inout QueueState) -> Result) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return body(&state)
  }

  /// Whether somebody waits for the lock, which this thread has. For tests.
  var isAwaited: Bool { lock.isAwaited }

  /// Does what has become due.
  func followUp() { mutate { _, _ in } }

  /// Of a queue that is going: everything is another's.
  func exchange(with heir: QueueCore) { swap(&heir.state, &state) }

  // MARK: Following up

  @inline(__always)  // a few looks, most often, in which nothing is found
  private func unlock(_ followUp: borrowing FollowUp) {
    guard !followUp.hasQuestion, state.returning.isEmpty || Mutation.forgetsWhoReturns.isOn, !state.hasReleases, !state.hasDueWaiters else {
      return unlockWholly(followUp)
    }
    let worker = followUp.worker ?? workerToDispatch
    updateHint()
    lock.unlock()
    worker?.dispatch()
  }

  @inline(never)
  private func unlockWholly(_ followUp: borrowing FollowUp) {
    let admitted = state.admitReturning()
    let worker = followUp.worker ?? workerToDispatch
    let waiters = state.hasDueWaiters ? state.takeDueWaiters() : []
    var garbage: [TakenWork] = []
    swap(&garbage, &state.garbage)
    var departed: [OwnerSlot] = []
    swap(&departed, &state.departures.slots)
    updateHint()
    lock.unlock()
    worker?.dispatch()
    followUp.askInTime()
    for waiter in waiters { waiter.resume() }
    for waiter in admitted { waiter.resume() }
    SlotDepartures.complete(departed)
    if !garbage.isEmpty {
      queue?.with { $0.cancelNodes(in: garbage) }
      for work in garbage { work.release() }
    }
  }

  @inline(__always)
  private var workerToDispatch: Worker? { queue?.with { state.workerToDispatch($0) } }

  @inline(__always)
  private func updateHint() {
    var flags = QueueHint.Flags.ready(state.firstStage.with({ $0.readyLevels }))
    if state.isSuspended || !state.returning.isEmpty || state.ownerLimit != .max || state.waits.hasOwners { flags.insert(.interrupt) }
    if !state.waits.isEmpty { flags.insert(.somebodyWaits) }
    if !state.runs.isEmpty, state.chainsYield { flags.insert(.chainsYield) }
    hint.flags = flags
  }
}

/// What a change of the state wants done when the lock is free, beside what the state itself says.
struct FollowUp: ~Copyable {
  /// Has been given work, and is to be dispatched.
  var worker: Worker?
  private var timer: ReadinessTimer?
  private var deadline: UInt64 = .max

  init() {}

  /// Operations that say themselves when they are ready are to be asked.
  mutating func ask(_ timer: ReadinessTimer?, noLaterThan deadline: UInt64) {
    self.timer = timer
    self.deadline = deadline
  }

  var hasQuestion: Bool { timer != nil }
  func askInTime() { timer?.ask(noLaterThan: deadline) }
}
