import Foundation
import Synchronization

/// Everything that a queue's lock guards.
///
/// ## Protocol of the queue
///
/// *Who starts work.* A worker, in four steps:
///
/// 1. It takes the item out of the ready lists, under the lock.
/// 2. It begins the item, by a compare and exchange (`WorkBatch`).
/// 3. It asks the owner's lifetime whether it is alive, by an acquiring load. That is the single decision of the guarantee "no start after
///    the end". For operations, `start()` makes the same decision in their own state word.
/// 4. It runs the item.
///
/// - Cancelling, and an owner's end, take items out of the ready lists under the lock. Out of a batch they take them by the same compare
///   and exchange.
/// - So each item is either begun by one worker or taken away by one canceller.
/// - What jobs add to their own queue may stay with their worker, outside of the scheduler. Then the list that it is in decides in place of
///   the batch (`NestedWork`).
///
/// *Who makes workers.*
///
/// - Whoever adds work asks, under the same hold of the lock, whether a worker is due (`workerToDispatch`). It is dispatched after
///   unlocking.
/// - One is due if there is ready work, a permit for it, and no worker on its way that has not looked yet.
/// - Where items take longer than a worker's way, one is due, too, if there are more items than workers on their way.
/// - A worker that arrives and leaves ready work behind asks again.
/// - A worker leaves in the same hold of the lock in which it found nothing to take.
/// - So ready work always has a worker that is awake or on its way, and no wake-up is lost.
///
/// *Handoff.* A job that is added to an idle queue (no worker, nothing ready) passes over the ready lists.
///
/// - It lies in the batch of the worker that is sent for, which begins it when it arrives, without having taken the lock.
/// - Until then that worker counts as on its way. Whoever adds more, or finds more ready work, reclaims the batch first (`endHandoff`).
/// - Who wins the batch's cursor decides. If the item had begun, the worker has arrived, and another may be due.
/// - If not, it is ready work again, in its place by priority and order. The worker finds its batch empty and looks here.
/// - So a handed job waits for nothing, and holds up nobody.
///
/// Permits: who may run. All decisions are in `Scheduler+Permits`.
///
/// Order of locks: the queue's, then a lifetime's or an operation's. No code of the user's runs under any. What is released may have a
/// deinit of the user's, so items are released after unlocking.
struct Scheduler: ~Copyable {
  // First what every addition touches, so that it shares a few cache lines.

  /// The first and the last of `phases`, for those who must not count references.
  private(set) var firstPhase: Borrowed<BarrierPhase>
  private(set) var lastPhase: Borrowed<BarrierPhase>
  /// `Int.max` without a limit.
  var limit: Int
  var ownerLimit = Int.max
  var workers = WorkerSet()
  /// Those of the active workers that have not looked for work yet.
  var arriving = 0
  /// The worker that was given work before it was dispatched, until it takes the lock.
  var handoff: Borrowed<ScheduledWorker>?
  /// Active, and blocked in a wait that we know of: their processor is free.
  var waiting = 0
  /// Active, and without a permit until they come back: see `Scheduler+Permits`.
  var yielded = 0
  /// Active, and found by the monitor not to be using its processor.
  var blockedWorkers = 0
  /// Asynchronous operations that execute without a worker.
  var detached = 0
  /// How long a work item has taken lately, in nanoseconds.
  var itemTime = Self.unknownTime
  /// How many jobs one that is ready stands for: itself, and what its worker is going to run of what it adds. See `isWorthWorker`.
  var familySize: UInt64 = 1
  /// What bodies have used of the processors lately.
  var processorShare = ProcessorShare()
  /// How many there are.
  let processors: Int
  var waits = WaitList()
  var isSuspended = false
  var isBarrierRunning = false
  /// A look at the workers is due, or is being asked for.
  var isMonitored = false
  /// It is to be asked for after unlocking.
  var asksForMonitor = false
  /// See `EndWatch`.
  var endWatch = EndWatch()
  /// Lists of nested work may have to be opened again: see `NestedWork`.
  var reopensNestedWork = false
  /// See `QueueDriving`.
  var isDriven = false
  var fairness = OwnerFairness.firstComeFirstServed
  /// Pending and executing work of all phases, barriers included.
  var unfinished = 0
  var statistics = WorkCounts()

  /// Never empty. Work is taken from the first and added to the last.
  private(set) var phases: BarrierPhaseList
  /// One that is over, to be used again: half of what a barrier costs is the memory of its phase.
  private var formerPhase: BarrierPhase?
  /// When there are more, empty ones are looked for.
  private var mostPhases = Self.fewPhases
  private static let fewPhases = 16
  var pool = ChunkPool()
  /// Those of `yielded` whose wait is over, and who need a permit to go on.
  var returning = ReturningList()
  /// The permits of unfinished asynchronous operations whose tasks wait, or have waited, for work of the queue.
  var taskPermits: [ObjectIdentifier: TaskPermit] = [:]
  /// What is to be released after unlocking.
  var deferredReleases: [TakenWork] = []
  let departures = OwnerQueueDepartures()
  /// Runs of graphs that have not finished.
  var runs: [ObjectIdentifier: any NodeRun] = [:]
  var operations = OperationRegistry()
  /// Operations that have finished after their work had begun.
  var endedOperations = 0
  /// Some may have ended unheard, while they had no owner queue: see `QueueCore.tidyUp`.
  var suspendedOwners: Set<OwnerID> = []
  /// See `beginRest`.
  var enqueuedBeforeRest = -1
  var unfinishedBarriers = 0
  /// Operations whose own `isReady` holds them back.
  var watched = WatchedOperations()
  /// When to look for changed priorities of plain operations again, in nanoseconds.
  var nextLookAtPriorities: UInt64 = 0
  /// The two limits as they were set, to be read back.
  var limitAsSet = OperationQueue.defaultMaxConcurrentOperationCount
  var ownerLimitAsSet = OperationQueue.defaultMaxConcurrentOperationCount
  var name: String
  var qualityOfService: QualityOfService
  var progress: QueueProgress?
  /// See `Scheduler+Progress`.
  var tellsProgressLater = Platform.hasKeyValueObserving
  var isProgressDue = false
  var underlyingQueue: DispatchQueue?
  /// The queue, weakly: owner queues, which may outlive it, tell it of ends.
  var listener: (any OwnerEndListener & WorkerMaker)?
  /// Owns the operations that have no owner.
  var ownLifetime: OwnerLifetime
  /// Counts changes of what workers are made from; a worker of an older generation takes no more work.
  var workerGeneration = 0
  /// Counts batches, so that the order in which they were taken can be told.
  private(set) var lastSerial: UInt64 = 0
  /// Workers beyond the processors, because nothing has finished for long; see `WorkerMonitor`.
  var extraWorkers = 0
  /// How many looks of the monitor in a row have found nothing that moved.
  var quietLooks = 0
  /// Chooses among what may begin, in place of order.
  var shuffler: (any QueueDriver)?
  /// What holds an atomic is never moved. Without it the compiler copies the whole scheduler, some 600 bytes, onto the stack to ask it
  /// something: 100 of 1,480 instructions for each job.
  private let staysInPlace = Atomic<Bool>(true)

  init(
    name: String, limit: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?, ownLifetime: OwnerLifetime,
    processors: Int
  ) {
    let phase = BarrierPhase(fairness: .firstComeFirstServed, departures: departures)
    phases = BarrierPhaseList(phase)
    firstPhase = Borrowed(phase)
    lastPhase = firstPhase
    self.name = name
    self.limit = limit
    self.qualityOfService = qualityOfService
    self.underlyingQueue = underlyingQueue
    self.ownLifetime = ownLifetime
    self.processors = processors
  }

  /// Whether a graph's nodes have to go through the ready lists one by one. They do while owners are suspended or take turns, or more
  /// workers are active than the limit allows by now.
  var chainsYield: Bool {
    !suspendedOwners.isEmpty || fairness == .roundRobin || limit != .max && holders > limit
  }

  var hasWork: Bool {
    guard !isSuspended else { return false }
    return firstPhase.with { $0.hasWork } || isBarrierDue
  }

  var isBarrierDue: Bool {
    !isBarrierRunning && firstPhase.with({ $0.isClosed && ($0.unfinished == 0 && $0.executing == 0 || Mutation.barrierOvertakes.isOn) })
  }

  // MARK: Adding

  enum Addition {
    case taken
    /// Only its own bodies hold the owner.
    case takenForHeldBackOwner
    /// The owner has ended. The work is released with this, not under the lock.
    case refused(WorkItem)
  }

  /// Adds a job behind everything of its priority; or, if the queue is idle, gives it to a worker.
  mutating func add(
    _ work: consuming WorkItem, _ lifetime: Borrowed<OwnerLifetime>?, level: Int, _ followUp: inout FollowUp
  ) -> Addition {
    guard let ownerQueue = ownerQueue(for: lifetime) else { return .refused(work) }
    guard isIdle, !ownerQueue.with({ $0.isHeld(ownerLimit) }) else { return add(work, to: ownerQueue, level: level, in: lastPhase) }
    statistics.enqueued += 1
    unfinished += 1
    followUp.worker = Borrowed(handOff(work, of: ownerQueue, level: level))
    return .taken
  }

  @inline(__always)  // for each job
  mutating func add(
    _ work: consuming WorkItem, to ownerQueue: Borrowed<OwnerQueue>, level: Int, in phase: Borrowed<BarrierPhase>
  ) -> Addition {
    endHandoffBeforeAddition()
    statistics.enqueued += 1
    unfinished += 1
    phase.with { $0.add(to: ownerQueue, level: level, pool: &pool, ownerLimit: ownerLimit) }.initialize(to: work)
    return ownerQueue.with { $0.isHeldBack } ? .takenForHeldBackOwner : .taken
  }

  /// Adds a job to a line of the owner's. It is refused, too, if the line is closed.
  mutating func add(_ job: consuming WorkItem, _ lifetime: OwnerLifetime, line: LineKey) -> Addition {
    guard !line.isClosed, let ownerQueue = ownerQueue(for: Borrowed(lifetime))?.object else { return .refused(job) }
    endHandoffBeforeAddition()
    statistics.enqueued += 1
    unfinished += 1
    lastPhase.with { $0.add(to: ownerQueue, line: line, pool: &pool, ownerLimit: ownerLimit) }.initialize(to: job)
    if firstPhase.with({ $0.hasHeldForLine }) { monitorLines() }
    return ownerQueue.isHeldBack ? .takenForHeldBackOwner : .taken
  }

  /// Where the owner's work goes that is added now; nil if the owner has ended.
  func ownerQueue(for lifetime: Borrowed<OwnerLifetime>?) -> Borrowed<OwnerQueue>? {
    ownerQueue(for: lifetime, in: lastPhase)
  }

  @inline(__always)  // for each job
  func ownerQueue(for lifetime: Borrowed<OwnerLifetime>?, in phase: Borrowed<BarrierPhase>) -> Borrowed<OwnerQueue>? {
    phase.with { phase in phase.ownerQueue(for: lifetime) { makeOwnerQueue($0, in: phase) } }
  }

  private func makeOwnerQueue(_ lifetime: OwnerLifetime, in phase: BarrierPhase) -> OwnerQueue {
    let isSuspended = isSuspended(lifetime) && !Mutation.suspensionIsForgotten.isOn
    let ownerQueue: OwnerQueue
    if let spare = departures.takeSpare() {
      spare.begin(for: lifetime, home: phase, isSuspended: isSuspended)
      ownerQueue = spare
    } else {
      ownerQueue = OwnerQueue(lifetime: lifetime, home: phase, listener: listener, isSuspended: isSuspended)
    }
    ownerQueue.awaited = waits[lifetime]
    return ownerQueue
  }

  // MARK: Taking

  /// With a limit of several, no worker takes work in advance. Were it then to block, younger work could take all the permits that are
  /// left, and wait for that older work in vain.
  ///
  /// With a limit of one nobody else takes work. Without a limit, what was taken in advance gets a permit of its own in the end.
  private var keepsOrder: Bool { limit != .max && limit > 1 }

  /// Whether workers take one item at a time by rule.
  var takesOne: Bool { ownerLimit != .max || waits.hasOwners || keepsOrder || isDriven }

  /// Fills the worker's batch, or hands it the barrier. False if there is nothing for it to do.
  mutating func take(for worker: ScheduledWorker) -> Bool {
    guard mayTake(for: worker) else { return false }
    while true {
      let level = firstPhase.with { phase -> Int? in
        guard phase.hasWork else { return nil }
        worker.takesOne = takesOne
        if isDriven, let shuffler, limit != 1, !phase.isOfBarriers { phase.shuffle(by: shuffler, ownerLimit: ownerLimit) }
        let most =
          worker.takesOne
          ? 1
          : worker.batchLimit(
            ready: phase.readyCount, turns: phase.fairness == .roundRobin ? phase.turns : .max,
            processors: phase.isOfBarriers ? 1 : processors)
        return phase.take(most, into: worker.batch, pool: &pool, ownerLimit: ownerLimit)
      }
      if firstPhase.with({ $0.hasHeldForLine }) { monitorLines() }
      if let level {
        worker.batch.publish(level: level)
        openNestedWork(of: worker)
        worker.serial = nextSerial()
        if worker.batch.count > 1 || !runs.isEmpty { monitor() }
        return true
      }
      guard isBarrierDue else { return false }
      if let barrier = phases[0].barrier {
        phases[0].barrier = nil
        isBarrierRunning = true
        worker.barrier = barrier
        worker.serial = nextSerial()
        return true
      }
      advance()
    }
  }

  private func mayTake(for worker: ScheduledWorker) -> Bool {
    !isSuspended && (worker.generation == workerGeneration || Mutation.formerWorkersGoOn.isOn) && mayTake
  }

  /// The worker has found nothing, and others may have kept something that it has left to them.
  private mutating func takeWhatWasLeft(by worker: ScheduledWorker) -> Bool {
    guard limit == .max, mayTake(for: worker), workers.active.contains(where: { $0 !== worker && !$0.batch.nested.isEmpty }) else {
      return false
    }
    takeInNestedWork()
    return take(for: worker)
  }

  /// The barrier is over, or was cancelled.
  mutating func advance() {
    isBarrierRunning = false
    if phases.count == 1 { appendPhase() }
    if phases.count <= 2 { mostPhases = Self.fewPhases }
    let former = phases.removeFirst()
    deferredReleases += former.removeAllOwnerQueues()
    formerPhase = former
    firstPhase = Borrowed(phases[0])
  }

  mutating func appendPhase() {
    // Work belongs to the phase in which it is added.
    for worker in workers.active { closeNestedWork(of: worker) }
    let phase = formerPhase.take() ?? BarrierPhase(fairness: fairness, departures: departures)
    phase.begin(fairness)
    phases.append(phase)
    lastPhase = Borrowed(phase)
  }

  /// After barriers were cancelled: a barrier in the middle that is gone no longer separates anything, but stays until its turn.
  mutating func dropClosedPhases() {
    while phases.count > 1, phases[0].barrier == nil, isBarrierDue { advance() }
  }

  /// Those in the middle whose work was cancelled separate nothing. In a queue that can't go on there would be one for each barrier whose
  /// owner has come and gone. Amortised constant.
  mutating func dropEmptyPhases() {
    guard phases.count > mostPhases else { return }
    let empty = phases.removeInTheMiddle { $0.isClosed && $0.barrier == nil && $0.unfinished == 0 && $0.executing == 0 }
    for phase in empty { deferredReleases += phase.removeAllOwnerQueues() }
    mostPhases = Swift.max(Self.fewPhases, phases.count * 2)
  }

  mutating func nextSerial() -> UInt64 {
    lastSerial += 1
    return lastSerial
  }

  // MARK: A worker's way

  /// What a worker has done since it looked last.
  enum LastStep {
    case nothing, items, barrier
  }

  /// What a worker is to do next.
  enum NextStep {
    /// It has been given items, or a barrier.
    case run
    /// What it had to release comes first.
    case lookAgain
    /// Others want to use this underlying queue, too: it is to be dispatched again.
    case letOthersRun
    case leave(isLast: Bool)
    /// Has the owner queues removed that are kept without need, and looks again. It has nothing in hand that others wait for.
    case sweep
    /// Only for `Mutation.leavesInASecondHold`.
    case leaveLater
  }

  /// Counts what the worker has run, and says what it does next.
  mutating func nextStep(of worker: ScheduledWorker, after last: LastStep, isTimeUp: Bool) -> NextStep {
    if last != .nothing { settle(worker, after: last) }
    // Also after a look at which there was nothing but releases: they may have blocked.
    comeBack(worker)
    arrive(worker)
    if isTimeUp, hasWork {
      worker.endDrain()
      setArriving(worker)
      return .letOthersRun
    }
    if departures.isSweepDue {
      departures.isSweepDue = false
      return .sweep
    }
    if take(for: worker) || takeWhatWasLeft(by: worker) { return .run }
    if hasReleases || worker.hasGivenBack { return .lookAgain }
    worker.endDrain()
    if Mutation.leavesInASecondHold.isOn { return .leaveLater }
    return .leave(isLast: leave(worker))
  }

  mutating func settle(_ worker: ScheduledWorker, after last: LastStep) {
    reclaimBatch(from: worker)
    settleBatch(of: worker)
    if last == .items, let time = worker.lastItemTime {
      measured(time)
      measuredFamily(worker.lastFamilySize)
    }
    if let use = worker.lastUse.take() { processorShare.add(use) }
    if last == .barrier { finishBarrier() }
  }

  private mutating func finishBarrier() {
    statistics.started += 1
    statistics.succeeded += 1
    unfinishedBarriers -= 1
    unfinished -= 1
    advance()
  }
}
