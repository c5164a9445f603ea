import Foundation

/// A worker's way from its call until it leaves, step by step:
///
/// 1. *Run* (`run`) what the worker was given, item after item (`execute`), and then what these have added and it has kept (`runNested`).
/// 2. *Look* without the lock for work to come, after a batch that was small (`spin`).
/// 3. *Settle* what has run and *take* what is next, in one hold of the lock (`Scheduler.nextStep`). Go on at 1.
/// 4. *Leave* when there is nothing, last of all. Once the worker has left, it is the next to be sent for, and what it still did would
///    hold up what comes then. Its thread looks for other queues' workers, and then parks (`WorkerThreads`).
///
/// Where a driver has the thread, steps 1 and 3 are single calls (`Worker+Driven`).
extension Worker {
  // MARK: From call to leave

  /// - Returns: whether the queue has no other worker now.
  func drain(_ core: QueueCore) -> Bool {
    beginDrain()
    let deadline = isGuest ? Uptime.now + Self.guestTime : .max
    var last = hasWork ? runOnce(core.hint) : .nothing
    while true {
      let isTimeUp = last != .nothing && deadline != .max && Uptime.now > deadline
      switch core.mutate(
        with: (), stepOf: self, { scheduler, _, _ in scheduler.nextStep(of: self, after: last, isTimeUp: isTimeUp) })
      {
      case .run: last = runOnce(core.hint)
      case .lookAgain:
        takeBackAll()
        noteWait()  // which is no part of the next batch
        last = .nothing
      case .sweep:
        core.sweepOwnerQueues()
        noteWait()
        last = .nothing
      case .letOthersRun:
        dispatch()
        return false
      case .leave(let isLast): return isLast
      case .leaveLater: return core.note { $0.leave(self) }
      }
    }
  }

  /// Runs what the worker has been given, and looks for more.
  private func runOnce(_ hint: QueueHint) -> Scheduler.LastStep {
    let isBarrier = barrier != nil
    WorkerThreads.stopLooking()
    becomeCurrent { withAutoreleasePool { run() } }
    if lastBatchWasSmall { spin(hint) }
    return isBarrier ? .barrier : .items
  }

  // MARK: Running what was taken

  /// Runs what has been taken, until it is done or the queue wants this worker's attention.
  func run() {
    if let barrier {
      self.barrier = nil
      return runBarrier(consume barrier)
    }
    hasFedQueue = false
    let (level, wasDeep) = (batch.level, batch.nested.isDeep)
    let usage = measuresUse ? Platform.threadUsage : nil
    hasWaited = false
    lastItemTime = nil
    // Measured from here on, and not from the end of the last batch: a wait for the queue's lock is no part of a body.
    let start = usage == nil ? lastEnd ?? Uptime.now : Uptime.now
    lastEnd = nil
    batchStart = start
    var (count, nestedCount): (UInt64, UInt64) = (0, 0)
    leavesFamilies = false
    var held = HeldOwner(ownerFrame.start)
    while true {
      endLate()
      guard let (index, work, ownerQueue, lifetime) = batch.begin() else {
        if count > 0, !batch.nested.isEmpty { nestedCount = runNested(level, &held) }
        break
      }
      ownerQueue.with { ownerQueue in execute(work, at: index, ownerQueue, lifetime, &held) }
      count += 1
      if hint.wantsAttention(at: level) { break }
    }
    endLate()
    held.letGo()
    lastBatchWasSmall = count + nestedCount < 8
    guard count > 0 else { return }
    noteBatch(of: count, ledTo: nestedCount, since: start, usage, wasDeep: wasDeep)
  }

  private func runBarrier(_ barrier: consuming @escaping @Sendable () -> Void) {
    lastEnd = nil
    isInItem = true
    barrier()
    isInItem = false
    DeferredReleases.add(consume barrier)  // the barrier is over when this returns, whatever its captures do
  }

  /// What the next batch goes by: how large it is, and whether it is measured.
  private func noteBatch(of items: UInt64, ledTo nestedCount: UInt64, since start: UInt64, _ usage: ThreadUsage?, wasDeep: Bool) {
    let count = items + nestedCount
    gathering.note(Int(count))
    batchesWithoutAddition = hasFedQueue ? 0 : batchesWithoutAddition + 1
    let end = Uptime.now
    lastEnd = end
    let each = (end - start) / count
    lastItemTime = each
    lastFamilySize = wasDeep ? count / items : 1  // in the order of their coming each stands for itself
    if let usage, !hasWaited { lastUse = Platform.threadUsage?.use(since: usage, in: end - start) }
    let larger = max(1, min(WorkBatch.capacity, batchSize * 2, Int(Self.batchTime / max(1, each))))
    if wasDeep, leavesFamilies || batch.nested.wasFull {
      batchSize = 1  // or each batch would leave as many families unfinished as it has begun
    } else if wasDeep, !batch.nested.isDeep {
      batchSize = min(larger, max(batchSize, Self.mostFamilies))  // somebody has looked, and it is not known how many are left
    } else {
      batchSize = larger
    }
  }

  /// Runs one item. The item is over first, and what it captured is released when this returns: a deinit of the user's is no body, and may
  /// wait for the queue.
  @inline(__always)  // for each job
  private func execute(
    _ work: consuming WorkItem, at index: Int, _ ownerQueue: OwnerQueue, _ lifetime: Borrowed<OwnerLifetime>?, _ held: inout HeldOwner
  ) {
    currentOwnerQueue = ownerQueue
    isInItem = true
    isItemOver = false
    defer { currentOwnerQueue = nil }
    switch consume work {
    case .ownerBlock(let body):
      switch held.answer(for: lifetime) {
      case .begins(let owner):
        beginJob()
        owner.with { body($0) }
        end(index, .succeeded)
        held.bodyDidEnd(beforeJobOf: batch.nextLifetime ?? nextNestedLifetime)
      case .heldBack(let hold):
        holdBack(.ownerBlock(body), at: index, until: hold)
        held.letGoInBackground()  // what the body has captured is still here, and the owner's deinit may wait for that
      case .gone:
        end(index, .skipped)
        held.letGoInBackground()  // as above
      }
    case .record(let record, let piece):
      held.letGoInBackground()
      if record.account.countsItself { batch.setCountsItself(at: index) }
      record.begin(piece, at: index, on: self)
    case let work:
      held.letGoInBackground()
      execute(work, at: index, lifetime)
    }
  }

  private func execute(_ work: WorkItem, at index: Int, _ lifetime: Borrowed<OwnerLifetime>?) {
    switch work {
    case .ownerBlock, .record: end(index, .skipped)  // see above
    case .block(let body):
      guard OwnerQueue.mayStart(lifetime) else { return end(index, .skipped) }
      beginJob()
      body()
      if Mutation.capturesGoInTheBody.isOn { currentIndex = index } else { end(index, .succeeded) }
    case .leavingBlock(let body):
      guard OwnerQueue.mayStart(lifetime) else { return end(index, .skipped) }
      beginJob()
      let remains = body()
      end(index, .succeeded)
      withExtendedLifetime(remains) {}
    case .taskStep(let job):
      batch.setBegun()
      core.host?.runStep(job)
      end(index, .succeeded)
    }
  }

  // MARK: Looking for more

  /// A worker that keeps up with those who add work finds a work item or two each time it looks. It would spend its time, and theirs, on
  /// the lock, and on leaving and being sent for.
  ///
  /// - So after a small batch it looks `spinLooks` times for work to come: some ten microseconds in all, and without the lock.
  /// - If that is quick work, it looks up to `gatheringLooks` more times for it to become several items, as long as it does (`Gathering`).
  /// - Not if somebody waits for the queue, or if the work is its own jobs': those add no more while it looks.
  /// - It looks for work of other queues, too, and leaves for that: whoever adds it needs to wake nobody.
  /// - What it has to do first ends that (`WorkerThreads.stopLooking`).
  private func spin(_ hint: QueueHint) {
    if hasFedQueue, !hint.flags.isEmpty || !batch.nested.isEmpty { return }
    threads?.beginLooking()
    var looksLeft = Self.spinLooks
    while looksLeft > 0, !hint.flags.contains(.somebodyWaits), !(threads?.isAnyDue ?? false) {
      let hasWork = !hint.flags.isEmpty
      if hasWork, !(profitsFromSeveral && gathering.begins()) { return }
      noteWait()
      if looksLeft < Self.looksBeforeGivingWay { Pause.giveWay() }
      Pause.spin(Self.spinPause)
      looksLeft = hasWork ? min(looksLeft, Self.gatheringLooks) - 1 : looksLeft - 1
    }
  }

  // MARK: Times, in nanoseconds, and numbers

  /// How long to drain a queue that is somebody else's before letting others have a turn.
  private static let guestTime: UInt64 = 1_000_000
  /// How long a batch should take.
  private static let batchTime: UInt64 = 50_000
  /// Items that take less are so quick that taking the lock for each would take a good part of the time.
  private static let quickItemTime: UInt64 = 500
  /// Items that take as much are worth the two system calls that tell what a batch has used: 1 % of the item.
  private static let leastMeasuredTime: UInt64 = 50_000

  private static let mostFamilies = 8
  private static let spinPause = 10
  private static let spinLooks = 20
  private static let looksBeforeGivingWay = 8
  private static let gatheringLooks = 10

  /// Whether it is worth while to wait for several.
  private var profitsFromSeveral: Bool { !takesOne && (lastItemTime ?? 0) < Self.quickItemTime }

  /// Whether what the next items use is to be measured, as far as the last ones tell.
  private var measuresUse: Bool { (lastItemTime ?? 0) >= Self.leastMeasuredTime && core.driver == nil }
}
