import Foundation

/// Everything that a queue's lock guards.
///
/// ## Protocol of the queue
///
/// Who decides that a piece of work starts: a worker, in four steps. It takes the record out of the ready lists (under the lock), begins it
/// (`WorkBatch`, an atomic compare and exchange), asks the owner's lifetime whether it is alive (an acquiring load), and runs
/// it. Cancelling and an owner's end take records out of the ready lists (under the lock) or out of the batch (the same compare and exchange), so each
/// record is either begun by one worker or taken away by one canceller. The load of the lifetime after that is the single decision of the
/// guarantee "no start after the end"; for operations, `start()` makes the same decision in their own state word.
///
/// Who makes workers: whoever adds work asks, under the same hold of the lock, whether a worker is due (`workerToDispatch`), and dispatches it after unlocking.
/// One is due if there is ready work, a slot for it, and no worker on its way that has not looked yet (or, where records take longer than a worker's way, more records than such workers); a worker that arrives and leaves ready work behind
/// asks again. A worker leaves in the same hold of the lock in which it found nothing to take. So ready work always has a worker that is
/// awake or on its way, and no wake-up is lost.
///
/// Handover: a job that is added to an idle queue (no worker, nothing ready) doesn't go through the ready lists, but into the batch of the worker that is sent for, which begins it when it
/// arrives without having taken the lock. Until then that worker counts as on its way, and whoever finds more ready work takes the batch back first (`endHandover`). Who wins
/// the batch's cursor decides: if the record had begun, the worker has arrived, and another may be due; if not, it is ready work again, in its place by
/// priority and order, and the worker finds its batch empty and looks here. So a handed job waits for nothing and holds up nobody.
///
/// Slots: an explicit limit counts workers that are not blocked in a wait of ours, and asynchronous operations. Without a limit there is a slot per processor, and one more for each worker
/// that is blocked in a wait of ours or that the monitor found not to be using its processor. There is no end to workers that are blocked in a wait of ours: what they wait for
/// may be in this queue, behind any number of others that wait. Other workers are 192 at most, 64 without a limit. `WorkerThreads` has threads for all of them.
///
/// Order of locks: the queue's, then a lifetime's or an operation's. No code of the user's runs under any; what is released may
/// have a deinit of the user's, so records are released after unlocking.
struct QueueState: ~Copyable {
  // First what every addition touches, so that it shares a few cache lines.

  /// The first and the last of `stages`, for those who must not count references.
  private(set) var firstStage: Unmanaged<Stage>
  private(set) var lastStage: Unmanaged<Stage>
  /// `Int.max` without a limit.
  var limit: Int
  var ownerLimit = Int.max
  var workers = WorkerSet()
  /// Those of the active workers that have not looked for work yet.
  var arriving = 0
  /// The worker that was given work before it was dispatched, until it takes the lock.
  var handover: Unmanaged<Worker>?
  /// Active, and blocked in a wait that we know of.
  var waiting = 0
  /// Active, and found by the monitor not to be using its processor.
  var stuck = 0
  /// Asynchronous operations that execute without a worker.
  var detached = 0
  /// How long a record has taken lately, in nanoseconds.
  var recordTime = Self.unknownTime
  var waits = WaitList()
  var isSuspended = false
  var isBarrierRunning = false
  var isMonitored = false
  var fairness = OwnerFairness.firstComeFirstServed
  /// Pending and executing work of all stages, barriers included.
  var unfinished = 0
  var statistics = OwnerScopedQueue.Statistics()

  /// Never empty. Work is taken from the first and added to the last.
  private(set) var stages: ContiguousArray<Stage>
  var pool = ChunkPool()
  /// Of `waiting`, those whose wait is over and who need a slot to go on, in order: the queue would have them exceed its limit otherwise, and a serial queue
  /// would not be serial.
  var returning: [DispatchSemaphore] = []
  /// What is to be released after unlocking.
  var garbage: [TakenWork] = []
  let departures = SlotDepartures()
  /// Runs of graphs that have not finished.
  var runs: [ObjectIdentifier: GraphRun] = [:]
  var operations = OperationRegistry()
  /// Operations that have finished after their work had begun.
  var endedOperations = 0
  var suspendedOwners: Set<OwnerID> = []
  var unfinishedBarriers = 0
  /// Operations whose own `isReady` holds them back.
  var watched: [OwnedOperation] = []
  var isExaminationScheduled = false
  /// When to look for changed priorities of plain operations again, in nanoseconds.
  var nextLookAtPriorities: UInt64 = 0
  var name: String
  var qualityOfService: QualityOfService
  var progress: Progress?
  var underlyingQueue: DispatchQueue?
  var facade: OperationQueueFacade?
  /// Counts changes of what workers are made from; a worker of an older make is not used again.
  var workerMake = 0

  init(name: String, limit: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) {
    let stage = Stage(fairness: .firstComeFirstServed, departures: departures)
    stages = [stage]
    firstStage = .passUnretained(stage)
    lastStage = firstStage
    self.name = name
    self.limit = limit
    self.qualityOfService = qualityOfService
    self.underlyingQueue = underlyingQueue
  }

  /// Whether a graph's nodes have to go through the ready lists one by one: owners are suspended or take turns, or more workers are active than the limit allows by now.
  var chainsYield: Bool {
    !suspendedOwners.isEmpty || fairness == .roundRobin || limit != .max && workers.activeCount - waiting + detached > limit
  }

  var hasWork: Bool {
    guard !isSuspended else { return false }
    return firstStage._withUnsafeGuaranteedRef { $0.readyLevels } != 0 || isBarrierDue
  }

  var isBarrierDue: Bool {
    !isBarrierRunning && firstStage._withUnsafeGuaranteedRef { $0.isClosed && $0.unfinished == 0 && $0.executing == 0 }
  }

  // MARK: Taking

  /// With a limit of several, no worker takes work in advance: were it then to block, younger work could take all the slots that are left, and wait for that older work in vain.
  /// (With a limit of one nobody else takes work; without a limit, what was taken in advance gets a slot of its own in the end.)
  private var keepsOrder: Bool { limit != .max && limit > 1 }

  /// Whether workers take one record at a time by rule.
  var takesOne: Bool { ownerLimit != .max || waits.hasOwners || keepsOrder }

  /// Fills the worker's batch, or hands it the barrier. False if there is nothing for it to do.
  mutating func take(for worker: Worker, _ queue: OwnerScopedQueue) -> Bool {
    guard !isSuspended, returning.isEmpty, hasSlot(beside: workers.activeCount - 1) else { return false }
    while true {
      let level = firstStage._withUnsafeGuaranteedRef { stage -> Int? in
        guard stage.readyLevels != 0 else { return nil }
        worker.takesOne = takesOne
        let most = worker.takesOne ? 1 : worker.batchLimit(ready: stage.readyCount, turns: fairness == .roundRobin ? stage.turns : .max)
        return stage.take(most, into: worker.batch, pool: &pool, ownerLimit: ownerLimit)
      }
      if let level {
        worker.batch.publish(level: level)
        worker.serial += 1
        if worker.batch.count > 1 || !runs.isEmpty { monitor(queue) }
        return true
      }
      guard isBarrierDue else { return false }
      if let barrier = stages[0].barrier {
        stages[0].barrier = nil
        isBarrierRunning = true
        worker.barrier = barrier
        worker.serial += 1
        return true
      }
      advance()
    }
  }

  /// The barrier is over, or was cancelled.
  mutating func advance() {
    isBarrierRunning = false
    if stages.count == 1 { appendStage() }
    garbage += stages.removeFirst().removeAllSlots()
    firstStage = .passUnretained(stages[0])
  }

  mutating func appendStage() {
    let stage = Stage(fairness: fairness, departures: departures)
    stages.append(stage)
    lastStage = .passUnretained(stage)
  }

  /// After barriers were cancelled: a barrier in the middle that is gone no longer separates anything, but stays until its turn.
  mutating func dropClosedStages() {
    while stages.count > 1, stages[0].barrier == nil, isBarrierDue { advance() }
  }

  // MARK: Finishing

  /// Counts what the worker has finished.
  mutating func settle(_ worker: Worker, isWorker: Bool) {
    var finished = 0
    var skipped = 0
    if isWorker { worker.batch.giveBackChunk(pool: &pool) }
    worker.batch.settle(isWorker: isWorker) { lane, tally in
      let over = tally.counted + tally.nodes
      statistics.count(tally)
      finished += over
      skipped += tally.skipped
      lane.unretainedSlot._withUnsafeGuaranteedRef { slot in
        slot.unretainedStage._withUnsafeGuaranteedRef {
          $0.finish(slot, count: over)
          $0.changeExecuting(slot, by: -tally.records)
        }
        if tally.records > 0 { afterFinish(of: slot) }
      }
    }
    finish(finished, withoutRunning: skipped)
  }

  /// Something of the owner's is over: another turn of its may be due, or its slot.
  @inline(__always)
  mutating func afterFinish(of slot: OwnerSlot) {
    guard !slot.isRemoved else { return }
    if ownerLimit != .max { slot.stage.release(slot, ownerLimit: ownerLimit) }
    if slot.hasEnded { slot.stage.removeIfDone(slot) }
  }

  /// - Parameter withoutRunning: how many of them were cancelled before they began. As in Foundation, these are no progress.
  mutating func finish(_ count: Int, withoutRunning: Int = 0) {
    guard count > 0 else { return }
    unfinished -= count
    // The progress has no code of the user's on platforms without key-value observing.
    if let progress, progress.totalUnitCount > 0 { progress.completedUnitCount += Int64(count - withoutRunning) }
  }

  /// Takes back what workers have not begun: from now on it starts under the rules as they are now.
  mutating func takeBatchesBack() {
    for worker in workers.active where worker.batch.hasRest { takeBatchBack(from: worker) }
  }

  /// See `Stage.noteDead`.
  mutating func noteDead(_ count: Int, level: Int, of slot: OwnerSlot) {
    guard !slot.isRemoved else { return }
    garbage += slot.stage.noteDead(count, level: level, pool: &pool)
  }

  /// Takes what the worker has not begun away from it and puts it back to the front of the ready lists.
  mutating func takeBatchBack(from worker: Worker) {
    let level = worker.batch.level
    worker.batch.takeRest { records, count, lane in
      lane.slot.stage.giveBack(movingFrom: records, count: count, lane: lane, level: level)
    }
    if let (run, nodes) = worker.batch.nodeStack.take() { putBack(nodes, of: run) }
  }

  // MARK: Cancelling

  /// Takes the owner's pending jobs out. Records of operations go along: they are cancelled one by one.
  /// - Returns: what to count and release after unlocking.
  mutating func takePending(of slot: OwnerSlot) -> [TakenWork] {
    if slot.executing > 0 { takeBatchesBack() }
    return slot.stage.takeAll(of: slot)
  }

  /// Counts jobs taken out with `takePending` as cancelled.
  mutating func countCancelled(_ jobs: Int, of slot: OwnerSlot, forEndedOwner: Bool) {
    for _ in 0..<jobs { slot.stage.finish(slot) }
    statistics.cancelled += jobs
    if forEndedOwner { statistics.skippedForEndedOwners += jobs }
    finish(jobs, withoutRunning: jobs)
    afterFinish(of: slot)
  }

  /// Whether something is to be released after unlocking, which may run code of the user's.
  @inline(__always)
  var hasReleases: Bool { !garbage.isEmpty || !departures.slots.isEmpty }

  // MARK: Waiting

  /// Whether it is worth looking for those whose wait is over.
  @inline(__always)
  var hasDueWaiters: Bool {
    if waits.isEmpty { return false }
    return unfinished <= waits.count || waits.hasOwners && waits.mayBeDue { unfinished(ownedBy: $0) }
  }

  /// Those whose wait is over, to be resumed after unlocking.
  mutating func takeDueWaiters() -> [Waiter] {
    var waits = WaitList()
    swap(&waits, &self.waits)
    let (stages, unfinished) = (stages, unfinished)
    let due = waits.takeDue { lifetime in
      guard let lifetime else { return unfinished }
      return Self.unfinished(ownedBy: lifetime, in: stages)
    }
    swap(&waits, &self.waits)
    return due
  }

  func unfinished(ownedBy lifetime: OwnerLifetime) -> Int { Self.unfinished(ownedBy: lifetime, in: stages) }

  private static func unfinished(ownedBy lifetime: OwnerLifetime, in stages: ContiguousArray<Stage>) -> Int {
    stages.reduce(0) { $0 + ($1.existingSlot(for: lifetime)?.unfinished ?? 0) }
  }
}
