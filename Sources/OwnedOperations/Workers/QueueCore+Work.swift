/// What workers, and those who end owners, want of a queue.
extension QueueCore {
  // MARK: Workers

  /// On the worker's thread.
  /// - Parameter isForOwnWork: a body waits for work of this queue.
  func workerWillBlock(_ worker: Worker, isForOwnWork: Bool) {
    mutate { scheduler, _ in
      // Asked again, under the lock: an operation may have been finished from elsewhere, and its record counted.
      let isInBody = worker.isInBody
      if !isInBody { scheduler.setOutside(worker) }
      scheduler.beginWait(of: worker)
      scheduler.settle(worker, includingCurrent: worker.isOutside)
      scheduler.reclaimBatch(from: worker)
      if isForOwnWork, isInBody { scheduler.yield(worker.permit, bodyOf: worker.currentSlot, in: worker.currentLane) }
    }
  }

  /// What a body waits for has turned out to be work of this queue.
  func workerYields(_ worker: Worker) {
    mutate { scheduler, _ in
      if worker.isInBody { scheduler.yield(worker.permit, bodyOf: worker.currentSlot, in: worker.currentLane) }
    }
  }

  /// Whether the worker holds a permit that others may be in want of, if not now, then when somebody sets a limit.
  func keepsPermit(_ worker: Worker) -> Bool { read { _ in !worker.permit.isYielded } }

  func workerDidUnblock(_ worker: Worker) {
    mutate { scheduler, _ in scheduler.endWait(of: worker) }?.wait(drivenBy: driver, for: "a turn to go on")
  }

  private static let slotsPerHold = 128

  /// A slot keeps its lifetime, and one without work for no reason: a lifetime that is only dropped ends when nobody holds it.
  /// Called when the queue has run out of work. Linear in the owners that it has had work of since.
  func removeIdleSlots() {
    let idle = read { $0.unfinished == 0 ? $0.phases[0].idleSlots : [] }
    for start in stride(from: 0, to: idle.count, by: Self.slotsPerHold) {
      mutate { _, _ in
        for slot in idle[start..<min(idle.count, start + Self.slotsPerHold)] { if !slot.isRemoved { slot.phase.removeIfIdle(slot) } }
      }
    }
    DeferredReleases.add(contentsOf: idle)
  }

  // MARK: Ends

  /// Called by the reaper for a slot whose owner has ended.
  func ownerDidEnd(_ slot: OwnerSlot) {
    guard let taken = note({ $0.ownerDidEnd(slot) }) else { return }
    finishCancelling(taken, of: slot, forEndedOwner: true)
  }

  /// Counts what `takePending` took out, tells those who wait, and releases it.
  func finishCancelling(_ taken: [TakenWork], of slot: OwnerSlot, forEndedOwner: Bool) {
    let jobs = taken.reduce(0) { $0 + $1.jobCount }
    mutate { scheduler, _ in scheduler.countCancelled(jobs, of: slot, forEndedOwner: forEndedOwner) }
    for work in taken {
      work.cancelNodes()
      work.release()
    }
  }

  /// The worker can't begin the record now: its owner is held by bodies only. It waits at the front of the ready lists, with all that the
  /// owner has.
  func putBack(_ work: consuming Work, from worker: Worker) -> Scheduler.PutBack {
    mutate(with: work) { scheduler, _, work in scheduler.putBack(work, from: worker) }
  }

  /// Somebody other than bodies holds the owner, or it has gone.
  func goOn(with slot: OwnerSlot) {
    mutate { scheduler, _ in
      slot.isHeldBack = false
      if !slot.isRemoved { slot.phase.release(slot, ownerLimit: scheduler.ownerLimit) }
    }
  }
}
