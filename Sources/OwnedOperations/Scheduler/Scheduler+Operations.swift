/// Operations on their way through the queue. The rules stand in `QueueCore+Operations`.
extension Scheduler {
  // MARK: Adding

  /// - Returns: why not, to be settled after unlocking.
  mutating func add(_ operation: OwnedOperation, to host: any OperationScheduler) -> OwnedOperation.Refusal? {
    switch insert(operation, to: host) {
    case .refused(let refusal): return refusal
    case .ready(let place): makeReady(place)
    case .blocked: break
    }
    statistics.enqueued += 1
    unfinished += 1
    return nil
  }

  /// All or none.
  /// - Returns: why none, to be settled after unlocking.
  mutating func add(_ operations: [OwnedOperation], to host: any OperationScheduler, now: UInt64, _ followUp: inout FollowUp)
    -> OwnedOperation.Refusal?
  {
    var attached = 0
    var ready: [OwnedOperation] = []
    var waiting: [OwnedOperation] = []
    for operation in operations {
      switch insert(operation, to: host) {
      case .refused(let refusal):
        for operation in operations.prefix(attached) { takeBack(operation) }
        return refusal
      case .ready: ready.append(operation)
      case .blocked: if operation.isToldOfNothing { waiting.append(operation) }
      }
      attached += 1
    }
    statistics.enqueued += attached
    unfinished += attached
    // Their places are looked up only now: each insertion may have moved those before it.
    for operation in ready {
      if let place = self.operations.place(of: operation) { makeReady(place) }
    }
    watch(waiting, now: now, &followUp)
    return nil
  }

  enum InsertResult {
    /// To be made ready at this place, which is good until the next insertion.
    case ready(Int)
    case blocked
    case refused(OwnedOperation.Refusal)
  }

  /// Attaches and registers the operation.
  mutating func insert(_ operation: OwnedOperation, to host: any OperationScheduler) -> InsertResult {
    var isReady = false
    switch operation.attach(to: host) {
    case .refused(let refusal): return .refused(refusal)
    case .ready: isReady = true
    case .blocked: break
    }
    let slot = slot(for: operation)
    lastPhase.with { phase in slot.with { phase.addBlocked($0) } }
    let place = operations.insert(operation, slot: slot)
    return isReady ? .ready(place) : .blocked
  }

  /// For an owner that is just ending, the work goes without one: it will be finished by its own lifetime.
  private func slot(for operation: OwnedOperation) -> Borrowed<OwnerSlot> {
    let lifetime = Borrowed(operation.lifetime)
    let isOwn = lifetime.address == Borrowed(ownLifetime).address
    return slot(for: isOwn ? nil : lifetime) ?? lastPhase.with { Borrowed($0.slotWithoutOwner) }
  }

  /// Takes back `insert`, before the operation was counted. Somebody may have started it meanwhile; then it goes on without us.
  mutating func takeBack(_ operation: OwnedOperation) {
    if let slot = operations.remove(operation)?.slot { slot.phase.finish(slot) }
    if operation.detach() { endedOperations += 1 }
  }

  // MARK: Running

  mutating func makeReady(_ place: Int) {
    let entry = operations[place]
    if entry.watchList != .none { unwatch(place) }
    let level = PriorityLevel.of(entry.unretainedOperation.with { $0.scheduledPriority })
    guard entry.levels & 1 << level == 0 else { return }
    operations[place].levels |= 1 << level
    endHandoffBeforeAddition()
    let record = entry.unretainedSlot.with { slot in
      slot.unretainedPhase.with { $0.makeReady(slot: slot, level: level, pool: &pool, ownerLimit: ownerLimit) }
    }
    record.initialize(to: .operation(entry.operation))
  }

  mutating func makeReadyIfWaiting(_ operation: OwnedOperation) {
    if let place = operations.place(of: operation), operation.isWaitingForScheduler { makeReady(place) }
  }

  /// The operation goes on without a thread of the queue's, and takes a permit with it. What the worker has taken beside it needs another.
  mutating func detach(_ operation: OwnedOperation, from worker: ScheduledWorker?) {
    if limit != .max || ownerLimit != .max, let worker { reclaimBatch(from: worker) }
    guard let place = operations.place(of: operation), !operations[place].isDetached else { return }
    operations[place].isDetached = true
    detached += 1
    let slot = operations[place].slot
    slot.phase.changeExecuting(slot, by: 1)
    if let permit = taskPermits[ObjectIdentifier(operation)], permit.waits > 0 { yield(permit, bodyOf: slot) }
  }

  // MARK: Finishing

  /// A worker may still be in the start of the operation, which has been finished meanwhile: what it runs is no body any more, and may
  /// block. Linear in the workers.
  private mutating func setWorkerOutside(of operation: OwnedOperation) {
    guard let worker = workers.active.first(where: { $0.isInside(operation) }) else { return }
    reclaimBatch(from: worker)
    if worker.isInside(operation) { setOutside(worker) }
  }

  /// - Parameter isFromElsewhere: the thread is not that of the worker which has the operation's record, if one has.
  mutating func finish(_ operation: OwnedOperation, isFromElsewhere: Bool) {
    // Unless it was taken back.
    guard let entry = operations.remove(operation) else { return }
    if isFromElsewhere, !entry.isDetached, operation.didRun { setWorkerOutside(of: operation) }
    if operation.didRun { endedOperations += 1 }
    statistics.count(operation)
    let isProgress = progress != nil && operation.ranToItsEnd
    finish(1, withoutRunning: isProgress ? 0 : 1)
    forgetTask(of: operation)
    waits.leave(ObjectIdentifier(operation))
    if entry.isDetached { detached -= 1 }
    if entry.watchList != .none { unwatch(entry) }
    let deadRecords = entry.levels.nonzeroBitCount - (operation.didRun ? 1 : 0)
    entry.unretainedSlot.with { slot in
      slot.unretainedPhase.with { phase in
        phase.finish(slot)
        if entry.isDetached { phase.changeExecuting(slot, by: -1) }
      }
      if deadRecords > 0 {
        for level in 0..<PriorityLevel.count where entry.levels & 1 << level != 0 { noteDead(1, level: level, of: slot) }
      }
      afterFinish(of: slot)
    }
  }
}
