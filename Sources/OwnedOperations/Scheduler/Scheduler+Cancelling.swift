/// What is taken out of the ready lists and the batches, to be counted as cancelled and released after unlocking; what a worker puts back.
extension Scheduler {
  /// Takes the owner's pending jobs out. Work items of operations go along: they are cancelled one by one.
  /// - Returns: what to count and release after unlocking.
  mutating func takePending(of ownerQueue: OwnerQueue) -> [TakenWork] {
    if ownerQueue.executing > 0 { reclaimBatches() }
    ownerQueue.cancelledUpTo = lastSerial
    return ownerQueue.phase.takeAll(of: ownerQueue)
  }

  /// Counts jobs taken out with `takePending` as cancelled.
  mutating func countCancelled(_ jobs: Int, of ownerQueue: OwnerQueue, forEndedOwner: Bool) {
    // Without jobs to count, the phase may be gone.
    if jobs > 0 { ownerQueue.phase.finish(ownerQueue, count: jobs) }
    statistics.cancelled += jobs
    if forEndedOwner { statistics.skippedForEndedOwners += jobs }
    finish(jobs, withoutRunning: jobs)
    afterFinish(of: ownerQueue)
  }

  /// What a queue that goes leaves behind, to be seen to after unlocking.
  struct LeftBehind {
    fileprivate(set) var releases: [TakenWork] = []
    var departed: [OwnerQueue] = []
    fileprivate(set) var runs: [any NodeRun] = []
  }

  /// The queue goes. Mostly there is nothing but owner queues without work.
  mutating func takeWhatIsLeft() -> LeftBehind {
    var left = LeftBehind()
    swap(&left.releases, &deferredReleases)
    for phase in phases { left.releases += phase.removeAllOwnerQueues() }
    swap(&left.departed, &departures.ownerQueues)
    if !runs.isEmpty { left.runs = Array(runs.values) }
    return left
  }

  /// What is to be cancelled together.
  struct Cancelled {
    var taken: [(OwnerQueue, [TakenWork])] = []
    var barriers: [@Sendable () -> Void] = []
    var operations: [OwnedOperation] = []
    var runs: [any NodeRun] = []
  }

  /// Takes out what the owner has pending.
  mutating func takeAll(of lifetime: OwnerLifetime) -> Cancelled {
    var all = Cancelled(operations: operations.operations(ownedBy: lifetime), runs: Array(runs.values))
    for phase in phases {
      guard let ownerQueue = phase.existingOwnerQueue(for: lifetime) else { continue }
      all.taken.append((ownerQueue, takePending(of: ownerQueue)))
    }
    operations.forgetItems(in: all.taken.map(\.0))
    return all
  }

  /// Takes out what the line has pending, which is cancelled. Nothing is added to it any more.
  /// - Returns: what to release after unlocking.
  mutating func close(_ line: LineKey, of lifetime: OwnerLifetime) -> [TakenWork] {
    line.isClosed = true
    var taken: [TakenWork] = []
    for phase in phases {
      guard let ownerQueue = phase.existingOwnerQueue(for: lifetime), ownerQueue.flow(of: line) != nil else { continue }
      if ownerQueue.executing > 0 { reclaimBatches() }
      guard let work = phase.takeAll(of: line, ownerQueue) else { continue }
      countCancelled(work.count, of: ownerQueue, forEndedOwner: !lifetime.isAlive)  // jobs, all of them
      taken.append(work)
    }
    return taken
  }

  /// Takes out everything that is pending.
  mutating func takeAll() -> Cancelled {
    reclaimBatches()
    var all = Cancelled(operations: operations.operations, runs: Array(runs.values))
    let serial = lastSerial
    for phase in phases {
      phase.forEachOwnerQueue { ownerQueue in
        // Without an owner are steps of tasks, which must not get lost, and operations, which see to themselves.
        guard ownerQueue.lifetime != nil else { return }
        ownerQueue.cancelledUpTo = serial
        let work = phase.takeAll(of: ownerQueue)
        if !work.isEmpty { all.taken.append((ownerQueue, work)) }
      }
      guard let barrier = phase.barrier else { continue }
      phase.barrier = nil
      all.barriers.append(barrier)
      unfinishedBarriers -= 1
      unfinished -= 1
      statistics.cancelled += 1
    }
    operations.forgetItems(in: all.taken.map(\.0))
    dropClosedPhases()
    return all
  }

  /// What is to be released after unlocking when owners have ended.
  struct Ended {
    /// Of those that had little pending. It has been counted.
    let little: TakenWork
    /// To be counted, too: that takes as long as there is much.
    fileprivate(set) var much: [(OwnerQueue, [TakenWork])] = []
    /// The queue has no more to do with them. None of the references goes under the lock: it could be the last.
    fileprivate let strangers: [OwnerQueue]
  }

  /// What the owners have pending is taken out.
  ///
  /// For those of many, that is done in one hold of the lock. That keeps pace with owners that come, add a job and go, where an end by
  /// itself would take several times what they take.
  /// - Parameter ownerQueues: a few. Their phases keep those that are in one.
  mutating func ownersDidEnd(_ ownerQueues: consuming [OwnerQueue]) -> Ended {
    var known = ownerQueues.compactMap { $0.isRemoved ? nil : Borrowed($0) }
    if Mutation.laterEndsAreForgotten.isOn { known = Array(known.prefix(1)) }
    // A reference less, so that those whose work is over now can be used again: see `OwnerQueueDepartures.complete`.
    ownerQueues.removeAll { !$0.isRemoved }
    for ownerQueue in known { ownerQueue.with { noteEnd(of: $0) } }
    if known.contains(where: { $0.with { $0.executing > 0 } }) { reclaimBatches() }
    var little = WorkList()
    var much: [(OwnerQueue, [TakenWork])] = []
    for ownerQueue in known {
      ownerQueue.with { ownerQueue in
        ownerQueue.cancelledUpTo = lastSerial
        if let jobs = ownerQueue.phase.takeFew(of: ownerQueue, to: &little, pool: &pool) {
          countCancelled(jobs, of: ownerQueue, forEndedOwner: true)
        } else {
          much.append((ownerQueue, ownerQueue.phase.takeAll(of: ownerQueue)))
        }
      }
    }
    return Ended(little: TakenWork(little), much: much, strangers: ownerQueues)
  }

  /// What an owner's end has come to that was told at once.
  struct EndedAtOnce {
    /// The job that was pending. It has been counted. To be released in the background: nobody may have another reference to it.
    var job: WorkItem?
    let hasRunOut: Bool
  }

  /// `ownersDidEnd` for one that has at most a job pending, and nothing with a worker: in constant time, and mostly in the cache of whoever
  /// has added that. Nothing follows from it, and nothing but memory goes.
  /// - Parameters:
  ///   - ownerQueue: the caller's only reference, which goes.
  ///   - expectsTidyUp: whether somebody is to tidy up, even if this is the end of all work.
  /// - Returns: nil, and nothing is changed, for others.
  mutating func ownerDidEndAtOnce(_ ownerQueue: Retained<OwnerQueue>, expectsTidyUp: () -> Bool) -> EndedAtOnce? {
    guard phases.count == 1 || Mutation.endAtOnceLeavesTheBarrier.isOn, waits.isEmpty || Mutation.endAtOnceWakesNobody.isOn,
      ownerLimit == .max, returning.isEmpty, progress == nil, !isDriven
    else { return nil }
    // Nobody else's than the caller's and the phase's.
    guard departures.hasRoom, ownerQueue.borrowed.referenceCount == 1 + OwnerQueueTable.references(to: ownerQueue.borrowed) else {
      return nil
    }
    let job = ownerQueue.with { ownerQueue -> BarrierPhase.OnlyJob? in
      guard !ownerQueue.isRemoved, ownerQueue.executing == 0, let job = ownerQueue.phase.takeOnlyJob(of: ownerQueue) else { return nil }
      noteEnd(of: ownerQueue)
      ownerQueue.cancelledUpTo = lastSerial
      countCancelled(job.item == nil ? 0 : 1, of: ownerQueue, forEndedOwner: true)
      return job
    }
    guard let job else { return nil }
    let hasRunOut = hasRunOut
    departures.completeIfLast(ownerQueue, isKept: !hasRunOut || expectsTidyUp())
    return EndedAtOnce(job: job.item, hasRunOut: hasRunOut && job.item != nil)
  }

  private mutating func noteEnd(of ownerQueue: OwnerQueue) {
    ownerQueue.hasEnded = true
    if !suspendedOwners.isEmpty, let lifetime = ownerQueue.lifetime { suspendedOwners.remove(lifetime.id) }
  }

  /// Where a work item has gone that its worker can't run.
  enum PutBack {
    /// To the front of the ready lists, with all that the owner has. The owner queue is to be told when somebody else holds the owner.
    case waits(OwnerQueue)
    /// The owner has ended. The work is released with this, not under the lock.
    case ended(WorkItem)
    /// All that was pending has been cancelled while the worker had it in hand.
    case cancelled(WorkItem)
  }

  /// Nothing of the owner's begins until somebody else holds it. What its bodies add from now on comes after what waits.
  mutating func holdBack(_ ownerQueue: OwnerQueue) {
    ownerQueue.isHeldBack = true
    if !Mutation.heldBackLeavesListsOpen.isOn { closeNestedWork() }
  }

  /// Somebody other than bodies holds the owner, or it has gone.
  mutating func goOn(with ownerQueue: OwnerQueue) {
    ownerQueue.isHeldBack = false
    if !ownerQueue.isRemoved { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
  }

  /// See `QueueCore.putBack`.
  mutating func putBack(_ work: consuming WorkItem, from worker: ScheduledWorker) -> PutBack {
    // One whose batch was handed to it is here now, and may be held up by the owner's deinit.
    arrive(worker)
    reclaimBatch(from: worker)
    guard let ownerQueue = worker.currentOwnerQueue, !ownerQueue.hasEnded else { return .ended(work) }
    // What is cancelled as such is found to be when its item comes up again.
    if work.account != .record, worker.serial <= ownerQueue.cancelledUpTo, !Mutation.workInHandOutlivesTheCancel.isOn {
      return .cancelled(work)
    }
    let (items, flow, age) = worker.batch.unbegin(work)
    flow.with { ownerQueue.phase.giveBack(movingFrom: items, count: 1, flow: $0, level: worker.batch.level, age: age) }
    holdBack(ownerQueue)
    return .waits(ownerQueue)
  }
}
