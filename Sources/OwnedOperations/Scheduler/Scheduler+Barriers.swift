/// What runs alone: when everything before it has finished, and nothing behind it has begun.
extension Scheduler {
  /// A closure without an owner, which is no job.
  mutating func addBarrier(_ barrier: @escaping @Sendable () -> Void) {
    phases[phases.count - 1].barrier = barrier
    closeLastPhase()
    statistics.enqueued += 1
    unfinished += 1
    unfinishedBarriers += 1
  }

  /// A job, in a phase of its own. If the owner has ended, that is empty, and passed over.
  mutating func addAlone(_ work: consuming WorkItem, _ lifetime: OwnerLifetime, level: Int) -> Addition {
    // One that nothing has been added to will do as it is: so each of many barriers in a row has one phase, not two.
    if !lastPhase.with({ $0.isUnused }) { closeLastPhase() }
    guard let ownerQueue = ownerQueue(for: Borrowed(lifetime)) else { return .refused(work) }
    let addition = add(work, to: ownerQueue, level: level)
    closeLastPhase()
    return addition
  }

  /// What is added from now on waits for everything before it.
  private mutating func closeLastPhase() {
    phases[phases.count - 1].isClosed = true
    dropEmptyPhases()
    appendPhase()
  }
}
