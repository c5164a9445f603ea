import Dispatch
import Synchronization

/// A queue's lock, what it guards, and the only way to it.
///
/// Whoever wants something of the queue hands `mutate` a closure. It gets the scheduler for itself, decides, and returns. What follows from
/// the decision is done when the lock is free: a worker is dispatched, waiters are woken, what was taken out is released.
/// So no hold of the lock crosses the end of a function, nothing under it calls out, and nobody has to remember to follow up. (`read`
/// only looks, and `note` is for changes after which nothing can be due.)
///
/// Work that lies outside of the scheduler, uncounted, is taken in first: what workers have kept (`NestedWork`). Only a worker between its
/// batches may leave it to those who have kept it.
///
/// The closure must not touch the core again, run code of the user's, or release anything of the user's. What it wants released it puts
/// into `scheduler.deferredReleases`, or returns.
final class QueueCore: @unchecked Sendable {  // `scheduler` is guarded by `lock`, `host` and `reference` are written before it is shared
  private let lock = Lock()
  /// Guarded by `lock`, which is what makes its accesses exclusive.
  @exclusivity(unchecked) private var scheduler: Scheduler
  /// Guarded by `lock`. The queue is about to leave what it has, or has done so.
  private var isGone = false
  private let hintMemory = QueueHint.makeMemory()
  let hint: QueueHint
  /// Made when there is the first one. See `giveBack`.
  let spentOperations = ObjectMadeOnce<ReturnTray<OwnedOperation>>()
  /// The queue, which keeps the core. This and what follows is written once, before anybody else has the core.
  private(set) unowned(unsafe) var host: (any QueueHost)?
  /// The queue, for who keeps it.
  var hostObject: Borrowed<AnyObject> { Borrowed(host.unsafelyUnwrapped) }
  /// For those who may outlive the queue.
  private(set) var reference: QueueReference?
  /// Made when somebody is watched for the first time.
  private let readiness = Locked<ReadinessTimer?>(nil)
  /// In place of threads and timers; nil for all but users' tests.
  let driver: (any QueueDriver)?

  init(_ scheduler: consuming Scheduler, driver: (any QueueDriver)? = nil) {
    self.scheduler = scheduler
    self.driver = driver
    hint = QueueHint(in: hintMemory)
  }

  /// In the queue's `init`.
  func setHost(_ host: any QueueHost) {
    self.host = host
    reference = QueueReference(host, self)
    scheduler.listener = reference
  }

  // MARK: The way to the scheduler

  /// Changes the scheduler, and follows up.
  @inline(__always)  // or the closure would be made, and what it captures boxed, at each call
  func mutate<Result: ~Copyable>(_ body: (inout Scheduler, inout FollowUp) -> Result) -> Result {
    mutate(with: ()) { scheduler, followUp, _ in body(&scheduler, &followUp) }
  }

  /// Changes the scheduler with something that goes into it, without a copy; and follows up.
  /// - Parameter worker: whose step it is, if it is one's. It may leave to others what they have kept.
  @inline(__always)  // as above
  func mutate<Argument: ~Copyable, Result: ~Copyable>(
    with argument: consuming Argument, stepOf worker: ScheduledWorker? = nil,
    _ body: (inout Scheduler, inout FollowUp, consuming Argument) -> Result
  ) -> Result {
    var followUp = FollowUp()
    lock.lock()
    takeIn(stepOf: worker)
    let result = body(&scheduler, &followUp, argument)
    guard hasMoreDue(followUp) else {
      let due = takeWorker(followUp)
      lock.unlock()
      perform(due)
      return result
    }
    let due = takeAll(followUp)
    lock.unlock()
    performAll(due, followUp)
    return result
  }

  /// Changes that nothing follows from, by those who don't hold the queue: if nobody has the lock, and the queue is there.
  /// - Parameter body: returns nil if it has changed nothing.
  /// - Returns: nil if nothing has been done.
  func changeQuietly<Result>(_ body: (inout Scheduler) -> Result?) -> Result? {
    guard lock.tryLock() else { return nil }
    defer { lock.unlock() }
    guard !isGone || Mutation.endAtOnceMissesTheHeir.isOn, !hint.hasNestedWork, let result = body(&scheduler) else { return nil }
    updateHint()
    return result
  }

  fileprivate var lockRemains: (AnyObject & Sendable)? { lock.remains }

  /// The queue goes: see `changeQuietly`.
  func close() { lock.withLock { isGone = true } }

  /// Looks.
  func read<Result: ~Copyable>(_ body: (borrowing Scheduler) -> Result) -> Result {
    lock.withLock {
      takeIn()
      return body(scheduler)
    }
  }

  /// Changes what nobody else waits for; or under a lock of somebody else's, who sees to it that `followUp` comes when that is free.
  func note<Result: ~Copyable>(_ body: (inout Scheduler) -> Result) -> Result {
    lock.withLock {
      takeIn()
      return body(&scheduler)
    }
  }

  /// Under the lock: takes in what lies outside of the scheduler.
  private func takeIn(stepOf worker: ScheduledWorker? = nil) {
    guard hint.hasNestedWork else { return }
    hint.forgetNestedWork()
    guard let worker, scheduler.leavesNestedWork(toOthersThan: worker) else { return scheduler.takeInNestedWork() }
    // Not counted, so whoever comes next has to look.
    if scheduler.hasNestedWork(besides: worker), !Mutation.leftWorkIsForgotten.isOn { hint.noteNestedWork() }
  }

  /// Whether somebody waits for the lock, which this thread has. For tests.
  var isAwaited: Bool { lock.isAwaited }

  /// Does what has become due.
  func followUp() { mutate { _, _ in } }

  /// Of a queue that is going: everything is another's, but for what leads to the queue itself.
  func exchange(with heir: QueueCore) {
    swap(&heir.scheduler, &scheduler)
    swap(&heir.scheduler.listener, &scheduler.listener)
    swap(&heir.scheduler.ownLifetime, &scheduler.ownLifetime)
  }

  // MARK: Following up

  /// What most changes have made due, to be done when the lock is free.
  private struct DueWorker {
    let worker: ScheduledWorker?
    let asksForMonitor: Bool
  }

  /// What some have, beside that.
  private final class DueWork {
    let admitted: [Waiter]
    let worker: DueWorker
    var waiters: [WaitList.Entry] = []
    var deferredReleases: [TakenWork] = []
    var departed: [OwnerQueue] = []
    var progress: QueueProgress?
    var isSweepDue = false
    /// In how many milliseconds.
    var endWatch: Int?

    init(admitted: [Waiter], worker: DueWorker) {
      self.admitted = admitted
      self.worker = worker
    }
  }

  // Under the lock, after a change:

  private func hasMoreDue(_ followUp: borrowing FollowUp) -> Bool {
    followUp.hasQuestion || !(scheduler.returning.isEmpty || Mutation.forgetsWhoReturns.isOn) || scheduler.hasReleases
      || scheduler.hasDueWaiters || scheduler.departures.isSweepOverdue || scheduler.isEndWatchDue
  }

  /// Decides whether a worker is due, and says in the hint what has come of the change.
  @inline(__always)  // for each job
  private func takeWorker(_ followUp: borrowing FollowUp) -> DueWorker {
    var worker = followUp.worker?.object ?? scheduler.workerToDispatch()
    if driver != nil { giveToDriver(&worker) }
    let asksForMonitor = scheduler.takeMonitorRequest()
    updateHint()
    return DueWorker(worker: worker, asksForMonitor: asksForMonitor)
  }

  @inline(never)
  private func takeAll(_ followUp: borrowing FollowUp) -> DueWork {
    let admitted = scheduler.admitReturning()  // before a worker is looked for: they have their permits first
    let due = DueWork(admitted: admitted, worker: takeWorker(followUp))
    if scheduler.hasDueWaiters { due.waiters = scheduler.takeDueWaiters() }
    due.progress = scheduler.takeDueProgress()
    due.endWatch = scheduler.setEndWatch()
    swap(&due.isSweepDue, &scheduler.departures.isSweepOverdue)
    swap(&due.deferredReleases, &scheduler.deferredReleases)
    swap(&due.departed, &scheduler.departures.ownerQueues)
    updateHint()
    return due
  }

  // When the lock is free:

  private func perform(_ due: DueWorker) {
    if due.asksForMonitor { scheduleLookAtWorkers() }
    due.worker?.dispatch()
  }

  @inline(never)
  private func performAll(_ due: DueWork, _ followUp: borrowing FollowUp) {
    WorkerThreads.stopLooking()  // what is released is somebody's, and those who are woken may come back
    perform(due.worker)
    if let delay = due.endWatch { scheduleLookForEnds(in: .milliseconds(delay)) }
    if followUp.hasQuestion { ask(noLaterThan: followUp.questionDeadline) }
    var pieces: [TakenWork.Pieces] = []
    for work in due.deferredReleases {
      work.appendPieces(to: &pieces)
      work.release()
    }
    for entry in due.waiters { entry.waiter.resume() }
    for waiter in due.admitted { waiter.resume() }
    var departed: [OwnerQueue] = []
    swap(&departed, &due.departed)  // none of the references stays here: it could be the last
    keepSpares(OwnerQueueDepartures.complete(consume departed, unlessMoreThan: 256))
    due.progress?.tellInBackground()
    if due.isSweepDue { sweepOwnerQueues() }
    for pieces in pieces { pieces.cancel() }
    if !pieces.isEmpty { DeferredReleases.add(contentsOf: consume pieces) }
  }

  /// Unless the queue has become idle, and is not to be tidied up any more. That is asked under the lock: who tidies up says so before it
  /// takes the spares.
  private func keepSpares(_ ownerQueues: consuming [OwnerQueue]) {
    guard !ownerQueues.isEmpty else { return }
    var spares = ownerQueues
    note { scheduler in
      if !scheduler.hasRunOut || reference?.expectsTidyUp ?? false { scheduler.departures.keep(&spares) }
    }
  }

  /// Removes owner queues that are kept without need, if that is due. A driver's time is none that is measured.
  func sweepOwnerQueues() { sweepOwnerQueues(now: driver == nil ? Uptime.now : 0) }

  private func sweepOwnerQueues(now: UInt64) { mutate { scheduler, _ in scheduler.sweepOwnerQueues(now: now) } }

  /// Under the lock, which the driver's may be taken under: whoever sees work in the queue finds the step that runs it, too. Threads may
  /// come a moment later, a driver is asked to run what there is.
  @inline(never)
  private func giveToDriver(_ worker: inout ScheduledWorker?) {
    worker.take()?.dispatchToDriver(isShuffled: scheduler.shuffler != nil)
  }

  /// Says in the hint what has come of a change, and does what has to come after that.
  @inline(__always)  // for each job
  private func updateHint() {
    var flags = QueueHint.Flags.ready(scheduler.firstPhase.with({ $0.readyLevels }))
    if scheduler.isSuspended || !scheduler.returning.isEmpty || scheduler.ownerLimit != .max || scheduler.waits.hasOwners {
      flags.insert(.interrupt)
    }
    if !scheduler.waits.isEmpty { flags.insert(.somebodyWaits) }
    if !scheduler.runs.isEmpty, scheduler.chainsYield { flags.insert(.chainsYield) }
    hint.flags = flags
    if scheduler.reopensNestedWork { scheduler.reopenNestedWork() }
  }

  // MARK: Asking

  /// Has the operations that nobody announces asked. In nanoseconds of `Uptime`.
  func ask(noLaterThan deadline: UInt64) {
    guard driver == nil, let reference else { return }
    let timer = readiness.withLock { timer in
      if timer == nil { timer = ReadinessTimer { reference.whileThere { $0.askWatched() } } }
      return timer
    }
    timer?.ask(noLaterThan: deadline)
  }

  /// A round of asking begins: who has it asked from now on wants another.
  func beginQuestions() { readiness.withLock { $0 }?.begin() }
}

/// What a core belongs to: a queue, as far as the rooms below it know it.
typealias QueueHost = OperationScheduler & TaskExecutor

/// A queue, weakly: for those who may outlive it. Unlike `weak`, it leaves the queue's count of references where every use of the queue
/// finds it quickly.
///
/// A queue whose facade is still in use when it goes leaves all it has to an heir (`bequeath`). From then on the reference leads there; who
/// asks while that is being done waits for it, which takes microseconds.
final class QueueReference: Sendable {
  private let memory: MemoryReference  // constant; asked while the memory that it holds is there
  let core: Borrowed<QueueCore>  // the queue keeps it
  /// Who ends an owner looks into the core without holding the queue.
  private let coreMemory: MemoryReference
  private let lockRemains: (AnyObject & Sendable)?
  /// Somebody has taken it upon himself to see to what the idle queue doesn't need.
  private let isToBeTidied = Atomic(false)
  /// The same, for what it doesn't need if it rests for long.
  private let isRestToBeTidied = Atomic(false)

  private struct Succession {
    /// There from the making of the facade on. Signalled when the queue has gone, and its heir is known; who has waited signals it again.
    var isSettled: Semaphore?
    var hasBeenSettled = false
    var heir: QueueReference?
  }

  private let succession = Locked(Succession())

  init(_ host: any QueueHost, _ core: QueueCore) {
    memory = MemoryReference(host)
    self.core = Borrowed(core)
    coreMemory = MemoryReference(core)
    lockRemains = core.lockRemains
  }

  /// The queue, or its heir.
  var host: AnyObject? { found?.host }

  /// Calls the body with the core of the queue, or of its heir, which stays that long.
  @discardableResult
  func whileThere<Result>(_ body: (QueueCore) -> Result) -> Result? {
    guard let found else { return nil }
    return withExtendedLifetime(found.host) { body(found.core.object) }
  }

  /// The same for a thread that looks at one queue after the other, and waits for none. If the reference has become the last, it goes
  /// elsewhere: hooks on the queue's deinit hold up no look at another.
  /// - Returns: false if the queue is going, and it is not known whether it has an heir.
  func letLook(_ body: (QueueCore) -> Void) -> Bool {
    guard let queue = memory.retained() else {
      let (isSettled, heir) = succession.withLock { ($0.isSettled == nil || $0.hasBeenSettled, $0.heir) }
      return heir?.letLook(body) ?? isSettled
    }
    body(core.object)
    var host = consume queue
    if isKnownUniquelyReferenced(&host) { DeferredReleases.add(consume host) }
    return true
  }

  private var found: (host: AnyObject, core: Borrowed<QueueCore>)? { memory.retained().map { ($0, core) } ?? foundHeir }

  private var foundHeir: (host: AnyObject, core: Borrowed<QueueCore>)? {
    guard let isSettled = succession.withLock({ $0.isSettled }) else { return nil }
    // In a hook on its deinit the queue has no heir yet, and goes on when that returns.
    if memory.address.map(EndingObject.isEndedByThisThread) ?? false { return nil }
    if !Mutation.heirIsNotWaitedFor.isOn {
      isSettled.wait()
      isSettled.signal()
    }
    return succession.withLock { $0.heir }?.found
  }

  /// The queue may have an heir. Called once, while somebody holds the queue.
  func expectSuccession() {
    let isSettled = Semaphore()
    succession.withLock { $0.isSettled = isSettled }
  }

  /// In the queue's deinit, once, if a succession was expected.
  func settleSuccession(_ heir: QueueReference?) {
    let isSettled = succession.withLock { succession in
      (succession.heir, succession.hasBeenSettled) = (heir, true)
      return succession.isSettled
    }
    isSettled?.signal()
  }
}

extension QueueReference: IdleQueue {
  /// Somebody is to tidy up, and has not begun.
  var expectsTidyUp: Bool { isToBeTidied.load(ordering: .relaxed) }

  func claimTidyUp() -> Bool { !isToBeTidied.exchange(true, ordering: .acquiringAndReleasing) }

  func tidyUp() {
    // First: who finds the queue idle after the look has it looked at again.
    if !Mutation.idleQueueIsTidiedOnce.isOn { isToBeTidied.store(false, ordering: .releasing) }
    let keepsSome = whileThere { $0.tidyUpSparingly() } ?? false
    if Mutation.idleQueueIsTidiedOnce.isOn { isToBeTidied.store(false, ordering: .releasing) }
    if keepsSome { IdleQueues.noteRest(of: self) }
  }

  func claimRest() -> Bool { !isRestToBeTidied.exchange(true, ordering: .acquiringAndReleasing) }

  func tidyUpRest() {
    isRestToBeTidied.store(false, ordering: .releasing)  // first, as above
    if whileThere({ $0.tidyUpRest() }) ?? false { IdleQueues.noteRest(of: self) }
  }
}

extension QueueReference: OwnerEndListener {
  func ownerDidEndAtOnce(_ ownerQueue: Retained<OwnerQueue>) -> Bool {
    #if canImport(ObjectiveC)
      false  // the core's memory is not held there
    #else
      core.with { $0.ownerDidEndAtOnce(ownerQueue, self) }
    #endif
  }

  func ownersDidEnd(_ ownerQueues: consuming [OwnerQueue]) {
    guard let (host, core) = found else { return }
    core.object.ownersDidEnd(ownerQueues)
    // It may be the last reference: hooks on the queue's deinit hold up none of the others that the reaper has in hand.
    DeferredReleases.add(consume host)
  }
}
