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
/// in advance, which others then overtake by some milliseconds at most. And quick jobs that a job adds for its own owner may start before
/// older ones of that owner: a tree of jobs runs depth first, as calls would. With a limit the order is strict. All members may be used
/// from any thread, also from inside work of the same queue.
///
/// A queue that nobody holds any more, nor its ``operationQueue``, finishes its work, and then goes. The jobs of a *suspended* queue go
/// with it, cancelled: nobody could resume it. Operations keep their queue until they have finished, as Foundation's do, and with it the
/// jobs beside them.
public final class OwnerScopedQueue: Sendable {
  // The protocol between those who add work, workers, cancellers and owners that end stands at the head of `Scheduler`.

  let core: QueueCore
  /// Operations of this queue whose work has begun.
  let begunOperations = SharedCounter()
  /// Jobs whose owners had ended when they were added.
  let refusedJobs = SharedCounter()
  let isMain: Bool
  /// Owns the operations that have no owner: blocks, and those that run plain operations.
  let ownLifetime = OwnerLifetime()
  /// What only the face needs.
  let extras = Locked(Extras())

  struct Extras {
    var facade = FacadeReference()
    /// Made when the first is needed.
    var jobErrors: JobErrors?
  }

  /// For those who may outlive the queue.
  var reference: QueueReference? { core.reference }

  /// Makes a queue.
  /// - Parameters:
  ///   - name: for debugging; the queue's threads carry it.
  ///   - maxConcurrentOperationCount: how many operations may execute at once. By default what bodies use of the machine's processors
  ///     decides, see the property of the same name. Other negative values are a precondition failure, as in Foundation.
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
    var scheduler = Scheduler(
      name: name ?? "OwnerScopedQueue", limit: Self.checkedLimit(limit), qualityOfService: qualityOfService,
      underlyingQueue: underlyingQueue, ownLifetime: ownLifetime, processors: Processors.count)
    scheduler.limitAsSet = limit
    if let driving { scheduler.setDriving(driving) }
    core = QueueCore(scheduler, driver: driving?.driver)
    self.isMain = isMain
    core.setHost(self)
  }

  deinit {
    // The thread may be a worker's, and what goes with the queue is somebody's.
    if !Mutation.looksWhileTheQueueGoes.isOn { WorkerThreads.stopLooking() }
    core.close()
    bequeath()
    // No worker is active: each holds the queue. No operation is left: each holds the queue until it has finished.
    _ = core.note { $0.takeRestingOfIdle() }
    var left = core.note { $0.takeWhatIsLeft() }
    var departed: [OwnerQueue] = []
    swap(&departed, &left.departed)  // none of the references stays here: it could be the last
    _ = OwnerQueueDepartures.complete(consume departed, unlessMoreThan: 64)
    for work in left.releases { work.release() }
    for run in left.runs { run.queueIsGone() }
  }

  /// The limit as it is kept: `Int.max` for none.
  static func checkedLimit(_ limit: Int) -> Int {
    precondition(
      limit >= 0 || limit == OperationQueue.defaultMaxConcurrentOperationCount, OwnerScopedQueueError.invalidLimit(limit).description)
    return limit == OperationQueue.defaultMaxConcurrentOperationCount ? .max : limit
  }

  // MARK: Adding

  /// Adds a job. If its owner has ended, it is counted as cancelled, and released when this returns.
  func submit(_ work: consuming WorkItem, lifetime: Borrowed<OwnerLifetime>?, priority: Operation.QueuePriority) {
    Worker.noteAddition(to: core)
    add(work, lifetime, level: PriorityLevel.of(priority))
  }

  /// Adds a job of an owner, an `ownerBlock` or a `block`: if a job of the same owner adds it, perhaps without the queue's lock.
  func submitPerhapsNested(_ work: consuming WorkItem, lifetime: Borrowed<OwnerLifetime>, priority: Operation.QueuePriority) {
    let level = PriorityLevel.of(priority)
    if Worker.isOnThisThread {
      submitNested(work, lifetime, level: level)
    } else {
      add(work, lifetime, level: level)
    }
  }

  private func submitNested(_ work: consuming WorkItem, _ lifetime: Borrowed<OwnerLifetime>, level: Int) {
    Worker.noteAddition(to: core)
    guard let place = Worker.placeForNested(in: core, lifetime, level: level) else { return add(work, lifetime, level: level) }
    place.item.initialize(to: consume work)
    guard place.add() else { return add(place.item.move(), lifetime, level: level) }
    // Work that is held back is looked at again whenever some is added.
    lifetime.with { $0.noteNestedAddition() }
  }

  @inline(__always)  // for each job
  private func add(_ work: consuming WorkItem, _ lifetime: Borrowed<OwnerLifetime>?, level: Int) {
    switch core.mutate(with: consume work, { scheduler, followUp, work in scheduler.add(work, lifetime, level: level, &followUp) }) {
    case .taken: break
    case .takenForHeldBackOwner: lifetime?.with { $0.ownerHold }?.lookAgainIfHeldBack()
    case .refused: refusedJobs.add()
    }
  }

  /// Adds a job for a thread that must not run what is the user's. What is refused is released elsewhere.
  func addInBackground(_ work: consuming WorkItem, _ lifetime: OwnerLifetime, level: Int) {
    Worker.noteAddition(to: core)
    let lifetime = Borrowed(lifetime)
    switch core.mutate(with: consume work, { scheduler, followUp, work in scheduler.add(work, lifetime, level: level, &followUp) }) {
    case .taken: break
    case .takenForHeldBackOwner: lifetime.with { $0.ownerHold }?.lookAgainIfHeldBack()
    case .refused(let work):
      refusedJobs.add()
      DeferredReleases.add(work)
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

extension QueueReference {
  var queue: OwnerScopedQueue? { host.map { unsafeDowncast($0, to: OwnerScopedQueue.self) } }
}

extension OwnerScopedQueue {
  /// The queue that this thread works for.
  static var ofThisThread: OwnerScopedQueue? { ThreadSlot.queue.object(OwnerScopedQueue.self) }
}
