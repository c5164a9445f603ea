import Dispatch
import Foundation

/// A worker as the scheduler knows it: what it has taken, whether it has a permit, what was seen of it last. Whose thread it is, and how
/// that runs what was taken, is not the scheduler's affair; see `Worker`.
///
/// It hears of waits on its thread, too: those are what it gives its permit away for.
class ScheduledWorker: BlockingObserver {
  // Constants, fields guarded by the queue's lock, and fields of the thread that drains, as marked. Not Sendable: it is handed from one to
  // the other by those who know.

  final let batch = WorkBatch()
  /// Which generation of workers it is of; see `Scheduler.workerGeneration`.
  final let generation: Int

  // Guarded by the queue's lock.
  /// Position among the active workers.
  final var place = 0
  /// Has been dispatched, and has neither begun what it was given nor looked for work.
  final var isArriving = false
  final var isBlocked = false
  /// Blocked in a wait of ours.
  final var isWaiting = false
  /// See `Scheduler+Permits`.
  final let permit = Permit()
  /// Blocked in code of the user's that is no body, or was until it looks for work again.
  final var isOutside = false
  /// The number of the batch, among all of the queue.
  final var serial: UInt64 = 0
  final var lastSeen = Sighting()
  final var barrier: (@Sendable () -> Void)?
  /// The last batch was of one item by rule, not for lack of others. Read by the thread.
  final var takesOne = false

  // These belong to the draining thread, which has the lock when the scheduler looks at them.
  final var batchSize = 1
  /// How long the items of the last batch took each, in nanoseconds; nil if there was none.
  final var lastItemTime: UInt64?
  /// How many jobs each of them was, with those that it has led to and the worker has run.
  final var lastFamilySize: UInt64 = 1
  /// How many batches have ended since a job of one added to the queue.
  final var batchesWithoutAddition = 0
  /// What they used of the processor; nil if that was not measured.
  final var lastUse: ProcessorShare.Use?
  /// It has given back operations since it had nothing to run, and has to see what has become of them before it leaves.
  final var hasGivenBack = false
  /// Whose work runs. It executes, so the owner queue is there.
  @Uncounted final var currentOwnerQueue: OwnerQueue?

  /// What the monitor saw last.
  struct Sighting: Equatable {
    var serial: UInt64 = 0
    var position: UInt64 = 0
    var processorTime: UInt64 = 0
  }

  init(generation: Int) { self.generation = generation }

  /// How many items to take: as many as take some 50 us, and never so many that other workers have to go without.
  /// - Parameter turns: with round robin, how many owners have a turn. A batch is a part of one round: an owner that comes later waits for
  ///   at most one job of each of the others.
  final func batchLimit(ready: Int, turns: Int, processors: Int) -> Int {
    max(1, min(batchSize, ready / processors, Mutation.turnsAreTakenInAdvance.isOn ? .max : turns / (2 * processors)))
  }

  // MARK: What only its thread's side knows

  /// Processor time used by the draining thread, in nanoseconds; nil where that can't be told. Under the queue's lock.
  var processorTime: UInt64? { nil }

  /// Whether the item that the worker has begun last is that of the work, which may end elsewhere, and not over. Under the queue's lock,
  /// after the rest of the batch has been reclaimed: nothing else can begin then. The work must not have been released.
  func isInside(_ work: AnyObject) -> Bool { false }

  /// The thread is about to leave. Under the queue's lock.
  func endDrain() {}

  /// Called by whoever the scheduler has told to, outside the lock: once, until the worker has left again.
  func dispatch() {}

  /// Instead, where a driver runs the work. Under the queue's lock.
  func dispatchToDriver(isShuffled: Bool) {}
}

/// Who makes a queue's workers. Under the queue's lock.
protocol WorkerMaker: AnyObject, Sendable {
  func makeWorker(_ generation: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) -> ScheduledWorker
}
