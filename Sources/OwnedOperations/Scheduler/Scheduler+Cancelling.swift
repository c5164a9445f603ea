/// What is taken out of the ready lists and the batches, to be counted as cancelled and released after unlocking; what a worker puts back.
extension Scheduler {
  /// Takes the owner's pending jobs out. Records of operations go along: they are cancelled one by one.
  /// - Returns: what to count and release after unlocking.
  mutating func takePending(of slot: OwnerSlot) -> [TakenWork] {
    if slot.executing > 0 { reclaimBatches() }
    slot.cancelledUpTo = lastSerial
    return slot.phase.takeAll(of: slot)
  }

  /// Counts jobs taken out with `takePending` as cancelled.
  mutating func countCancelled(_ jobs: Int, of slot: OwnerSlot, forEndedOwner: Bool) {
    // Without jobs to count, the phase may be gone.
    if jobs > 0 { slot.phase.finish(slot, count: jobs) }
    statistics.cancelled += jobs
    if forEndedOwner { statistics.skippedForEndedOwners += jobs }
    finish(jobs, withoutRunning: jobs)
    afterFinish(of: slot)
  }

  /// What is to be cancelled together.
  struct Cancelled {
    var taken: [(OwnerSlot, [TakenWork])] = []
    var barriers: [@Sendable () -> Void] = []
    var operations: [OwnedOperation] = []
    var runs: [any NodeRun] = []
  }

  /// Takes out what the owner has pending.
  mutating func takeAll(of lifetime: OwnerLifetime) -> Cancelled {
    var all = Cancelled(operations: operations.operations(ownedBy: lifetime), runs: Array(runs.values))
    for phase in phases {
      guard let slot = phase.existingSlot(for: lifetime) else { continue }
      all.taken.append((slot, takePending(of: slot)))
    }
    operations.forgetRecords(in: all.taken.map(\.0))
    return all
  }

  /// Takes out what the line has pending, which is cancelled. Nothing is added to it any more.
  /// - Returns: what to release after unlocking.
  mutating func close(_ line: LineKey, of lifetime: OwnerLifetime) -> [TakenWork] {
    line.isClosed = true
    var taken: [TakenWork] = []
    for phase in phases {
      guard let slot = phase.existingSlot(for: lifetime), slot.lane(of: line) != nil else { continue }
      if slot.executing > 0 { reclaimBatches() }
      guard let work = phase.takeAll(of: line, slot) else { continue }
      countCancelled(work.count, of: slot, forEndedOwner: !lifetime.isAlive)  // jobs, all of them
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
      phase.forEachSlot { slot in
        // Without an owner are steps of tasks, which must not get lost, and operations, which see to themselves.
        guard slot.lifetime != nil else { return }
        slot.cancelledUpTo = serial
        let work = phase.takeAll(of: slot)
        if !work.isEmpty { all.taken.append((slot, work)) }
      }
      guard let barrier = phase.barrier else { continue }
      phase.barrier = nil
      all.barriers.append(barrier)
      unfinishedBarriers -= 1
      unfinished -= 1
      statistics.cancelled += 1
    }
    operations.forgetRecords(in: all.taken.map(\.0))
    dropClosedPhases()
    return all
  }

  /// - Returns: what to count and release after unlocking; nil if the queue has no more to do with the slot.
  mutating func ownerDidEnd(_ slot: OwnerSlot) -> [TakenWork]? {
    guard !slot.isRemoved else { return nil }
    slot.hasEnded = true
    if let lifetime = slot.lifetime { suspendedOwners.remove(lifetime.id) }
    return takePending(of: slot)
  }

  /// Where a record has gone that its worker can't run.
  enum PutBack {
    /// To the front of the ready lists, with all that the owner has. The slot is to be told when somebody else holds the owner.
    case waits(OwnerSlot)
    /// The owner has ended. The work is released with this, not under the lock.
    case ended(Work)
    /// All that was pending has been cancelled while the worker had it in hand.
    case cancelled(Work)
  }

  /// See `QueueCore.putBack`.
  mutating func putBack(_ work: consuming Work, from worker: ScheduledWorker) -> PutBack {
    // One whose batch was handed to it is here now, and may be held up by the owner's deinit.
    arrive(worker)
    reclaimBatch(from: worker)
    guard let slot = worker.currentSlot, !slot.hasEnded else { return .ended(work) }
    // An operation is cancelled as such.
    if !work.isOperation, worker.serial <= slot.cancelledUpTo, !Mutation.workInHandOutlivesTheCancel.isOn { return .cancelled(work) }
    let (records, lane, age) = worker.batch.unbegin(work)
    lane.with { slot.phase.giveBack(movingFrom: records, count: 1, lane: $0, level: worker.batch.level, age: age) }
    slot.isHeldBack = true
    return .waits(slot)
  }
}
