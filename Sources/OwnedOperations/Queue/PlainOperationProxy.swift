import Foundation

/// Runs an operation that is not ours in a queue of ours.
///
/// The proxy depends on what the plain operation depends on when it is added, and so becomes ready when that has finished. On Linux nothing
/// tells us that a plain operation that waits was cancelled, or that a condition of its own has changed. So the queue asks from time to
/// time (`WatchedOperations`).
///
/// The plain operation is always started, also when it was cancelled: that is how Foundation's operations finish.
final class PlainOperationProxy: OwnedOperation, @unchecked Sendable {  // stored properties are set in init, but for two: see there
  let operation: Operation
  private weak var queue: OwnerScopedQueue?
  /// Written by the thread that starts the proxy, before it is armed; read by nobody.
  private var sentinel: FinishSentinel?
  /// Whether `start()` ran the work and returned when it was over: what Foundation counts as progress. Written by the thread that starts
  /// the proxy, before it finishes it; read after the finish.
  private var hasRunToItsEnd = false

  /// - Throws: ``OwnerScopedQueueError`` if the operation has been started or is in a queue of ours.
  init(running operation: Operation, for queue: OwnerScopedQueue) throws(OwnerScopedQueueError) {
    if operation.isFinished { throw .alreadyFinished(OwnedOperation.label(of: operation)) }
    if operation.isExecuting { throw .alreadyExecuting(OwnedOperation.label(of: operation)) }
    guard EnqueuedPlainOperations.claim(operation) else { throw .alreadyEnqueued(OwnedOperation.label(of: operation)) }
    // Another queue may have had it in between: it finishes before it can be claimed again.
    guard !operation.isFinished else {
      EnqueuedPlainOperations.remove(operation)
      throw .alreadyFinished(OwnedOperation.label(of: operation))
    }
    self.operation = operation
    self.queue = queue
    super.init(lifetime: queue.ownLifetime)
    EnqueuedPlainOperations.setRunner(self, of: operation)
    name = operation.name
    queuePriority = operation.queuePriority
    for dependency in operation.dependencies { addDependency(dependency) }
  }

  /// It will not be run after all.
  func abandon() {
    EnqueuedPlainOperations.remove(operation)
  }

  override var isAsynchronous: Bool { true }

  override var isReady: Bool { operation.isReady }

  override var isToldOfNothing: Bool { true }

  override var ranToItsEnd: Bool { hasRunToItsEnd }

  /// What Foundation holds to be ready is ready: it was cancelled, or its dependencies were removed behind our back.
  override func noticeReadiness() -> Bool {
    guard operation.isReady else { return false }
    dropDependencies()
    return true
  }

  override func perform() throws {
    // By itself, or started by somebody else, since it was asked.
    if operation.isFinished { return plainOperationDidFinish() }
    let wasCancelled = operation.isCancelled
    if !operation.isExecuting { operation.start() }
    if operation.isFinished {
      hasRunToItsEnd = !wasCancelled
      plainOperationDidFinish()
      return
    }
    let sentinel = FinishSentinel(of: operation) { [weak self] in self?.plainOperationDidFinish() }
    self.sentinel = sentinel
    sentinel.arm()
  }

  private func plainOperationDidFinish() {
    EnqueuedPlainOperations.remove(operation)
    PlainOperationDependencies(of: operation).leave()
    if operation.isCancelled { super.cancel() }
    queue?.followPriorities(isResuming: false)
    finish()
  }

  /// Cancels the plain operation, which finishes when the queue starts it.
  override func cancel() {
    operation.cancel()
    dropDependencies()
    queue?.operationMayHaveBecomeReady(self)
  }

  /// A cancelled operation waits for nothing.
  private func dropDependencies() {
    for dependency in dependencies { removeDependency(dependency) }
  }
}
