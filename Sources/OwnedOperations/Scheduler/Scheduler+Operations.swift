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
        for operation in operations.prefix(attached) { withdraw(operation) }
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

  // MARK: Turns

  enum TurnAddition {
    /// It has its permit. The caller is to begin it after unlocking.
    case begins
    case waits
    /// To be settled after unlocking.
    case refused(OwnedOperation.Refusal)
  }

  /// Adds an asynchronous operation whose start does nothing but say that it has come. If nobody is before it, it needs no worker: it gets
  /// its permit here, and no work item.
  mutating func addTurn(_ turn: OwnedOperation, to host: any OperationScheduler) -> TurnAddition {
    let place: Int
    switch insert(turn, to: host) {
    case .refused(let refusal): return .refused(refusal)
    case .blocked: place = -1
    case .ready(let readyPlace): place = readyPlace
    }
    statistics.enqueued += 1
    unfinished += 1
    guard place >= 0 else { return .waits }
    guard mayBeginAtOnce(operations[place].unretainedOwnerQueue) else {
      makeReady(place)
      return .waits
    }
    if !Mutation.turnTakesNoPermit.isOn { setDetached(true, place) }
    return .begins
  }

  /// Whether what is added now has nobody before it, and a permit.
  private func mayBeginAtOnce(_ ownerQueue: Borrowed<OwnerQueue>) -> Bool {
    guard !isDriven, !isSuspended, firstPhase.address == lastPhase.address, firstPhase.with({ $0.readyLevels == 0 }) else { return false }
    // As for a worker that sets out: those on their way want permits, too.
    guard returning.isEmpty, limit == .max || workers.activeCount - yielded + detached < limit else { return false }
    return !ownerQueue.with { $0.isHeld(ownerLimit) }
  }

  /// The turn has not begun after all. It is blocked again, its owner is held by bodies only, or another thread has started or cancelled
  /// it.
  mutating func returnTurn(_ turn: OwnedOperation) {
    guard let place = operations.place(of: turn), operations[place].isDetached else { return }
    setDetached(false, place)
    let ownerQueue = operations[place].ownerQueue
    if ownerLimit != .max, !ownerQueue.isRemoved { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
    if turn.isWaitingForScheduler { makeReady(place) }
  }

  private mutating func setDetached(_ isDetached: Bool, _ place: Int) {
    let change = isDetached ? 1 : -1
    operations[place].isDetached = isDetached
    detached += change
    operations[place].unretainedOwnerQueue.with { ownerQueue in
      ownerQueue.unretainedPhase.with { $0.changeExecuting(ownerQueue, by: change) }
    }
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
    let ownerQueue = ownerQueue(for: operation)
    lastPhase.with { phase in ownerQueue.with { phase.countIn($0) } }
    let place = operations.insert(operation, ownerQueue: ownerQueue)
    return isReady ? .ready(place) : .blocked
  }

  /// For an owner that is just ending, the work goes without one: it will be finished by its own lifetime.
  private func ownerQueue(for operation: OwnedOperation) -> Borrowed<OwnerQueue> {
    let lifetime = Borrowed(operation.lifetime)
    let isOwn = lifetime.address == Borrowed(ownLifetime).address
    return ownerQueue(for: isOwn ? nil : lifetime) ?? lastPhase.with { Borrowed($0.queueWithoutOwner) }
  }

  /// Undoes `insert`, before the operation was counted. Somebody may have started it meanwhile; then it goes on without us.
  mutating func withdraw(_ operation: OwnedOperation) {
    if let ownerQueue = operations.remove(operation)?.ownerQueue { ownerQueue.phase.finish(ownerQueue) }
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
    let item = entry.unretainedOwnerQueue.with { ownerQueue in
      ownerQueue.unretainedPhase.with { $0.makeReady(ownerQueue: ownerQueue, level: level, pool: &pool, ownerLimit: ownerLimit) }
    }
    item.initialize(to: .record(entry.operation, 0))
  }

  mutating func makeReadyIfWaiting(_ operation: OwnedOperation) {
    if let place = operations.place(of: operation), operation.isWaitingForScheduler { makeReady(place) }
  }

  mutating func makeReadyThoseWaiting(_ operations: [OwnedOperation]) { for operation in operations { makeReadyIfWaiting(operation) } }

  /// The operation's priority is not that of the item any more.
  /// - Returns: whether the item is the one to go by all the same: there is none of the current priority.
  mutating func useUp(_ operation: OwnedOperation, at level: Int, unlessAt current: Int) -> Bool {
    guard let place = operations.place(of: operation) else { return false }
    operations[place].levels &= ~(1 << level)
    return operations[place].levels & 1 << current == 0 && !Mutation.priorityLosesTheItem.isOn
  }

  /// The item led to no start: the operation was started by another item, or is blocked again. If it became ready in the meantime, that
  /// went by the item.
  mutating func useUp(_ operation: OwnedOperation, at level: Int) {
    guard let place = operations.place(of: operation) else { return }
    operations[place].levels &= ~(1 << level)
    if operation.isWaitingForScheduler, !Mutation.itemIsUsedUpWithTheNews.isOn { makeReady(place) }
  }

  /// The operation goes on without a thread of the queue's, and takes a permit with it. What the worker has taken beside it needs another.
  mutating func detach(_ operation: OwnedOperation, from worker: ScheduledWorker?) {
    if limit != .max || ownerLimit != .max, let worker, !Mutation.batchGoesOnBesideADetached.isOn { reclaimBatch(from: worker) }
    guard !Mutation.detachedTakesNoPermit.isOn else { return }
    guard let place = operations.place(of: operation), !operations[place].isDetached else { return }
    setDetached(true, place)
    if let permit = taskPermits[ObjectIdentifier(operation)], permit.waits > 0 { yield(permit, bodyOf: operations[place].ownerQueue) }
  }

  // MARK: Finishing

  /// A worker may still be in the start of the operation, which has been finished meanwhile. What the worker runs is no body any more, and
  /// may block. Linear in the workers.
  private mutating func setWorkerOutside(of operation: OwnedOperation) {
    guard let worker = workers.active.first(where: { $0.isInside(operation) }) else { return }
    reclaimBatch(from: worker)
    if worker.isInside(operation), !Mutation.finishedStartKeepsItsPermit.isOn { setOutside(worker) }
  }

  /// - Parameter isFromElsewhere: the thread is not that of the worker which has the operation's item, if one has.
  mutating func finish(_ operation: OwnedOperation, isFromElsewhere: Bool) {
    // Unless it was withdrawn.
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
    let deadItems = entry.levels.nonzeroBitCount - (operation.didRun ? 1 : 0)
    entry.unretainedOwnerQueue.with { ownerQueue in
      ownerQueue.unretainedPhase.with { phase in
        phase.finish(ownerQueue)
        if entry.isDetached { phase.changeExecuting(ownerQueue, by: -1) }
      }
      if deadItems > 0 {
        for level in 0..<PriorityLevel.count where entry.levels & 1 << level != 0 { noteDead(1, level: level, of: ownerQueue) }
      }
      afterFinish(of: ownerQueue)
    }
  }
}
