import Foundation

/// How the queue takes operations in, and what they tell it. How they are started stands in `QueueCore+Operations`.
extension OwnerScopedQueue: OperationScheduler {
  /// Adds operations, all of them or, if an error is thrown, none.
  ///
  /// - Complexity: linear in the operations and, to find cycles, in what they depend on.
  /// - Throws: ``OwnerScopedQueueError`` if an operation is in the list twice, is in a queue already, has been started, or belongs to an
  ///   ended owner. Also if dependencies form a cycle, which is named.
  public func enqueue(_ operations: [Operation]) throws(OwnerScopedQueueError) {
    var seen = Set<ObjectIdentifier>()
    for operation in operations where !seen.insert(ObjectIdentifier(operation)).inserted {
      throw .duplicateOperation(OwnedOperation.label(of: operation))
    }
    try OwnedOperation.checkForCycles(in: operations)
    try add(operations)
  }

  /// Adds without looking for cycles. All or nothing.
  func add(_ operations: [Operation]) throws(OwnerScopedQueueError) {
    var scheduled: [OwnedOperation] = []
    scheduled.reserveCapacity(operations.count)
    do throws(OwnerScopedQueueError) {
      for operation in operations { scheduled.append(try self.scheduled(operation)) }
    } catch {
      for case let proxy as PlainOperationProxy in scheduled { proxy.abandon() }
      throw error
    }
    if let refusal = attach(scheduled) {
      for case let proxy as PlainOperationProxy in scheduled { proxy.abandon() }
      refusal.settle()
      for operation in scheduled where !operation.isOwnerAlive && operation !== refusal.operation { operation.settleRefusal() }
      // Owners that are not refused have been made known to the queue, which may have nothing else to do.
      if core.read({ $0.hasRunOut }) { core.noteIdle() }
      throw refusal.error
    }
    for operation in scheduled { operation.lifetime.ownerHold?.lookAgainIfHeldBack() }
    // Those cancelled before have nothing to wait for, not even for a suspended queue. A worker may have come first.
    for operation in scheduled where operation.isCancelled { _ = operation.startIfReady() }
  }

  /// One of ours, which is most usual. Costs no arrays.
  func add(_ operation: OwnedOperation) throws(OwnerScopedQueueError) {
    let (refusal, added) = core.mutate { scheduler, _ in (scheduler.add(operation, to: self), scheduler.statistics.enqueued) }
    if let refusal {
      refusal.settle()
      throw refusal.error
    }
    core.takeBackOne(turn: added)
    operation.lifetime.ownerHold?.lookAgainIfHeldBack()
    if operation.isCancelled { _ = operation.startIfReady() }
  }

  /// Adds a turn, and begins it if nobody is before it. One whose owner has ended is cancelled by that.
  func addTurn(_ turn: QueueTurn) {
    switch core.mutate({ scheduler, _ in scheduler.addTurn(turn, to: self) }) {
    case .begins: core.begin(turn)
    case .waits: break
    case .refused(let refusal):
      refusal.settle()
      refuse(refusal.error)
    }
    turn.lifetime.ownerHold?.lookAgainIfHeldBack()
    if turn.isCancelled { _ = turn.startIfReady() }
  }

  /// The operation itself if it is ours, or one of ours that runs it.
  private func scheduled(_ operation: Operation) throws(OwnerScopedQueueError) -> OwnedOperation {
    if let owned = operation as? OwnedOperation { return owned }
    return try PlainOperationProxy(running: operation, for: self)
  }

  private func attach(_ operations: [OwnedOperation]) -> OwnedOperation.Refusal? {
    let now = Uptime.now
    return core.mutate { scheduler, followUp in scheduler.add(operations, to: self, now: now, &followUp) }
  }

  // MARK: OperationScheduler

  func operationMayHaveBecomeReady(_ operation: OwnedOperation) { core.operationMayHaveBecomeReady(operation) }

  var hasBarriers: Bool { core.read { $0.phases.count > 1 } }

  /// Linear in the owners that have work here.
  func mayHaveWorkToBegin(ofOwnerIn hold: OwnerHold) -> Bool {
    let worker = Worker.current.flatMap { $0.works(for: core) ? $0 : nil }
    return core.mutate { scheduler, _ in
      // What is over is not to begin. A job that is over may go on with nested work. Then only that work executes.
      scheduler.settleAll()
      // What operations wait for is known, what jobs wait for is not.
      var hasWork = scheduler.waiting > (worker?.isWaiting ?? false ? 1 : 0)
      for phase in scheduler.phases where phase.unfinished > 0 {
        phase.forEachOwnerQueue { ownerQueue in
          if ownerQueue.isHeldBack || ownerQueue.unfinished > ownerQueue.executing, ownerQueue.lifetime?.mayConcern(hold) ?? false {
            hasWork = true
          }
        }
      }
      return hasWork
    }
  }

  func unfinishedOperations(ownedBy lifetime: OwnerLifetime?, atMost limit: Int) -> [OwnedOperation]? {
    core.read { scheduler in
      guard scheduler.operations.count <= limit else { return nil }
      return lifetime.map { scheduler.operations.operations(ownedBy: $0) } ?? scheduler.operations.operations
    }
  }

  func operationDidBecomeReady(_ operation: OwnedOperation) { core.operationDidBecomeReady(operation) }

  func operationDidBegin() { begunOperations.add() }

  func operationDidFinish(_ operation: OwnedOperation) -> Bool {
    ThreadSlot.blockingObserver.object(BlockingObserver.self)?.bodyDidEnd(of: operation)
    let isFromElsewhere = Worker.current?.operationInside != ObjectIdentifier(operation)
    let hasRunOut = core.mutate { scheduler, _ in
      scheduler.finish(operation, isFromElsewhere: isFromElsewhere)
      return scheduler.hasRunOut
    }
    if hasRunOut { core.noteIdle() }
    return !isFromElsewhere
  }

  // MARK: Waits of tasks

  func beginTaskWait(of operation: OwnedOperation) {
    core.note { scheduler in
      if let place = scheduler.operations.place(of: operation) { scheduler.beginTaskWait(of: operation, at: place) }
    }
  }

  func didBeginTaskWait() { core.followUp() }

  func endTaskWait(of operation: OwnedOperation) async {
    await withCheckedContinuation { continuation in
      if endTaskWait(of: operation, .task(SuspendedTask(continuation))) { continuation.resume() }
    }
  }

  func endBlockingTaskWait(of operation: OwnedOperation) {
    let thread = WaitingThread()
    if !endTaskWait(of: operation, .thread(thread)) { thread.wait(drivenBy: driver, for: "a turn to go on") }
  }

  func taskWasCancelled(of operation: OwnedOperation) { core.mutate { scheduler, _ in scheduler.taskWasCancelled(of: operation) } }

  private func endTaskWait(of operation: OwnedOperation, _ waiter: Waiter) -> Bool {
    core.mutate { scheduler, _ in scheduler.endTaskWait(of: operation, waiter) }
  }

  // MARK: Priorities

  func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority) {
    core.mutate { scheduler, _ in
      if let place = scheduler.operations.place(of: operation), scheduler.operations[place].levels != 0 { scheduler.makeReady(place) }
    }
  }

  /// Nobody tells us when the priority of a plain operation is changed. So it is looked for when the queue is resumed, and when a plain
  /// operation finishes, before the next is taken. Looking takes no more than a twentieth of the time, because it is linear in the
  /// operations.
  func followPriorities(isResuming: Bool) {
    let start = Uptime.now
    let operations = core.read { isResuming || start >= $0.nextLookAtPriorities ? $0.operations.operations : [] }
    guard operations.count > (isResuming ? 0 : 1) else { return }
    // Outside the lock: a subclass may have overridden the property.
    for case let proxy as PlainOperationProxy in operations {
      let priority = proxy.operation.queuePriority
      if proxy.queuePriority != priority { proxy.queuePriority = priority }
    }
    let end = Uptime.now
    core.note { $0.nextLookAtPriorities = end + 20 * (end - start) }
  }
}
