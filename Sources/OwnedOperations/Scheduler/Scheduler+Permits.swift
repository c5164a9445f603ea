/// Who may run: workers, workers that come back from a wait, asynchronous operations.
///
/// - A worker holds a permit from its arrival until it leaves, unless it has yielded it. One on its way holds none yet; a handed job counts
///   as begun.
/// - An asynchronous operation holds a permit from the return of its start to its finish, unless its task has yielded it.
/// - `limit` bounds the holders; `ownerLimit` bounds those of one owner, counted in its owner queue.
/// - A body that waits for work of the same queue yields: it could wait for ever otherwise. A body that waits for anything else doesn't.
/// - Code of the user's that is no body (a deinit on a worker) yields whenever it waits.
/// - Who has yielded needs a permit to go on (`mayReturn`), of the queue and of its owner. Work that has begun may go on under any limit,
///   if need be alone. What is of a line (`SerialLine`) has yielded that, too, and waits until nothing of the line runs.
/// - Who returns comes before new work. If the queue's limit stands in its way, that is all of the queue's (`returnsComeFirst`). Otherwise
///   it is its owner's (`OwnerQueue.returning`), and its line's.
/// - Nothing that returns waits for a worker that is on its way: it may be on the one thread that both need.
/// - The task of an operation that has been cancelled needs no permit to go on: it is to come to its end.
/// - A task may wait at several places, in child tasks. The first wait yields the permit, the end of the last regains it; see
///   `TaskPermit`. An operation that was started by hand has none to yield; one whose start has not returned will have it then.
///
/// Processors are another account, and only new work asks it. There is one worker for each processor, not counting those that wait or were
/// found to be blocked. There are more if bodies were found to leave a part of their processors unused (`ProcessorShare`). One more is let
/// in when nothing has finished for long. There is no end to workers in waits of ours: what they wait for may be in this queue, behind any
/// number. Other workers are 192 at most, 64 without a limit. `WorkerThreads` has threads for all of them.
///
/// Permits alone would let a job that computes wait for its turn on a processor among 64. A million empty jobs (P1) took 0.39 and 0.48 of
/// GCD's time that way, 0.33 with both accounts. Next to oneTBB they took 1.2 and 1.36, with both 1.0. What they gain is little: bodies
/// asleep for 0.2 ms without a limit (P20) took 0.16 of `OperationQueue`'s time instead of 0.25.
extension Scheduler {
  /// How many permits are held.
  var holders: Int { workers.activeCount - arriving - yielded + detached + (handoff == nil ? 0 : 1) }

  /// Whether the worker that asks may take work.
  var mayTake: Bool {
    guard !returnsComeFirst, limit == .max || holders - 1 < limit else { return false }
    return hasProcessor(beside: workers.activeCount - 1)
  }

  /// Whether one more worker may set out. Those on their way count: each will want a permit.
  var maySend: Bool {
    guard limit == .max || workers.activeCount - yielded + detached < limit else { return false }
    return hasProcessor(beside: workers.activeCount)
  }

  private func hasProcessor(beside others: Int) -> Bool {
    // Those that are asleep are a part of what the share is the mean of: to leave them out there would count them twice.
    let bodies = others - waiting - extraWorkers
    return bodies - blockedWorkers < processors || processorShare.leavesRoom(beside: bodies, of: processors)
  }

  // MARK: Waits

  /// The worker's thread is about to block.
  mutating func beginWait(of worker: ScheduledWorker) {
    setBlocked(worker, false)
    worker.isWaiting = true
    waiting += 1
  }

  /// Gives the permit of the queue to others, and that of the owner whose body it is.
  /// - Parameter flow: of the body, if it is of a line.
  mutating func yield(_ permit: Permit, bodyOf ownerQueue: OwnerQueue?, in flow: Flow? = nil) {
    guard !permit.isYielded, !Mutation.keepsPermitInWait.isOn else { return }
    permit.isYielded = true
    yielded += 1
    guard let ownerQueue else { return }
    permit.ownerQueue = ownerQueue
    ownerQueue.yielded += 1
    if let flow, !Mutation.waitKeepsTheLine.isOn {
      permit.flow = flow
      flow.line?.yielded += 1
      ownerQueue.phase.release(lineOf: flow, ownerLimit: ownerLimit)
    }
    if ownerLimit != .max, !ownerQueue.isRemoved { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
  }

  /// The worker's thread is not blocked any more.
  /// - Returns: what to wait for, after following up, if there is no permit for it now.
  mutating func endWait(of worker: ScheduledWorker) -> WaitingThread? {
    worker.isWaiting = false
    waiting -= 1
    guard worker.permit.isYielded, !worker.isOutside else { return nil }
    // What was taken and has not begun counts as running, and may stand behind anything.
    if let line = worker.permit.flow?.line, line.isRunning { reclaimBatches() }
    guard !regainAtOnce(worker.permit) else { return nil }
    let thread = WaitingThread()
    askBack(worker.permit, .thread(thread))
    return thread
  }

  private mutating func regainAtOnce(_ permit: Permit) -> Bool {
    if !Mutation.returnsWithoutPermit.isOn {
      guard mayReturn(permit), !returning.contains(where: { mayReturn($0) }) else { return false }
    }
    regain(permit)
    return true
  }

  private mutating func askBack(_ permit: Permit, _ waiter: Waiter) {
    returning.append(permit, waiter)
    permit.ownerQueue?.returning += 1
    permit.flow?.line?.returning += 1
  }

  /// Those who may go on, to be woken after unlocking.
  mutating func admitReturning() -> [Waiter] {
    var admitted = returning.takeFree()
    while let permit = returning.isEmpty || !hasPermit ? nil : returning.first(where: { mayReturn($0) }) {
      if let waiter = returning.remove(permit) { admitted.append(waiter) }
      permit.ownerQueue?.returning -= 1
      permit.flow?.line?.returning -= 1
      regain(permit)
    }
    return admitted
  }

  // MARK: Waits of tasks

  /// A part of the operation's task is about to wait for work of the queue.
  mutating func beginTaskWait(of operation: OwnedOperation, at place: Int) {
    let permit = taskPermits[ObjectIdentifier(operation)] ?? TaskPermit()
    taskPermits[ObjectIdentifier(operation)] = permit
    permit.waits += 1
    guard permit.waits == 1 else { return }
    if operations[place].isDetached { yield(permit, bodyOf: operations[place].ownerQueue) }
    stopAsking(permit)
  }

  /// A part of the operation's task waits no longer for work of the queue.
  /// - Returns: whether it may go on; otherwise it is resumed when it may.
  mutating func endTaskWait(of operation: OwnedOperation, _ waiter: Waiter) -> Bool {
    guard let permit = taskPermits[ObjectIdentifier(operation)] else { return true }
    permit.waits -= 1
    guard permit.waits == 0, permit.isYielded, !operation.isTaskCancelled || Mutation.cancelledTaskNeedsAPermit.isOn,
      !regainAtOnce(permit)
    else { return true }
    askBack(permit, waiter)
    return false
  }

  /// The operation's task was cancelled, and says so by now.
  mutating func taskWasCancelled(of operation: OwnedOperation) {
    if let permit = taskPermits[ObjectIdentifier(operation)], !Mutation.cancelledTaskNeedsAPermit.isOn { stopAsking(permit) }
  }

  /// The operation has finished. What is left of its task needs no permit.
  mutating func forgetTask(of operation: OwnedOperation) {
    guard !taskPermits.isEmpty, let permit = taskPermits.removeValue(forKey: ObjectIdentifier(operation)) else { return }
    stopAsking(permit)
    if permit.isYielded { regain(permit) }
  }

  /// The permit is not asked for any more: who did goes on without.
  private mutating func stopAsking(_ permit: Permit) {
    guard returning.free(permit) else { return }
    guard let ownerQueue = permit.ownerQueue else { return }
    ownerQueue.returning -= 1
    permit.flow?.line?.returning -= 1
    if ownerLimit != .max, !ownerQueue.isRemoved { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
  }

  /// Whether the queue's limit keeps somebody waiting whose wait is over.
  var returnsComeFirst: Bool { limit != .max && returning.contains { mayReturnToOwner($0) } }

  /// Whether the queue has a permit for somebody who returns.
  private var hasPermit: Bool {
    let others = Mutation.returnsBehindArriving.isOn ? holders + arriving : holders
    return limit == .max || others < max(1, limit)
  }

  private func mayReturn(_ permit: Permit) -> Bool { hasPermit && mayReturnToOwner(permit) }

  private func mayReturnToOwner(_ permit: Permit) -> Bool {
    if let line = permit.flow?.line, line.isRunning { return false }
    guard ownerLimit != .max, let ownerQueue = permit.ownerQueue, !Mutation.returnsPastTheOwnersLimit.isOn else { return true }
    return ownerQueue.executing - ownerQueue.yielded < max(1, ownerLimit)
  }

  private mutating func regain(_ permit: Permit) {
    permit.isYielded = false
    yielded -= 1
    regainOwners(permit)
  }

  private mutating func regainOwners(_ permit: Permit) {
    guard let ownerQueue = permit.ownerQueue else { return }
    permit.ownerQueue = nil
    ownerQueue.yielded -= 1
    if let flow = permit.flow.take() {
      flow.line?.yielded -= 1
      ownerQueue.phase.release(lineOf: flow, ownerLimit: ownerLimit)
    }
    if ownerLimit != .max, !ownerQueue.isRemoved { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
  }

  // MARK: Outside of bodies

  /// The worker is, or is found to be, blocked in code of the user's that is no body. Its item is over, and its permit goes to others.
  mutating func setOutside(_ worker: ScheduledWorker) {
    guard !worker.isOutside else { return }
    worker.isOutside = true
    // What it has taken comes before what others take now.
    reclaimBatch(from: worker)
    settle(worker, includingCurrent: true)
    guard worker.permit.isYielded else { return yield(worker.permit, bodyOf: nil) }
    // By the body, which is none any more: nothing of the owner's comes back.
    stopAsking(worker.permit)
    regainOwners(worker.permit)
  }

  /// The worker looks for work again. It needs a permit like anybody who asks for work.
  mutating func comeBack(_ worker: ScheduledWorker) {
    guard worker.isOutside else { return }
    worker.isOutside = false
    setBlocked(worker, false)  // nobody may have looked since
    regain(worker.permit)
  }
}

extension ProcessorShare {
  /// Whether that many bodies at a time, and one more, leave a quarter of the processors unused.
  ///
  /// The bound is less than all processors. Bodies together can't use more than all, so there would be room for ever more of them.
  func leavesRoom(beside bodies: Int, of processors: Int) -> Bool { (bodies + 1) * value <= processors * Self.whole * 3 / 4 }
}
