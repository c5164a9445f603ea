import Foundation

/// The surface of `OperationQueue`, name for name. What is not said here is as in Foundation.
extension OwnerScopedQueue {
  // MARK: Adding

  /// Adds an operation, ours or plain, to be started when it is ready and its turn comes. An operation whose owner has ended is not an
  /// error: it is counted, and never runs.
  ///
  /// As in Foundation, adding an operation that is in a queue, executing or finished is a precondition failure. Use
  /// ``enqueue(_:)-([Operation])`` to have an error thrown instead, and cycles looked for.
  public func addOperation(_ operation: Operation) {
    guard let operation = operation as? OwnedOperation else { return addOrFail([operation]) }
    addOrFail(operation)
  }

  /// Adds a closure as an operation.
  public func addOperation(_ block: @escaping @Sendable () -> Void) {
    let operation = OwnedBlockOperation(lifetime: ownLifetime, block)
    addOrFail(operation)
  }

  /// Adds operations, and waits for them on request.
  /// - Complexity: linear in the operations.
  @available(*, noasync, message: "Use enqueue(_:), and await finished() of each operation, instead")
  public func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
    addOrFail(operations)
    guard wait else { return }
    for operation in operations {
      if operation is OwnedOperation { operation.waitUntilFinished() } else { waitUntilFinished(operation) }
    }
  }

  /// A plain operation of this queue. Its dependent, which nobody else waits for, tells of its finish.
  private func waitUntilFinished(_ operation: Operation) {
    let thread = WaitingThread()
    let sentinel = FinishSentinel(of: operation) { thread.wake() }
    sentinel.arm()
    BlockingRegion.perform(for: .plainOperation(operation), thread, drivenBy: core.driver)
    sentinel.disarm()
  }

  private func addOrFail(_ operation: OwnedOperation) {
    do throws(OwnerScopedQueueError) { try add(operation) } catch { refuse(error) }
  }

  private func addOrFail(_ operations: [Operation]) {
    do throws(OwnerScopedQueueError) {
      try add(operations)
    } catch {
      guard operations.count > 1 else {
        refuse(error)
        return
      }
      // One of them stands in the way of the others: add them one by one, which finds it.
      for operation in operations { addOrFail([operation]) }
    }
  }

  /// Counts what an owner that has ended adds. Anything else is a mistake in the program.
  func refuse(_ error: OwnerScopedQueueError) {
    guard case .ownerEnded = error else { preconditionFailure(error.description) }
    core.note { $0.statistics.count(refused: 1) }
  }

  /// Adds a closure that runs when everything added before has finished. What is added later waits for it, also what the closure itself
  /// adds. So a body must not wait for what is added behind a barrier that waits for the body, nor the closure for what it adds.
  /// - Complexity: linear in the queue's workers.
  public func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
    core.mutate { scheduler, _ in scheduler.addBarrier(barrier) }
  }

  // MARK: Cancelling and waiting

  /// Cancels everything pending and executing. Jobs and barriers that have not started are dropped, operations get `cancel()`.
  ///
  /// The main queue's can't be cancelled, as in Foundation.
  /// - Complexity: linear in the operations and jobs.
  public func cancelAllOperations() {
    guard !isMain else { return }
    cancel(core.mutate { scheduler, _ in scheduler.takeAll() }, ownedBy: nil)
  }

  /// Cancels what has been taken out. What of it nobody else keeps, lifetimes and operations among it, goes in the background: who cancels
  /// may have locks that its deinits and hooks want.
  func cancel(_ cancelled: consuming Scheduler.Cancelled, ownedBy lifetime: OwnerLifetime?) {
    var all = cancelled
    DeferredReleases.add(emptying: &all.barriers)
    for run in all.runs { run.cancelNodes(ownedBy: lifetime) }
    for (ownerQueue, work) in all.taken { core.finishCancelling(work, of: ownerQueue, forEndedOwner: false) }
    // The last first: of those that depend on what was added before them, none begins because that has been cancelled.
    for operation in all.operations.reversed() { operation.cancel() }
    // Those that don't finish at once get new items: an operation may refuse to be cancelled.
    let hasRunOut = core.mutate { scheduler, _ in
      scheduler.makeReadyThoseWaiting(all.operations)
      return scheduler.hasRunOut
    }
    if hasRunOut { core.noteIdle() }
    DeferredReleases.add(emptying: &all.taken)
    DeferredReleases.add(emptying: &all.operations)
    DeferredReleases.add(emptying: &all.runs)
  }

  /// Blocks until nothing is pending or executing. From inside work of this queue: until nothing is left but work that waits for the same.
  /// - Complexity: beside the wait, linear in the queue's workers.
  @available(*, noasync, message: "Use finished() instead")
  public func waitUntilAllOperationsAreFinished() {
    wait(for: nil)
  }

  /// Returns when nothing is pending or executing. Asynchronous work of this queue must not await it: it would wait for its own end. Nor
  /// may the work of two queues await each other's. To cancel the task that waits doesn't end the wait.
  /// - Complexity: beside the wait, linear in the queue's workers.
  public func finished() async {
    await finished(nil)
  }

  // MARK: Settings

  /// How many operations may execute at once; ``defaultMaxConcurrentOperationCount``, the default, for no limit but the machine's.
  ///
  /// A limit is only ever an upper bound. Below it, and without one, what bodies use of the processors decides:
  /// - There is a thread for each processor.
  /// - There are more as long as a quarter of the processors was measured to be unused with one more. Bodies may sleep, or wait for a disk.
  ///   This is measured on Linux.
  /// - A thread that waits by a call of this package, or is found blocked by looks every two milliseconds, is not counted.
  /// - There is one more whenever nothing has begun for 100 ms.
  /// - There are 192 threads at most, 64 without a limit, not counting those that wait by a call of this package.
  ///
  /// A change counts from the next start on. Zero starts nothing. Other negative values are a precondition failure.
  /// - Complexity: constant to read, linear in the queue's workers to set.
  public var maxConcurrentOperationCount: Int {
    get { core.read { $0.limitAsSet } }
    set {
      let limit = Self.checkedLimit(newValue)
      guard !isMain else { return }
      core.mutate { scheduler, _ in scheduler.setLimit(limit, asSet: newValue) }
    }
  }

  /// While true, nothing starts. What executes goes on. The main queue can't be suspended, as in Foundation.
  /// - Complexity: constant to read; linear in the queue's workers to set, in its operations to set to false.
  public var isSuspended: Bool {
    get { core.read { $0.isSuspended } }
    set {
      guard !isMain else { return }
      if !newValue, isSuspended { followPriorities(isResuming: true) }
      core.mutate { scheduler, _ in scheduler.setSuspended(newValue) }
    }
  }

  /// For debugging: threads carry it. A change counts for workers that are dispatched from then on.
  /// - Complexity: constant to read, linear in the queue's workers to set.
  public var name: String? {
    get { core.read { $0.name } }
    set {
      guard !isMain else { return }
      _ = core.mutate { scheduler, _ in scheduler.setName(newValue ?? "") }
    }
  }

  /// The quality of service of the threads that the work runs on. A change counts for workers that are dispatched from then on.
  /// - Complexity: constant to read, linear in the queue's workers to set.
  public var qualityOfService: QualityOfService {
    get { core.read { $0.qualityOfService } }
    set {
      guard !isMain else { return }
      _ = core.mutate { scheduler, _ in scheduler.setQualityOfService(newValue) }
    }
  }

  /// Where the work runs; nil for threads of the queue's own. As in Foundation, setting it while operations are in the queue is a
  /// precondition failure.
  /// - Complexity: constant to read, linear in the queue's workers to set.
  public var underlyingQueue: DispatchQueue? {
    get { core.read { $0.underlyingQueue } }
    set {
      guard !isMain else { return }
      let replaced = core.mutate { scheduler, _ in scheduler.setUnderlyingQueue(newValue) }
      precondition(replaced != nil, "\(self): the queue must be empty when its underlying queue is changed; wait for its operations first")
    }
  }

  // MARK: Looking

  /// The operations that have not finished, in the order in which they were added. Jobs are no operations and not among them.
  /// - Complexity: linear in the operations.
  public var operations: [Operation] {
    core.read { $0.operations.giveOut() }.map { ($0 as? PlainOperationProxy)?.operation ?? $0 }
  }

  /// How many operations and jobs have not finished. Barriers don't count.
  /// - Complexity: linear in the queue's workers.
  public var operationCount: Int {
    core.mutate { scheduler, _ in
      scheduler.settleForQuestion()
      return scheduler.unfinished - scheduler.unfinishedBarriers
    }
  }

  /// Set its `totalUnitCount` to have it report: each operation or job whose work has run then completes one unit when it finishes. As in
  /// Foundation, what was cancelled before it began is no progress. Nor is a plain operation that overrides `start()` and goes on when that
  /// has returned. Barriers don't count: they are the place to change `totalUnitCount`.
  ///
  /// On Linux, which has no key-value observing, the units are there when a wait for the queue returns, and when a barrier begins. On
  /// Apple's platforms observers are called in the background, soon after, on a thread of the library's. They may block, and use the queue,
  /// and nothing waits for them.
  public var progress: Progress {
    core.note { scheduler in
      if let progress = scheduler.progress { return progress.foundationProgress }
      let progress = Progress(parent: nil, userInfo: nil)
      scheduler.progress = QueueProgress(progress)
      return progress
    }
  }

  /// For ``maxConcurrentOperationCount``: no limit but what the machine can do.
  public static let defaultMaxConcurrentOperationCount = OperationQueue.defaultMaxConcurrentOperationCount

  // MARK: Main and current

  /// The queue of the main thread: one operation at a time, on `DispatchQueue.main`.
  public static let main = OwnerScopedQueue(
    name: "OwnerScopedQueue Main Queue", limit: 1, qualityOfService: .userInteractive, underlyingQueue: .main, isMain: true)

  /// The queue that runs this code; on the main thread otherwise ``main``, elsewhere nil.
  public static var current: OwnerScopedQueue? {
    OwnerScopedQueue.ofThisThread ?? OperationTask.current?.scheduler as? OwnerScopedQueue ?? (Thread.isMainThread ? main : nil)
  }
}
