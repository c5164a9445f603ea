import Foundation
import Synchronization

/// A queue of operations and jobs with a scheduler of its own, that knows owners. A drop-in for `OperationQueue`: change the type's name.
///
/// ```swift
/// final class Cell: OperationOwner, Sendable {
///   let lifetimeToken = OwnerLifetime.Token()
///   func show() {}
/// }
///
/// let cell = Cell()
/// let queue = OwnerScopedQueue(name: "decoding")
/// queue.async(owner: cell) { cell in cell.show() }  // never starts once the cell has gone
/// ```
///
/// Work starts by priority, and first come, first served within a priority; see ``ownerFairness`` for the alternative. It runs on GCD
/// threads: without a limit on as many as there are processors, and more while work blocks. Without a limit, a thread may take quick jobs in advance, which others then
/// overtake by some milliseconds at most; with a limit the order is strict. All members may be used from any thread, also from inside work of the same queue.
///
/// A queue that nobody holds any more finishes its work, and then goes. The jobs of a *suspended* queue go with it, cancelled: nobody
/// could resume it.
///
/// The protocol between those who add work, workers, cancellers and owners that end is written in `QueueState`.
public final class OwnerScopedQueue: Sendable {
  let lock = Lock()
  /// Guarded by `lock`, which is what makes its accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) var state: QueueState
  /// Operations of this queue whose work has begun.
  let begunOperations = SharedCounter()
  /// Jobs whose owners had ended when they were added.
  let refusedJobs = SharedCounter()
  let isMain: Bool
  /// Owns the operations that have no owner: blocks, and those that run plain operations.
  let ownLifetime = OwnerLifetime()

  let hint = QueueHint()
  /// For those who may outlive the queue. Written at the end of `init` only.
  nonisolated(unsafe) private(set) var reference: QueueReference?

  /// Makes a queue.
  /// - Parameters:
  ///   - name: for debugging; the queue's threads carry it.
  ///   - maxConcurrentOperationCount: how many operations may execute at once. By default as many as the machine has processors, and
  ///     more while some are blocked. Other negative values are a precondition failure, as in Foundation.
  ///   - qualityOfService: of the threads that the work runs on.
  ///   - underlyingQueue: run the work there instead.
  public convenience init(
    name: String? = nil, maxConcurrentOperationCount: Int = OperationQueue.defaultMaxConcurrentOperationCount,
    qualityOfService: QualityOfService = .default, underlyingQueue: DispatchQueue? = nil
  ) {
    self.init(name: name, limit: maxConcurrentOperationCount, qualityOfService: qualityOfService, underlyingQueue: underlyingQueue)
  }

  init(name: String?, limit: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?, isMain: Bool = false) {
    state = QueueState(
      name: name ?? "OwnerScopedQueue", limit: Self.checkedLimit(limit), qualityOfService: qualityOfService,
      underlyingQueue: underlyingQueue)
    self.isMain = isMain
    reference = QueueReference(self)
  }

  deinit {
    // No worker is active: each holds the queue. No operation is left: each holds the queue until it has finished.
    for stage in state.stages { state.garbage += stage.removeAllSlots() }
    SlotDepartures.complete(state.departures.slots)
    for run in state.runs.values { run.queueIsGone() }
    state.workers.discardResting()
    hint.deallocate()
  }

  /// The limit as it is kept: `Int.max` for none.
  static func checkedLimit(_ limit: Int) -> Int {
    precondition(
      limit >= 0 || limit == OperationQueue.defaultMaxConcurrentOperationCount, OwnerScopedQueueError.invalidLimit(limit).description)
    return limit == OperationQueue.defaultMaxConcurrentOperationCount ? .max : limit
  }

  static func level(of priority: Operation.QueuePriority) -> Int {
    switch priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }

  // MARK: Adding

  /// Adds a job. If its owner has ended, it is counted as cancelled, and released when this returns.
  @inline(__always)
  func submit(_ work: consuming Work, lifetime: Unmanaged<OwnerLifetime>?, priority: Operation.QueuePriority) {
    let level = Self.level(of: priority)
    lock.lock()
    guard let slot = state.lastStage._withUnsafeGuaranteedRef({ $0.slot(for: lifetime, queue: self) }) else {
      lock.unlock()
      refusedJobs.add()
      _ = consume work  // not under the lock
      return
    }
    state.statistics.enqueued += 1
    state.unfinished += 1
    if state.isIdle, !slot._withUnsafeGuaranteedRef({ $0.isHeld(state.ownerLimit) }) {
      let worker = state.handOver(work, of: slot, level: level, self)
      lock.unlock()
      worker.dispatch()
      return
    }
    let place = state.lastStage._withUnsafeGuaranteedRef {
      $0.add(to: slot, level: level, pool: &state.pool, ownerLimit: state.ownerLimit)
    }
    place.initialize(to: work)
    let worker = state.workerToDispatch(self)
    updateHint()
    lock.unlock()
    worker?.dispatch()
  }

  /// Unlocks, and does what has become due under the lock: wakes those whose wait is over, sends a worker, releases.
  @inline(__always)
  func unlockAndFollowUp() {
    guard state.returning.isEmpty, !state.hasReleases, !state.hasDueWaiters else {
      return unlockAndFollowUpWholly()
    }
    let worker = state.workerToDispatch(self)
    updateHint()
    lock.unlock()
    worker?.dispatch()
  }

  @inline(never)
  private func unlockAndFollowUpWholly() {
    let admitted = state.admitReturning()
    let worker = state.workerToDispatch(self)
    let waiters = state.hasDueWaiters ? state.takeDueWaiters() : []
    var garbage: [TakenWork] = []
    swap(&garbage, &state.garbage)
    var departed: [OwnerSlot] = []
    swap(&departed, &state.departures.slots)
    updateHint()
    lock.unlock()
    worker?.dispatch()
    for waiter in waiters { waiter.resume() }
    for semaphore in admitted { semaphore.signal() }
    SlotDepartures.complete(departed)
    if !garbage.isEmpty { cancelNodes(in: garbage) }
  }

  // MARK: Workers

  @inline(__always)
  private func updateHint() {
    var flags = QueueHint.Flags.ready(state.firstStage._withUnsafeGuaranteedRef({ $0.readyLevels }))
    if state.isSuspended || !state.returning.isEmpty || state.ownerLimit != .max || state.waits.hasOwners { flags.insert(.interrupt) }
    if !state.waits.isEmpty { flags.insert(.somebodyWaits) }
    if !state.runs.isEmpty, state.chainsYield { flags.insert(.chainsYield) }
    hint.flags = flags
  }

  /// A worker leaves last of all: while code of the user's runs, it counts as active, or as waiting, and others are sent for. (Once it has left, it is the next to be sent for, and
  /// what it still does would hold up what comes then.)
  /// - Returns: whether no other worker is active.
  func drain(_ worker: Worker) -> Bool {
    worker.beginDrain()
    let deadline = worker.isGuest ? DispatchTime.now().uptimeNanoseconds + Worker.guestTime : .max
    var hasExamined = false
    if worker.hasWork { run(worker) } else { lock.lock() }
    state.arrive(worker)
    while true {
      if state.take(for: worker, self) {
        unlockAndFollowUp()
        run(worker)
        hasExamined = false
        if deadline != .max, DispatchTime.now().uptimeNanoseconds > deadline, state.hasWork {
          // Others want to use this underlying queue, too.
          unlockAndFollowUp()
          lock.lock()
          worker.endDrain()
          state.setArriving(worker)
          lock.unlock()
          worker.dispatch()
          return false
        }
      } else if state.hasReleases {
        unlockAndFollowUp()
        lock.lock()
      } else if !state.watched.isEmpty, !hasExamined {
        lock.unlock()
        workerWillBlock(worker)
        examineWatched()
        workerDidUnblock(worker)
        lock.lock()
        hasExamined = true
      } else {
        break
      }
    }
    worker.endDrain()
    state.leave(worker)
    let isLast = state.workers.activeCount == 0
    unlockAndFollowUp()
    return isLast
  }

  /// Runs what the worker has been given, and returns with the lock, all of it counted.
  @inline(__always)
  private func run(_ worker: Worker) {
    let isBarrier = worker.barrier != nil
    worker.becomeCurrent { worker.run() }
    lingerForWork(after: worker)
    lock.lock()
    state.takeBatchBack(from: worker)
    state.settle(worker, isWorker: true)
    if let time = worker.lastRecordTime { state.measured(time) }
    if isBarrier { finishBarrier() }
  }

  /// A worker that keeps up with those who add work finds a record or two each time it looks, and would spend its time, and theirs, on the lock and on leaving and being
  /// sent for. So after a small batch it waits up to two microseconds, without the lock, for work to come, and if that is quick work, one more for it
  /// to become several records. Not if somebody waits for the queue.
  private func lingerForWork(after worker: Worker) {
    guard worker.lastBatchWasSmall else { return }
    var looksLeft = Self.lingeringLooks
    while looksLeft > 0, !hint.flags.contains(.somebodyWaits) {
      let hasWork = !hint.flags.isEmpty
      if hasWork, !worker.profitsFromSeveral { return }
      worker.noteWait()
      Pause.spin(Self.lingeringPause)
      looksLeft = hasWork ? min(looksLeft, Self.gatheringLooks) - 1 : looksLeft - 1
    }
  }

  private static let lingeringPause = 10
  private static let lingeringLooks = 20
  private static let gatheringLooks = 10

  private func finishBarrier() {
    state.statistics.started += 1
    state.statistics.succeeded += 1
    state.unfinishedBarriers -= 1
    state.unfinished -= 1
    state.advance()
  }

  func workerWillBlock(_ worker: Worker) {
    lock.lock()
    state.waiting += 1
    state.setStuck(worker, false)
    worker.isWaiting = true
    state.settle(worker, isWorker: false)
    state.takeBatchBack(from: worker)
    if let slot = worker.currentSlot {
      slot.waiting += 1
      if state.ownerLimit != .max, !slot.isRemoved { slot.stage.release(slot, ownerLimit: state.ownerLimit) }
    }
    unlockAndFollowUp()
  }

  func workerDidUnblock(_ worker: Worker) {
    lock.lock()
    worker.currentSlot?.waiting -= 1
    if state.returning.isEmpty, state.mayReturn {
      worker.isWaiting = false
      state.waiting -= 1
      lock.unlock()
      return
    }
    let semaphore = DispatchSemaphore(value: 0)
    state.returning.append(semaphore)
    unlockAndFollowUp()
    semaphore.wait()
    lock.withLock { worker.isWaiting = false }
  }

  // MARK: Ends

  /// Called by the reaper for a slot whose owner has ended.
  func ownerDidEnd(_ slot: OwnerSlot) {
    lock.lock()
    guard !slot.isRemoved else {
      lock.unlock()
      return
    }
    slot.hasEnded = true
    if let lifetime = slot.lifetime { state.suspendedOwners.remove(lifetime.id) }
    let taken = state.takePending(of: slot)
    lock.unlock()
    finishCancelling(taken, of: slot, forEndedOwner: true)
  }

  /// Counts what `takePending` took out, tells those who wait, and releases it.
  func finishCancelling(_ taken: [TakenWork], of slot: OwnerSlot, forEndedOwner: Bool) {
    let jobs = taken.reduce(0) { $0 + $1.jobCount }
    lock.lock()
    state.countCancelled(jobs, of: slot, forEndedOwner: forEndedOwner)
    unlockAndFollowUp()
    cancelNodes(in: taken)
  }

  func isSuspendedUnderLock(_ lifetime: OwnerLifetime) -> Bool {
    !state.suspendedOwners.isEmpty && state.suspendedOwners.contains(lifetime.id)
  }
}

extension OwnerScopedQueue: Hashable {
  /// Queues are equal if they are the same.
  public static func == (left: OwnerScopedQueue, right: OwnerScopedQueue) -> Bool { left === right }
  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension OwnerScopedQueue: CustomStringConvertible {
  /// For example `OwnerScopedQueue "decoding" (3 unfinished)`.
  public var description: String {
    let (name, count) = lock.withLock { (state.name, state.unfinished - state.unfinishedBarriers) }
    return "OwnerScopedQueue \"\(name)\" (\(count) unfinished)"
  }
}
