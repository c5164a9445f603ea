/// Work that lies outside of the scheduler, with a worker, and is taken in when somebody takes the lock. See `NestedWork`.
extension Scheduler {
  /// Jobs that add nothing need no list.
  private static let leastBatchesWithoutAddition = 8
  /// With more ready work than that a list is not deep: each of them would wait for a batch.
  private static let mostReadyForDeep = 512

  /// The worker may keep what its jobs add, from now until its batch is settled or reclaimed: the batch has just been filled.
  mutating func openNestedWork(of worker: ScheduledWorker) {
    guard worker.batchesWithoutAddition < Self.leastBatchesWithoutAddition, limit == 1 || limit == .max, !takesOne, underlyingQueue == nil,
      fairness == .firstComeFirstServed,
      firstPhase.address == lastPhase.address
    else { return }
    let most = limit == 1 ? NestedWork.capacity : Int(min(Self.leastWorkForWorker / max(1, itemTime), UInt64(NestedWork.capacity)))
    guard most > 1, let flow = worker.batch.lastFlow, flow.with({ $0.line == nil && !$0.ownerQueue.hasEnded }) else { return }
    worker.batch.nested.open(for: flow, most: most, isDeep: mayOvertake(flow, level: worker.batch.level), isMonitored: isMonitored)
  }

  /// Whether what jobs of the flow add may come before what is ready.
  private func mayOvertake(_ flow: Borrowed<Flow>, level: Int) -> Bool {
    limit == .max && firstPhase.with { $0.readyCount <= Self.mostReadyForDeep && $0.runQueues[level].holdsNone(but: flow) }
  }

  /// Whether others than the worker have kept something that is still to be taken in.
  func hasNestedWork(besides worker: ScheduledWorker) -> Bool { workers.active.contains { $0 !== worker && $0.batch.nested.hasNews } }

  /// Whether the worker finds enough to do without what others have kept in deep lists: ready work that is no less urgent, or what it has
  /// kept itself.
  func leavesNestedWork(toOthersThan worker: ScheduledWorker) -> Bool {
    let readyLevels = firstPhase.with { $0.readyLevels }
    let level = worker.batch.nested.isEmpty ? readyLevels.trailingZeroBitCount : worker.batch.level
    return workers.active.allSatisfy { other in
      other === worker || !other.batch.nested.hasNews || other.batch.nested.isDeep && level <= other.batch.level
    }
  }

  /// Counts what workers have kept, and puts what they have not begun into the ready lists.
  @inline(never)
  mutating func takeInNestedWork() {
    for worker in workers.active { takeInNestedWork(of: worker, opensAgain: true) }
  }

  /// The worker keeps nothing from now on, and begins nothing that it has kept.
  mutating func closeNestedWork(of worker: ScheduledWorker) {
    if Mutation.listStaysOpen.isOn { return }
    worker.batch.nested.stayClosed()
    if worker.batch.nested.isOpen { takeIn(worker.batch.nested, of: worker, opensAgain: false) }
  }

  /// Opens the lists again that work was moved out of. Last of all in a hold of the lock, when the hint tells of that work.
  @inline(never)
  mutating func reopenNestedWork() {
    reopensNestedWork = false
    for worker in workers.active where worker.batch.nested.isToReopen { worker.batch.nested.reopen() }
  }

  /// No worker keeps anything from now on, nor begins what it has kept.
  mutating func closeNestedWork() {
    for worker in workers.active { closeNestedWork(of: worker) }
  }

  mutating func takeInNestedWork(of worker: ScheduledWorker, opensAgain: Bool) {
    if worker.batch.nested.hasNews { takeIn(worker.batch.nested, of: worker, opensAgain: opensAgain) }
  }

  @inline(never)
  private mutating func takeIn(_ nested: NestedWork, of worker: ScheduledWorker, opensAgain: Bool) {
    let level = worker.batch.level
    nested.takeIn(opensAgain: opensAgain) { added, flow in
      statistics.enqueued += added
      unfinished += added
      flow.ownerQueue.phase.countIn(flow.ownerQueue, count: added, areJobs: true)
    } _: { items, count, flow in
      flow.unretainedOwnerQueue.with { ownerQueue in
        ownerQueue.unretainedPhase.with { phase in
          for index in 0..<count {
            phase.makeReady(ownerQueue: ownerQueue, level: level, pool: &pool, ownerLimit: ownerLimit)
              .initialize(to: (items + index).move())
          }
        }
      }
    }
    if nested.isToReopen { reopensNestedWork = true }
  }

  /// A nested job that its worker has in hand, and can't run: only bodies hold its owner.
  mutating func putBackNested(_ work: consuming WorkItem, from worker: ScheduledWorker) -> PutBack {
    // See `putBack`.
    arrive(worker)
    reclaimBatch(from: worker)
    guard let flow = worker.batch.nested.flow?.object else { return .ended(work) }
    let ownerQueue = flow.ownerQueue
    if ownerQueue.hasEnded || worker.serial <= ownerQueue.cancelledUpTo {
      let isOfEndedOwner = ownerQueue.hasEnded
      countCancelled(1, of: ownerQueue, forEndedOwner: isOfEndedOwner)
      return isOfEndedOwner ? .ended(work) : .cancelled(work)
    }
    // It goes back as if it were an item that had been taken, which counts as executing.
    ownerQueue.phase.changeExecuting(ownerQueue, by: 1)
    let item = UnsafeMutablePointer<WorkItem>.allocate(capacity: 1)
    item.initialize(to: work)
    ownerQueue.phase.giveBack(movingFrom: item, count: 1, flow: flow, level: worker.batch.level, age: 0)
    item.deallocate()
    holdBack(ownerQueue)
    return .waits(ownerQueue)
  }
}
