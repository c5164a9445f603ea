import Foundation

extension OwnerScopedQueue {
  /// This queue for APIs that insist on an `OperationQueue`, such as `NotificationCenter.addObserver(forName:object:queue:using:)` and
  /// `URLSession(configuration:delegate:delegateQueue:)`. What is added there is added here, and every setting is this queue's.
  ///
  /// Always the same object, which the queue keeps: Foundation's notification centre holds it weakly. Once the queue has gone, it is an ordinary
  /// `OperationQueue`, so that nothing added there gets lost.
  public var operationQueue: OperationQueue {
    if isMain { return .main }
    let new = OperationQueueFacade(self)
    return lock.withLock {
      if let facade = state.facade { return facade }
      state.facade = new
      return new
    }
  }
}

/// Passes on to a queue of ours whatever an `OperationQueue` is asked to do.
///
/// The members that Foundation doesn't let us override (`operations` and `operationCount` on Linux) speak of the base class, which stays empty.
final class OperationQueueFacade: OperationQueue, @unchecked Sendable {  // what it adds is written once
  private weak var queue: OwnerScopedQueue?  // written once, before the facade is shared

  init(_ queue: OwnerScopedQueue) {
    self.queue = queue
    super.init()
  }

  override func addOperation(_ operation: Operation) {
    if let queue { queue.addOperation(operation) } else { super.addOperation(operation) }
  }

  override func addOperation(_ block: @escaping @Sendable () -> Void) {
    if let queue { queue.addOperation(block) } else { super.addOperation(block) }
  }

  @available(*, noasync, message: "Use addBarrierBlock or a dependent Operation instead")
  override func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
    if let queue {
      queue.addOperations(operations, waitUntilFinished: wait)
    } else {
      super.addOperations(operations, waitUntilFinished: wait)
    }
  }

  override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
    if let queue { queue.addBarrierBlock(barrier) } else { super.addBarrierBlock(barrier) }
  }

  override func cancelAllOperations() {
    if let queue { queue.cancelAllOperations() } else { super.cancelAllOperations() }
  }

  @available(*, noasync, message: "Use completionBlock or a dependent Operation instead")
  override func waitUntilAllOperationsAreFinished() {
    if let queue { queue.waitUntilAllOperationsAreFinished() } else { super.waitUntilAllOperationsAreFinished() }
  }

  override var progress: Progress { queue?.progress ?? super.progress }

  override var maxConcurrentOperationCount: Int {
    get { queue.map { $0.maxConcurrentOperationCount } ?? super.maxConcurrentOperationCount }
    set { if let queue { queue.maxConcurrentOperationCount = newValue } else { super.maxConcurrentOperationCount = newValue } }
  }

  override var isSuspended: Bool {
    get { queue.map { $0.isSuspended } ?? super.isSuspended }
    set { if let queue { queue.isSuspended = newValue } else { super.isSuspended = newValue } }
  }

  override var name: String? {
    get { queue.map { $0.name } ?? super.name }
    set { if let queue { queue.name = newValue } else { super.name = newValue } }
  }

  override var qualityOfService: QualityOfService {
    get { queue.map { $0.qualityOfService } ?? super.qualityOfService }
    set { if let queue { queue.qualityOfService = newValue } else { super.qualityOfService = newValue } }
  }

  override var underlyingQueue: DispatchQueue? {
    get { queue.map { $0.underlyingQueue } ?? super.underlyingQueue }
    set { if let queue { queue.underlyingQueue = newValue } else { super.underlyingQueue = newValue } }
  }

  #if canImport(ObjectiveC)
    override var operations: [Operation] { queue?.operations ?? super.operations }
    override var operationCount: Int { queue?.operationCount ?? super.operationCount }
  #endif
}
