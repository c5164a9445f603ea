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
/// threads: without a limit on as many as there are processors, and more while work blocks. Without a limit, a thread may take quick jobs
/// in advance, which others then overtake by some milliseconds at most; with a limit the order is strict. All members may be used from any
/// thread, also from inside work of the same queue.
///
/// A queue that nobody holds any more, nor its ``operationQueue``, finishes its work, and then goes. The jobs of a *suspended* queue go
/// with it, cancelled: nobody could resume it.
public final class OwnerScopedQueue: Sendable {
  // The protocol between those who add work, workers, cancellers and owners that end stands at the head of `QueueState`.

  let core: QueueCore
  /// Operations of this queue whose work has begun.
  let begunOperations = SharedCounter()
  /// Jobs whose owners had ended when they were added.
  let refusedJobs = SharedCounter()
  let isMain: Bool
  /// Owns the operations that have no owner: blocks, and those that run plain operations.
  let ownLifetime = OwnerLifetime()

  /// The core's.
  let hint: QueueHint
  /// For those who may outlive the queue. Written at the end of `init` only.
  nonisolated(unsafe) private(set) var reference: QueueReference?

  /// Makes a queue.
  /// - Parameters:
  ///   - name: for debugging; the queue's threads carry it.
  ///   - maxConcurrentOperationCount: how many operations may execute at once. By default as many as the machine has processors, and
  ///     more while some are blocked. Other negative values are a precondition failure, as in Foundation.
  ///   - qualityOfService: of the threads that the work runs on.
  ///   - underlyingQueue: run the work there instead. The bodies of ``OwnedAsyncOperation`` and ``OwnedResultOperation`` are tasks of their
  ///     own, which it only starts.
  public convenience init(
    name: String? = nil, maxConcurrentOperationCount: Int = OperationQueue.defaultMaxConcurrentOperationCount,
    qualityOfService: QualityOfService = .default, underlyingQueue: DispatchQueue? = nil
  ) {
    self.init(name: name, limit: maxConcurrentOperationCount, qualityOfService: qualityOfService, underlyingQueue: underlyingQueue)
  }

  init(
    name: String?, limit: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?, isMain: Bool = false,
    driving: QueueDriving? = nil
  ) {
    var state = QueueState(
      name: name ?? "OwnerScopedQueue", limit: Self.checkedLimit(limit), qualityOfService: qualityOfService,
      underlyingQueue: underlyingQueue)
    state.limitAsSet = limit
    if let driving { state.setDriving(driving) }
    core = QueueCore(state, driver: driving?.driver)
    hint = core.hint
    self.isMain = isMain
    reference = QueueReference(self)
    core.setQueue(self)
  }

  deinit {
    bequeath()
    // No worker is active: each holds the queue. No operation is left: each holds the queue until it has finished.
    let (garbage, departed, runs) = core.note { state in
      state.workers.discardResting()
      return (state.garbage + state.stages.flatMap { $0.removeAllSlots() }, state.departures.slots, Array(state.runs.values))
    }
    SlotDepartures.complete(departed)
    for work in garbage { work.release() }
    for run in runs { run.queueIsGone() }
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
  func submit(_ work: consuming Work, lifetime: Borrowed<OwnerLifetime>?, priority: Operation.QueuePriority) {
    let level = Self.level(of: priority)
    switch core.mutate(with: work, { state, followUp, work in state.add(work, lifetime, level: level, self, &followUp) }) {
    case .taken: break
    case .takenForHeldBackOwner: lifetime?.with { $0.ownerHold }?.lookAgainIfHeldBack()
    case .refused: refusedJobs.add()
    }
  }

  // MARK: Workers

  /// On the worker's thread.
  /// - Parameter isForOwnWork: a body waits for work of this queue.
  func workerWillBlock(_ worker: Worker, isForOwnWork: Bool) {
    core.mutate { state, _ in
      // Asked again, under the lock: an operation may have been finished from elsewhere, and its record counted.
      let isInBody = worker.isInBody
      if !isInBody { state.setOutside(worker) }
      state.beginWait(of: worker)
      state.settle(worker, includingCurrent: worker.isOutside)
      state.takeBatchBack(from: worker)
      if isForOwnWork, isInBody { state.yield(worker.permit, bodyOf: worker.currentSlot, in: worker.currentLane) }
    }
  }

  /// What a body waits for has turned out to be work of this queue.
  func workerYields(_ worker: Worker) {
    core.mutate { state, _ in
      if worker.isInBody { state.yield(worker.permit, bodyOf: worker.currentSlot, in: worker.currentLane) }
    }
  }

  /// Whether the worker holds a permit that others may be in want of, if not now, then when somebody sets a limit.
  func keepsPermit(_ worker: Worker) -> Bool { core.read { _ in !worker.permit.isYielded } }

  func workerDidUnblock(_ worker: Worker) {
    core.mutate { state, _ in state.endWait(of: worker) }?.wait(drivenBy: driver, for: "a turn to go on")
  }

  private static let slotsPerHold = 128

  /// A slot keeps its lifetime, and one without work for no reason: a lifetime that is only dropped ends when nobody holds it.
  /// Called when the queue has run out of work. Linear in the owners that it has had work of since.
  func removeIdleSlots() {
    let idle = core.read { $0.unfinished == 0 ? $0.stages[0].idleSlots : [] }
    for start in stride(from: 0, to: idle.count, by: Self.slotsPerHold) {
      core.mutate { _, _ in
        for slot in idle[start..<min(idle.count, start + Self.slotsPerHold)] { if !slot.isRemoved { slot.stage.removeIfIdle(slot) } }
      }
    }
    DeferredReleases.add(contentsOf: idle)
  }

  // MARK: Ends

  /// Called by the reaper for a slot whose owner has ended.
  func ownerDidEnd(_ slot: OwnerSlot) {
    guard let taken = core.note({ $0.ownerDidEnd(slot) }) else { return }
    finishCancelling(taken, of: slot, forEndedOwner: true)
  }

  /// Counts what `takePending` took out, tells those who wait, and releases it.
  func finishCancelling(_ taken: [TakenWork], of slot: OwnerSlot, forEndedOwner: Bool) {
    let jobs = taken.reduce(0) { $0 + $1.jobCount }
    core.mutate { state, _ in state.countCancelled(jobs, of: slot, forEndedOwner: forEndedOwner) }
    cancelNodes(in: taken)
    for work in taken { work.release() }
  }

  /// The worker can't begin the record now: its owner is held by bodies only. It waits at the front of the ready lists, with all that the
  /// owner has.
  func putBack(_ work: consuming Work, from worker: Worker) -> QueueState.PutBack {
    core.mutate(with: work) { state, _, work in state.putBack(work, from: worker) }
  }

  /// Somebody other than bodies holds the owner, or it has gone.
  func goOn(with slot: OwnerSlot) {
    core.mutate { state, _ in
      slot.isHeldBack = false
      if !slot.isRemoved { slot.stage.release(slot, ownerLimit: state.ownerLimit) }
    }
  }
}

extension OwnerScopedQueue: Hashable {
  /// Queues are equal if they are the same.
  public static func == (left: OwnerScopedQueue, right: OwnerScopedQueue) -> Bool { left === right }
  /// Hashes which queue it is.
  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension OwnerScopedQueue: CustomStringConvertible {
  /// For example `OwnerScopedQueue "decoding" (3 unfinished)`.
  public var description: String {
    let (name, count) = core.read { ($0.name, $0.unfinished - $0.unfinishedBarriers) }
    return "OwnerScopedQueue \"\(name)\" (\(count) unfinished)"
  }
}
