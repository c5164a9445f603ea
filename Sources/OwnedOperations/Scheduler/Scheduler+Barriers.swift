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

  /// A job, in a phase of barriers: that of those right before it, if there are any. So many in a row cost little more than jobs. If the
  /// owner has ended, the phase may be empty, and is passed over.
  mutating func addAlone(_ work: consuming WorkItem, _ lifetime: OwnerLifetime, level: Int) -> Addition {
    if let phase = barriersRightBefore {
      guard let ownerQueue = ownerQueue(for: Borrowed(lifetime), in: phase) else { return .refused(work) }
      return add(work, to: ownerQueue, level: level, in: phase)
    }
    if !lastPhase.with({ $0.isFitForBarriers }) {
      closeLastPhase()
      // It may have been the only one, and without work. A worker drops one that has many owners.
      if firstPhase.with({ $0.ownerQueueCount < Self.mostOwnersOfBarriers }) { dropClosedPhases() }
    }
    guard let ownerQueue = ownerQueue(for: Borrowed(lifetime)) else { return .refused(work) }
    lastPhase.with { $0.becomeBarriers() }
    let addition = add(work, to: ownerQueue, level: level, in: lastPhase)
    closeLastPhase()
    return addition
  }

  /// The phase before the last one, if it has barriers, and nothing has been added since.
  private var barriersRightBefore: Borrowed<BarrierPhase>? {
    guard phases.count > 1, lastPhase.with({ $0.isUnused }) else { return nil }
    let phase = Borrowed(phases[phases.count - 2])
    return phase.with { $0.isOfBarriers && $0.unfinished > 0 && $0.ownerQueueCount < Self.mostOwnersOfBarriers } ? phase : nil
  }

  /// When a phase is over, its owner queues go in one hold of the lock.
  private static let mostOwnersOfBarriers = 64

  /// What is added from now on waits for everything before it.
  private mutating func closeLastPhase() {
    phases[phases.count - 1].isClosed = true
    dropEmptyPhases()
    appendPhase()
  }
}
