import Foundation

/// Runs an operation that is not ours in a queue of ours.
///
/// The proxy depends on what the plain operation depends on when it is added, and so becomes ready when that has finished. On Linux nothing tells
/// us that a plain operation that waits was cancelled, or that a condition of its own has changed; the queue asks from time to time.
///
/// The plain operation is always started, also when it was cancelled: that is how Foundation's operations finish.
final class PlainOperationProxy: OwnedOperation, @unchecked Sendable {  // stored properties are set in init, but for two: see there
  let operation: Operation
  private weak var queue: OwnerScopedQueue?
  /// Written by the thread that starts the proxy, before it is armed; read by nobody.
  private var sentinel: FinishSentinel?
  /// Whether `start()` ran the work and returned when it was over: what Foundation counts as progress. Written by the thread that starts the proxy, before it
  /// finishes it; read after the finish.
  private(set) var ranToItsEnd = false

  /// The plain operations in queues of ours. (Foundation does not tell which are in its own.)
  private static let enqueued = OperationSet()

  /// - Throws: ``OwnerScopedQueueError`` if the operation has been started or is in a queue of ours.
  init(running operation: Operation, for queue: OwnerScopedQueue) throws(OwnerScopedQueueError) {
    let label = OwnedOperation.label(of: operation)
    if operation.isFinished { throw .alreadyFinished(label) }
    if operation.isExecuting { throw .alreadyExecuting(label) }
    guard Self.enqueued.insert(operation) else { throw .alreadyEnqueued(label) }
    self.operation = operation
    self.queue = queue
    super.init(lifetime: queue.ownLifetime)
    name = operation.name
    queuePriority = operation.queuePriority
    for dependency in operation.dependencies { addDependency(dependency) }
  }

  /// It will not be run after all.
  func abandon() {
    Self.enqueued.remove(operation)
  }

  override var isAsynchronous: Bool { true }

  override var isReady: Bool { operation.isReady }

  override func perform() throws {
    let wasCancelled = operation.isCancelled
    operation.start()
    if operation.isFinished {
      ranToItsEnd = !wasCancelled
      plainOperationDidFinish()
      return
    }
    let sentinel = FinishSentinel(of: operation) { [weak self] in self?.plainOperationDidFinish() }
    self.sentinel = sentinel
    sentinel.arm()
  }

  private func plainOperationDidFinish() {
    Self.enqueued.remove(operation)
    leaveDependencies()
    if operation.isCancelled { super.cancel() }
    queue?.followPriorities(isResuming: false)
    finish()
  }

  /// An operation that was cancelled, or that overrides `isReady`, may finish, and go, before what it depends on. On Linux, what it depends on would still
  /// know it, unretained, and go to it when it announces its own finish: at some time after its `isFinished` has become true.
  private func leaveDependencies() {
    #if !canImport(ObjectiveC)
      for dependency in operation.dependencies where !Self.hasAnnouncedFinish(dependency) { operation.removeDependency(dependency) }
    #endif
  }

  #if !canImport(ObjectiveC)
    /// Only the base class knows: an operation that is made to depend on one that has announced its finish is ready.
    private static func hasAnnouncedFinish(_ operation: Operation) -> Bool {
      let probe = Operation()
      probe.addDependency(operation)
      defer { probe.removeDependency(operation) }  // which would know the probe unretained, too
      return probe.isReady
    }
  #endif

  /// Cancels the plain operation, which finishes when the queue starts it.
  override func cancel() {
    operation.cancel()
    dropDependencies()
  }

  /// A cancelled operation waits for nothing.
  func dropDependencies() {
    for dependency in dependencies { removeDependency(dependency) }
  }
}

/// Operations by identity, from any thread.
private final class OperationSet: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var members = Set<ObjectIdentifier>()  // guarded by `lock`

  /// False if it was a member.
  func insert(_ operation: Operation) -> Bool {
    lock.withLock { members.insert(ObjectIdentifier(operation)).inserted }
  }

  func remove(_ operation: Operation) {
    lock.withLock { _ = members.remove(ObjectIdentifier(operation)) }
  }
}
