/// Jobs that a worker's own jobs have added, and that it has kept for itself. See `NestedWork`.
extension Worker {
  // MARK: Adding

  /// Where a job may be written that this thread adds now. Nil unless the thread is a worker's of the queue, in a body whose nested work of
  /// that owner and priority it keeps.
  static func placeForNested(in core: QueueCore, _ lifetime: Borrowed<OwnerLifetime>, level: Int) -> NestedPlace? {
    guard let address = ThreadSlot.worker.pointer else { return nil }
    let worker = Borrowed<Worker>(address: address)
    guard let item = worker.with({ $0.placeForNested(in: core, lifetime, level: level) }) else { return nil }
    return NestedPlace(worker: worker, item: item)
  }

  private func placeForNested(in core: QueueCore, _ lifetime: Borrowed<OwnerLifetime>, level: Int) -> UnsafeMutablePointer<WorkItem>? {
    guard isInJob, works(for: core), level == batch.level else { return nil }
    return Borrowed(batch.nested).with { nested in  // the batch keeps it
      guard nested.keepsWork(of: lifetime) else { return nil }
      if !nested.isMonitored, !Mutation.nestedWorkIsNotMonitored.isOn {
        core.monitorNestedWork()
        nested.isMonitored = true
      }
      return nested.makePlace()
    }
  }

  fileprivate func addNested() -> Bool {
    guard Borrowed(batch.nested).with({ $0.add() }) else { return false }
    if !Mutation.nestedWorkIsNotNoted.isOn { hint.noteNestedWork() }
    return true
  }

  // MARK: Running

  /// Whose work comes next, after the batch.
  var nextNestedLifetime: UnsafeMutableRawPointer? { batch.nested.isEmpty ? nil : batch.nested.lifetime }

  /// How long what jobs have added is run until the batch is settled, in nanoseconds, from the first look at the clock on: jobs that have
  /// become slow of late take longer once. With less a tree of jobs would be cut into more and smaller pieces.
  private static let nestedTime: UInt64 = 200_000

  /// Runs what jobs of the batch have added and this worker has kept. That comes after the batch's last item, as if it were part of it.
  /// - Returns: how many.
  @inline(never)
  func runNested(_ level: Int, _ held: inout HeldOwner) -> UInt64 {
    let nested = Borrowed(batch.nested)  // the batch keeps it
    guard let flow = nested.with({ $0.flow }), batch.mayGoOn(with: flow) else { return 0 }
    var time = ChainTime(allowance: Self.nestedTime, step: nestedStep)
    var count: UInt32 = 0
    var over = 0
    defer { currentOwnerQueue = nil }
    while mayRunNested(level, nested) {
      // Before one is taken in hand, see `WorkBatch`.
      batch.goOn(nestedOver: over)
      guard let work = nested.with({ $0.begin() }) else {
        batch.setNestedOver(over)
        break
      }
      count += 1
      // Now the last item is known to execute, for it goes on, and so the flow to be there.
      let ownerQueue = flow.with { $0.unretainedOwnerQueue }
      ownerQueue.with { ownerQueue in runNested(work, ownerQueue, &over, &held) }
      if time.isDue(count), time.isUsedUp(&nestedStep, batchStart: batchStart) {
        leavesFamilies = nested.with { $0.isDeep && !$0.isEmpty }
        break
      }
    }
    return UInt64(count)
  }

  @inline(__always)  // for each job
  private func mayRunNested(_ level: Int, _ nested: Borrowed<NestedWork>) -> Bool {
    let flags = hint.flags
    return flags.isDisjoint(with: .olderThanNested(at: level))
      || flags.isDisjoint(with: .moreUrgentThanNested(at: level)) && nested.with { $0.isDeep } || Mutation.nestedWorkOvertakes.isOn
  }

  /// Runs one nested job.
  /// - Parameter over: how many are over.
  @inline(__always)  // or the job is counted once more, for the call
  private func runNested(_ work: consuming WorkItem, _ ownerQueue: OwnerQueue, _ over: inout Int, _ held: inout HeldOwner) {
    currentOwnerQueue = ownerQueue
    switch consume work {
    case .ownerBlock(let body):
      switch held.answer(for: ownerQueue.unretainedLifetime) {
      case .begins(let owner):
        beginNested(over)
        owner.with { body($0) }
        endNested(&over)
        held.bodyDidEnd(beforeJobOf: nextNestedLifetime)
      case .heldBack(let hold):
        putBackNested(.ownerBlock(body), over, until: hold)
        held.letGoInBackground()
      case .gone:
        skipNested(over, ownerQueue)
        held.letGoInBackground()
      }
    case .block(let body):
      held.letGoInBackground()
      guard ownerQueue.mayStart else { return skipNested(over, ownerQueue) }
      beginNested(over)
      body()
      endNested(&over)
    default: break  // nothing else is kept
    }
  }

  private func beginNested(_ over: Int) {
    (isInItem, isInJob) = (true, true)
    batch.setNestedBegun(over: over)
  }

  private func endNested(_ over: inout Int) {
    over += 1
    batch.setNestedOver(over)
    (isInItem, isInJob) = (false, false)
  }

  @inline(never)
  private func skipNested(_ over: Int, _ ownerQueue: OwnerQueue) {
    core.countSkippedNested(of: ownerQueue)
    batch.setNestedOver(over)
  }

  @inline(never)
  private func putBackNested(_ work: consuming WorkItem, _ over: Int, until hold: OwnerHold) {
    switch core.putBackNested(work, from: self) {
    case .waits(let ownerQueue):
      batch.setNestedOver(over)
      hold.keep(HeldBackOwnerQueue(ownerQueue, core))
    case .ended(let work), .cancelled(let work):
      batch.setNestedOver(over)
      DeferredReleases.add(work)  // the owner is still held
    }
  }
}

/// Where a nested job may be written.
struct NestedPlace {
  fileprivate let worker: Borrowed<Worker>
  /// Not initialised.
  let item: UnsafeMutablePointer<WorkItem>

  /// Adds what has been written.
  /// - Returns: false if it is to be taken away again, and added in another way.
  func add() -> Bool { worker.with { $0.addNested() } }
}
