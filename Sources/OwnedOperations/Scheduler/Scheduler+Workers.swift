import Foundation

/// How many workers a queue has, and when it sends for one. The rules stand in `Scheduler`.
extension Scheduler {
  static let unknownTime = UInt64(UInt32.max)
  /// Sending for a worker costs whoever adds work, and the worker, several microseconds.
  static let leastWorkForWorker: UInt64 = 20_000
  /// About what it takes a worker to arrive.
  private static let leastTimeForWorker: UInt64 = 5_000

  /// Not counting those that are blocked in a wait of ours.
  private static let mostWorkers = 192
  private static let mostUnlimitedWorkers = 64

  /// Whether the ready work is worth another worker. Otherwise it will sooner be done by one who is awake and looks again when it has
  /// finished its batch.
  private var isWorthWorker: Bool {
    if workers.activeCount - waiting - blockedWorkers <= 0 { return true }
    // No family is worth it alone: who adds a single job beside one would pay for a worker each time.
    let time = max(itemTime, min(itemTime * familySize, Self.leastWorkForWorker / 4))
    return UInt64(isBarrierDue ? 1 : firstPhase.with { $0.mostWorkers }) * time >= Self.leastWorkForWorker
  }

  /// Whether items take so long that more workers had better set out before those on their way have looked. Then each item is worth a
  /// wake-up.
  private var isWorthWaking: Bool {
    itemTime >= Self.leastTimeForWorker && itemTime != Self.unknownTime
      && firstPhase.with { $0.mostWorkers } > arriving
  }

  /// One measurement more. What takes longer is believed at once, what takes less bit by bit.
  mutating func measured(_ time: UInt64) {
    let time = min(time, Self.unknownTime)
    itemTime = itemTime == Self.unknownTime ? time : max(time, (itemTime * 3 + time) / 4)
  }

  /// - Parameter size: of how many jobs an item was one that its worker ran because of it.
  mutating func measuredFamily(_ size: UInt64) {
    let size = min(size, Self.unknownTime)
    familySize = max(size, (familySize * 3 + size) / 4)
  }

  // MARK: Sending for workers

  /// The worker to dispatch after unlocking, if one is due. It counts as active from now on.
  mutating func workerToDispatch() -> ScheduledWorker? {
    guard hasWork, !returnsComeFirst else { return nil }
    if arriving > 0 {
      endHandoff()
      guard arriving == 0 || isWorthWaking else { return nil }
    }
    guard isWorthWorker else {
      // The work may turn out to take longer than that of late.
      monitor()
      return nil
    }
    let most = limit == .max ? Self.mostUnlimitedWorkers : Self.mostWorkers
    guard maySend, workers.activeCount - waiting < most else {
      monitor()
      return nil
    }
    return sendWorker()
  }

  @inline(__always)  // for each job that is handed over
  private mutating func sendWorker() -> ScheduledWorker {
    let worker = workers.activate {
      listener.unsafelyUnwrapped.makeWorker(workerGeneration, qualityOfService: qualityOfService, underlyingQueue: underlyingQueue)
    }
    setArriving(worker)
    return worker
  }

  /// The worker is on its way.
  mutating func setArriving(_ worker: ScheduledWorker) {
    worker.isArriving = true
    arriving += 1
  }

  /// The worker is there, and has the lock.
  mutating func arrive(_ worker: ScheduledWorker) {
    guard worker.isArriving else { return }
    worker.isArriving = false
    arriving -= 1
    handoff = nil
  }

  /// - Returns: whether no other worker is active.
  @discardableResult
  mutating func leave(_ worker: ScheduledWorker) -> Bool {
    setBlocked(worker, false)
    workers.leave(worker, isKept: worker.generation == workerGeneration)
    let isLast = workers.activeCount == 0
    if isLast {
      extraWorkers = 0
      // What comes after a pause may be of another kind.
      processorShare = ProcessorShare()
      familySize = 1
    }
    return isLast
  }

  // MARK: What an idle queue doesn't need

  /// Whether there is no work, and no worker that would see to what an idle queue doesn't need.
  var hasRunOut: Bool { unfinished == 0 && workers.activeCount == 0 }

  /// The workers that rest, to be let go of after unlocking; none if others are active.
  mutating func takeRestingOfIdle() -> ContiguousArray<ScheduledWorker> { workers.activeCount == 0 ? workers.removeResting() : [] }

  /// What was kept for owners to come, to be let go of after unlocking.
  mutating func takeSparesOfIdle() -> [OwnerQueue] {
    guard hasRunOut else { return [] }
    for phase in phases { phase.giveUpRoom() }
    return departures.takeSpares()
  }

  /// Those that `removeIfIdle` may take out; none if there is work. Linear in the owners of the kind.
  func ownerQueuesOfIdle(_ kind: OwnerQueueTable.Kind) -> [OwnerQueue] { unfinished == 0 ? phases[0].idleOwnerQueues(kind) : [] }

  /// Whether an idle queue has something that it may soon want again. One that is busy has not: its next rest is another.
  var keepsSomeWhileIdle: Bool { hasRunOut && phases[0].keepsOwnerQueues }

  /// What a queue that has become idle gives up at once.
  func kindToTidyUp() -> OwnerQueueTable.Kind { phases[0].judgesOwnersToComeBack() ? .dropped : .all }

  /// - Returns: `keepsSomeWhileIdle`.
  mutating func beginRest() -> Bool {
    enqueuedBeforeRest = statistics.enqueued
    return keepsSomeWhileIdle
  }

  /// Whether nothing was added since `beginRest`.
  var hasRested: Bool { hasRunOut && enqueuedBeforeRest == statistics.enqueued }

  /// Those that had no work since the last look, for `removeIfIdle`. Linear in the owners.
  mutating func restedOwnerQueues() -> [OwnerQueue] { unfinished == 0 ? phases[0].restedOwnerQueues(&pool) : [] }

  /// Many are kept: those that are without need go.
  /// - Parameter now: in nanoseconds of `Uptime`.
  mutating func sweepOwnerQueues(now: UInt64) {
    (departures.isSweepDue, departures.isSweepOverdue) = (false, false)
    for phase in phases { phase.sweepOwnerQueues(now: now) }
  }

  /// Those that still have no work leave their phases.
  mutating func removeIfIdle(_ ownerQueues: ArraySlice<OwnerQueue>) {
    for ownerQueue in ownerQueues where !ownerQueue.isRemoved { ownerQueue.phase.removeIfIdle(ownerQueue) }
  }

  // MARK: Handing over

  /// Whether a job that is added now has nobody before it, and nobody to run it.
  var isIdle: Bool {
    workers.activeCount == 0 && !isSuspended && limit - detached > 0 && firstPhase.address == lastPhase.address
      && firstPhase.with { $0.readyLevels == 0 }
  }

  /// Gives a job to a worker, which is to be dispatched after unlocking and to run it when it arrives, without asking the queue. Only if
  /// the queue is idle.
  @inline(__always)  // for each job
  mutating func handOff(_ work: consuming WorkItem, of ownerQueue: Borrowed<OwnerQueue>, level: Int) -> ScheduledWorker {
    let worker = sendWorker()
    let (flow, age) = firstPhase.with { $0.addTaken(of: ownerQueue, level: level) }
    worker.takesOne = takesOne
    worker.batch.fill(work, of: flow, age: age)
    worker.batch.publish(level: level)
    openNestedWork(of: worker)
    worker.serial = nextSerial()
    handoff = Borrowed(worker)
    return worker
  }

  /// The job that a worker was given, and may not have begun, is to stand in the ready lists before anything else does. It counts as
  /// executing there, and would hold back what is more urgent, and what is of its owner. And what is held now would come before it.
  @inline(__always)  // for each addition
  mutating func endHandoffBeforeAddition() {
    if handoff != nil, !Mutation.handoverDoesNotYield.isOn { endHandoff() }
  }

  /// Somebody adds more. Either the worker has begun what it was given, and so has arrived, or it loses that, and will look for itself.
  mutating func endHandoff() {
    guard let worker = handoff?.object else { return }
    handoff = nil
    reclaimBatch(from: worker)
    if worker.batch.count > 0 { arrive(worker) }
  }

  // MARK: Blocked workers

  /// Has the monitor look soon: work was left behind for lack of a permit, or a worker took more than it can begin at once.
  mutating func monitor() {
    guard !isMonitored else { return }
    isMonitored = true
    asksForMonitor = true
  }

  /// Whether a look is to be asked for.
  mutating func takeMonitorRequest() -> Bool {
    guard asksForMonitor else { return false }
    asksForMonitor = false
    return true
  }

  /// A worker that is blocked in a wait of ours is counted as such, and not as found to be blocked.
  mutating func setBlocked(_ worker: ScheduledWorker, _ isBlocked: Bool) {
    guard worker.isBlocked != isBlocked else { return }
    worker.isBlocked = isBlocked
    blockedWorkers += isBlocked ? 1 : -1
  }
}
