/// What workers, and those who end owners, want of a queue.
extension QueueCore {
  // MARK: Workers

  /// On the worker's thread.
  /// - Parameter isForOwnWork: a body waits for work of this queue.
  func workerWillBlock(_ worker: Worker, isForOwnWork: Bool) {
    mutate { scheduler, _ in
      // Asked again, under the lock: an operation may have been finished from elsewhere, and its item counted.
      let isInBody = worker.isInBody
      if !isInBody { scheduler.setOutside(worker) }
      scheduler.beginWait(of: worker)
      scheduler.settle(worker, includingCurrent: worker.isOutside)
      scheduler.reclaimBatch(from: worker)
      if isForOwnWork, isInBody { scheduler.yield(worker.permit, bodyOf: worker.currentOwnerQueue, in: worker.currentFlow) }
    }
  }

  /// What a body waits for has turned out to be work of this queue.
  func workerYields(_ worker: Worker) {
    mutate { scheduler, _ in
      if worker.isInBody { scheduler.yield(worker.permit, bodyOf: worker.currentOwnerQueue, in: worker.currentFlow) }
    }
  }

  /// Whether the worker holds a permit that others may be in want of, if not now, then when somebody sets a limit.
  func keepsPermit(_ worker: Worker) -> Bool { read { _ in !worker.permit.isYielded } }

  func workerDidUnblock(_ worker: Worker) {
    mutate { scheduler, _ in scheduler.endWait(of: worker) }?.wait(drivenBy: driver, for: "a turn to go on")
  }

  private static let ownerQueuesPerHold = 128

  /// Gives up what a queue that is idle doesn't need: the workers that rest, each of which may have some ten kilobytes, and owner queues.
  ///
  /// Called when the queue has run out of work. Linear in the owners of the kind that it has had work of since.
  func tidyUp(_ kind: OwnerQueueTable.Kind = .all) {
    let resting = note { $0.takeRestingOfIdle() }
    withExtendedLifetime(resting) { removeIdleOwnerQueues(kind) }
    _ = note { $0.takeSparesOfIdle() }
  }

  /// The same, but for what it may soon want again: owner queues that keep no lifetime from ending, if owners come back.
  /// - Returns: whether it has any. Then `tidyUpRest` is to be called when the queue has rested for some time.
  func tidyUpSparingly() -> Bool {
    tidyUp(note { $0.kindToTidyUp() })
    return read { $0.keepsSomeWhileIdle }
  }

  /// Gives up the rest, if the queue has had no work since this was called last; else what it keeps for those owners that had none.
  /// - Returns: whether it is to be called again.
  func tidyUpRest() -> Bool {
    if read({ $0.hasRested }) {
      tidyUp()
      return false
    }
    remove(note { $0.restedOwnerQueues() })
    return note { $0.beginRest() }
  }

  /// Work has come to its end without a worker. If that was all, no worker leaves, who would see to it.
  func noteIdle() {
    if let reference, driver == nil { IdleQueues.note(reference) } else { tidyUp() }
  }

  private func removeIdleOwnerQueues(_ kind: OwnerQueueTable.Kind) {
    remove(read { $0.ownerQueuesOfIdle(kind) })
    forgetEndedOwners()
  }

  private func remove(_ idle: consuming [OwnerQueue]) {
    for start in stride(from: 0, to: idle.count, by: Self.ownerQueuesPerHold) {
      mutate { scheduler, _ in scheduler.removeIfIdle(idle[start..<min(idle.count, start + Self.ownerQueuesPerHold)]) }
    }
    DeferredReleases.add(contentsOf: idle)
  }

  /// Linear in the owners that are suspended.
  private func forgetEndedOwners() {
    // A copy of the elements, not the set, for two reasons. Who suspends an owner meanwhile would copy the set, under the lock. And that
    // the set is nobody else's any more is known by counts of references, which ThreadSanitizer doesn't see.
    let suspended = read { Array($0.suspendedOwners) }
    let ended = suspended.filter { !OwnerLifetime.isAlive($0) }
    if !ended.isEmpty { note { $0.suspendedOwners.subtract(ended) } }
  }

  // MARK: Ends

  /// Called by the reaper for a few owner queues whose owners have ended.
  func ownersDidEnd(_ ownerQueues: consuming [OwnerQueue]) {
    if Mutation.workStaysAfterTheEnd.isOn { return }
    let (ended, hasRunOut) = mutate(with: ownerQueues) { scheduler, _, ownerQueues in
      let ended = scheduler.ownersDidEnd(ownerQueues)
      if Mutation.capturesGoUnderTheLock.isOn { ended.little.release() }
      if ended.little.count > 0 { scheduler.deferredReleases.append(ended.little) }
      return (ended, scheduler.hasRunOut)
    }
    for (ownerQueue, work) in ended.much { finishCancelling(work, of: ownerQueue, forEndedOwner: true) }
    if hasRunOut { noteIdle() }
  }

  /// `ownersDidEnd` for one, by whoever ends the owner. Doesn't hold the queue, which may have gone: then nothing of it is left but memory.
  /// - Returns: false if the reaper is to do it.
  func ownerDidEndAtOnce(_ ownerQueue: Retained<OwnerQueue>, _ reference: QueueReference) -> Bool {
    guard var ended = changeQuietly({ $0.ownerDidEndAtOnce(ownerQueue) { reference.expectsTidyUp } }) else { return false }
    if ended.hasRunOut { IdleQueues.note(reference) }
    if let job = ended.job.take() { DeferredReleases.add(consume job) }
    return true
  }

  /// Counts what `takePending` took out, tells those who wait, and releases it.
  func finishCancelling(_ taken: [TakenWork], of ownerQueue: OwnerQueue, forEndedOwner: Bool) {
    let jobs = taken.reduce(0) { $0 + $1.jobCount }
    let hasRunOut = mutate { scheduler, _ in
      scheduler.countCancelled(jobs, of: ownerQueue, forEndedOwner: forEndedOwner)
      if Mutation.capturesGoUnderTheLock.isOn { for work in taken { work.release() } }
      scheduler.deferredReleases += taken
      return scheduler.hasRunOut
    }
    if hasRunOut { noteIdle() }
  }

  /// The worker can't begin the item now: its owner is held by bodies only. It waits at the front of the ready lists, with all that the
  /// owner has.
  func putBack(_ work: consuming WorkItem, from worker: Worker) -> Scheduler.PutBack {
    mutate(with: work) { scheduler, _, work in scheduler.putBack(work, from: worker) }
  }

  /// As `putBack`, for a nested job.
  func putBackNested(_ work: consuming WorkItem, from worker: Worker) -> Scheduler.PutBack {
    mutate(with: work) { scheduler, _, work in scheduler.putBackNested(work, from: worker) }
  }

  /// A nested job has come to its turn after its owner's end.
  func countSkippedNested(of ownerQueue: OwnerQueue) {
    mutate { scheduler, _ in scheduler.countCancelled(1, of: ownerQueue, forEndedOwner: true) }
  }

  /// Others may have to run what the worker keeps, if it blocks.
  func monitorNestedWork() { mutate { scheduler, _ in scheduler.monitor() } }

  /// Somebody other than bodies holds the owner, or it has gone.
  func goOn(with ownerQueue: OwnerQueue) {
    mutate { scheduler, _ in scheduler.goOn(with: ownerQueue) }
  }
}
