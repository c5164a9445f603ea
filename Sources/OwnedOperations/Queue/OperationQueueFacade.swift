import Foundation

extension OwnerScopedQueue {
  /// This queue for APIs that insist on an `OperationQueue`, such as `NotificationCenter.addObserver(forName:object:queue:using:)` and
  /// `URLSession(configuration:delegate:delegateQueue:)`. What is added there is added here, and every setting is this queue's.
  ///
  /// Always the same object. The queue keeps it, because Foundation's notification centre holds it weakly. Who holds it keeps what the
  /// queue is and has: its work, limit, name, suspension. On Linux Foundation doesn't let its `operations` and `operationCount` be
  /// overridden: they are empty there; ask the queue.
  ///
  /// Inside work of this queue, `addOperation` with a closure followed by `waitUntilAllOperationsAreFinished`, both on the facade, runs
  /// that closure on the spot. That is how
  /// Foundation's notification centre delivers on Linux: who posts waits for the observer's closure, and for nothing else.
  public var operationQueue: OperationQueue {
    if isMain { return .main }
    if let facade = extras.withLock({ $0.facade.object }) { return facade }
    guard let reference else { return .main }  // not before the end of `init`
    let new = OperationQueueFacade(reference)
    return extras.withLock { extras in
      if let facade = extras.facade.object { return facade }
      extras.facade.kept = new
      reference.expectSuccession()
      return new
    }
  }

  /// In the deinit: if somebody still uses the facade, all that this queue is and has goes to another queue, which the facade keeps.
  ///
  /// No worker is active, and no operation is left; there may be jobs, if the queue is suspended or its limit is zero.
  func bequeath() {
    guard extras.withLock({ $0.facade.kept != nil }) else { return }
    guard let facade = extras.withLock({ $0.facade.keptByOthers }) else {
      reference?.settleSuccession(nil)
      return
    }
    _ = core.note { $0.discardFormerWorkers() }
    let heir = OwnerScopedQueue(
      name: nil, limit: Self.defaultMaxConcurrentOperationCount, qualityOfService: .default, underlyingQueue: nil,
      driving: core.driver.map { QueueDriving($0, isShuffled: false) })
    if Mutation.heirIsKnownTooEarly.isOn {
      reference?.settleSuccession(heir.reference)
      heir.core.followUp()  // somebody may come before
    }
    core.exchange(with: heir.core)
    let refused = refusedJobs.value
    heir.core.note { scheduler in
      scheduler.endedOperations = 0  // as many as have begun in the heir
      scheduler.statistics.count(refused: refused)
    }
    let jobErrors = extras.withLock { $0.jobErrors }
    heir.extras.withLock { $0 = Extras(facade: FacadeReference(keeper: facade), jobErrors: jobErrors) }
    facade.keep(heir)
    reference?.settleSuccession(heir.reference)
    // Nobody else has it yet, but for those who came through the reference: what workers look at is brought up to date.
    heir.core.followUp()
  }
}

/// A queue's facade. The queue keeps it. A facade whose former queue has gone keeps the queue, and is not kept in turn.
struct FacadeReference {
  var kept: OperationQueueFacade?
  private weak var keeper: OperationQueueFacade?

  init() {}
  init(keeper: OperationQueueFacade) { self.keeper = keeper }

  var object: OperationQueueFacade? { kept ?? keeper }

  /// The facade that is kept, if somebody else keeps it, too.
  var keptByOthers: OperationQueueFacade? { mutating get { isKnownUniquelyReferenced(&kept) ? nil : kept } }
}

/// Passes on to a queue of ours whatever an `OperationQueue` is asked to do.
///
/// A queue keeps its facade, so the facade can't keep the queue. It keeps the heir that the queue leaves when it goes before the facade.
/// When nobody holds either, both go. A facade that is brought back to life in that instant, through a weak reference, is an ordinary
/// `OperationQueue`: nothing added there gets lost. So it is for hooks on the queue's own deinit, which come before there is an heir.
///
/// Foundation doesn't let us override `operations` and `operationCount` on Linux: they are members of an extension, which read what the
/// base class stores. They speak of the base class, which stays empty.
final class OperationQueueFacade: OperationQueue, @unchecked Sendable {  // what it adds is constant, or guarded by `lock`
  private let reference: QueueReference
  private let lock = Lock()
  private var heir: OwnerScopedQueue?
  /// What threads that run work of the queue have added last, and not waited for.
  private var posted: [Platform.ThreadID: OwnedOperation] = [:]

  init(_ reference: QueueReference) {
    self.reference = reference
    super.init()
  }

  var queue: OwnerScopedQueue? { reference.queue }

  func keep(_ heir: OwnerScopedQueue) { lock.withLock { self.heir = heir } }

  override func addOperation(_ operation: Operation) {
    if let queue { queue.addOperation(operation) } else { super.addOperation(operation) }
  }

  /// Whether this thread runs work of the queue: on a worker, or the task of an asynchronous operation.
  private func isInside(_ queue: OwnerScopedQueue) -> Bool {
    OwnerScopedQueue.ofThisThread === queue || OperationTask.current?.scheduler === queue
  }

  override func addOperation(_ block: @escaping @Sendable () -> Void) {
    guard let queue else { return super.addOperation(block) }
    guard isInside(queue) else { return queue.addOperation(block) }
    let operation = OwnedBlockOperation(lifetime: queue.ownLifetime, block)
    queue.addOperation(operation)
    let former = lock.withLock { posted.updateValue(operation, forKey: Platform.currentThread) }
    withExtendedLifetime(former) {}  // until here: not under the lock
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
    guard let queue else { return super.waitUntilAllOperationsAreFinished() }
    guard isInside(queue), let operation = lock.withLock({ posted.removeValue(forKey: Platform.currentThread) }) else {
      return queue.waitUntilAllOperationsAreFinished()
    }
    // On the spot, as Foundation does in work of the same queue. That needs neither another thread nor a permit.
    if !operation.startIfReady() { operation.blockUntilFinished() }
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
