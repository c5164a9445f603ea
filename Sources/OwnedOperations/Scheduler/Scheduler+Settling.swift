/// What workers have done is counted, and what they have not begun reclaimed.
extension Scheduler {
  /// For the worker between batches: counts all that it has begun.
  mutating func settleBatch(of worker: ScheduledWorker) {
    closeNestedWork(of: worker)
    settle(worker, includingCurrent: true)
    worker.batch.empty()
  }

  /// Counts what the worker has finished.
  /// - Parameter includingCurrent: whether the item that it began last is over.
  mutating func settle(_ worker: ScheduledWorker, includingCurrent: Bool) {
    var finished = 0
    var notRun = 0
    worker.batch.settle(includingCurrent: includingCurrent) { run, tally in
      // What is over must not be taken off before it was counted in. It was added before it was over, and so before this look.
      if !Mutation.nestedWorkIsCountedLate.isOn { takeInNestedWork(of: worker, opensAgain: true) }
      let over = tally.counted + tally.nodes
      statistics.count(tally)
      finished += over
      notRun += tally.skipped + tally.cancelled
      run.ownerQueue.with { ownerQueue in
        ownerQueue.unretainedPhase.with {
          $0.finish(ownerQueue, count: over)
          $0.changeExecuting(ownerQueue, by: -tally.items)
          if tally.items > 0, let flow = run.flowOfLine, let line = flow.line {
            line.executing -= tally.items
            $0.release(lineOf: flow, ownerLimit: ownerLimit)
            ownerQueue.removeIfIdle(flow)
          }
        }
        if tally.items > 0 { afterFinish(of: ownerQueue) }
      }
    }
    finish(finished, withoutRunning: notRun)
  }

  /// A node of a graph threw.
  mutating func countFailedNode(of ownerQueue: OwnerQueue) {
    ownerQueue.phase.finish(ownerQueue)
    statistics.count(WorkBatch.Tally(failed: 1))
    finish(1)
  }

  /// - Parameter skipped: how many of the nodes because their owner had ended.
  mutating func countCancelledNodes(_ count: Int, skipped: Int, of ownerQueue: OwnerQueue, level: Int) {
    ownerQueue.phase.finish(ownerQueue, count: count)
    noteDead(count, level: level, of: ownerQueue)
    statistics.cancelled += count
    statistics.skippedForEndedOwners += skipped
    finish(count, withoutRunning: count)
    afterFinish(of: ownerQueue)
  }

  /// Something of the owner's is over: another turn of its may be due, or its owner queue.
  mutating func afterFinish(of ownerQueue: OwnerQueue) {
    guard !ownerQueue.isRemoved else { return }
    if ownerLimit != .max { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
    if ownerQueue.hasEnded {
      ownerQueue.phase.removeIfDone(ownerQueue)
    } else {
      ownerQueue.unretainedPhase.with { if $0.isOfBarriers { $0.removeIfDropped(ownerQueue) } }
    }
  }

  /// - Parameter withoutRunning: how many of them were cancelled before they began. As in Foundation, these are no progress.
  mutating func finish(_ count: Int, withoutRunning: Int = 0) {
    guard count > 0 else { return }
    unfinished -= count
    if progress != nil { noteProgress(count - withoutRunning) }
  }

  /// For those who want to know what is over now.
  mutating func settleAll() {
    for worker in workers.active { settle(worker, includingCurrent: worker.isOutside) }
  }

  /// Reclaims what workers have not begun: from now on it starts under the rules as they are now. Those who took first come last, so that
  /// the oldest is in front again.
  mutating func reclaimBatches() {
    if Mutation.workInHandStays.isOn { return }
    for worker in workers.active { closeNestedWork(of: worker) }
    let holders = workers.active.filter { $0.batch.hasRest }
    guard holders.count > 1 else {
      if let holder = holders.first { reclaimBatch(from: holder) }
      return
    }
    let isReversed = Mutation.batchesComeBackReversed.isOn
    for worker in holders.sorted(by: { ($0.serial > $1.serial) != isReversed }) { reclaimBatch(from: worker) }
  }

  /// See `BarrierPhase.noteDead`.
  mutating func noteDead(_ count: Int, level: Int, of ownerQueue: OwnerQueue) {
    guard !ownerQueue.isRemoved else { return }
    deferredReleases += ownerQueue.phase.noteDead(count, level: level, pool: &pool)
  }

  /// Takes what the worker has not begun away from it and puts it back to the front of the ready lists.
  mutating func reclaimBatch(from worker: ScheduledWorker) {
    closeNestedWork(of: worker)
    let level = worker.batch.level
    worker.batch.takeRest { items, count, flow, age in
      let ownerQueue = flow.ownerQueue
      ownerQueue.phase.giveBack(movingFrom: items, count: count, flow: flow, level: level, age: age)
      if ownerLimit != .max { ownerQueue.phase.release(ownerQueue, ownerLimit: ownerLimit) }
    }
    if let (source, nodes) = worker.batch.nodeStack.take() { putBack(nodes, of: source) }
  }

  /// Puts nodes that a worker had kept for itself before all others of their owner and priority. Those that have been cancelled meanwhile
  /// are finished after unlocking.
  mutating func putBack(_ nodes: ContiguousArray<UInt32>, of source: NodeStack.Source) {
    guard !nodes.isEmpty else { return }
    let (run, ownerQueue) = (source.run, source.ownerQueue.object)
    guard run.list(nodes), !ownerQueue.hasEnded else {
      var list = WorkList()
      for node in nodes { list.append(.record(run, node), pool: &pool) }
      deferredReleases.append(TakenWork(list))
      return
    }
    let items = UnsafeMutablePointer<WorkItem>.allocate(capacity: nodes.count)
    for (index, node) in nodes.enumerated() { (items + index).initialize(to: .record(run, node)) }
    // They go back as if they were items that had been taken, which count as executing.
    ownerQueue.phase.changeExecuting(ownerQueue, by: nodes.count)
    ownerQueue.phase.giveBack(
      movingFrom: items, count: nodes.count, flow: ownerQueue.makeFlow(at: source.level), level: source.level, age: 0)
    items.deallocate()
  }

  /// Whether something is to be released after unlocking, or the progress to be told, which may run code of the user's.
  var hasReleases: Bool { !deferredReleases.isEmpty || !departures.ownerQueues.isEmpty || isProgressDue }
}
