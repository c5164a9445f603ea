import Foundation

/// Work tied to an owner.
///
/// The owner is held weakly until the body runs, and strongly while it runs. When the owner ends, its pending work is cancelled and what it captured is
/// released, promptly and in the background, even if the queue is suspended or all workers are busy; nothing of it starts afterwards.
extension OwnerScopedQueue {
  // MARK: Jobs

  /// Runs the body with the owner, unless the owner ends first. A job: no `Operation` object. O(1).
  public func async<Owner: OperationOwner & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable (Owner) -> Void
  ) {
    let token = owner.lifetimeToken
    submit(consume body, owner: owner, lifetime: .passUnretained(token.lifetime), priority: priority)
    withExtendedLifetime(token) {}
  }

  /// The same for any object, see ``OwnerLifetime/of(_:)-(AnyObject)``.
  @_disfavoredOverload
  public func async<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    submit(consume body, owner: owner, lifetime: .passUnretained(lifetime), priority: priority)
    withExtendedLifetime(lifetime) {}
  }

  /// The same for a lifetime.
  public func async(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable () -> Void
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submit(.block(consume body), lifetime: .passUnretained(lifetime), priority: priority)
  }

  private func submit<Owner: AnyObject & Sendable>(
    _ body: consuming @escaping @Sendable (Owner) -> Void, owner: Owner, lifetime: Unmanaged<OwnerLifetime>,
    priority: Operation.QueuePriority
  ) {
    guard lifetime._withUnsafeGuaranteedRef({ $0.isAlive }) else { return refusedJobs.add() }
    guard lifetime._withUnsafeGuaranteedRef({ $0.bind(owner) }) else {
      // Another object came first with the same token.
      submit(
        .reportingBlock { [weak owner, body = copy body] batch in
          guard let owner else { return .skipped }
          batch.setBegun()
          body(owner)
          return .succeeded
        }, lifetime: lifetime, priority: priority)
      return
    }
    // A class is one pointer whatever its type, and is passed as such; so the closure can be called with the type forgotten, which
    // saves wrapping it in another. The object it gets is the one the lifetime is bound to: this owner.
    let erased = unsafeBitCast(TypedBody(call: consume body), to: ErasedBody.self)
    submit(.ownerBlock(erased.call), lifetime: lifetime, priority: priority)
  }

  // MARK: Delayed jobs

  /// Adds the job when the delay has passed, unless the owner ends first; what it captured is released at the end, not at the deadline.
  public func asyncAfter<Owner: OperationOwner & Sendable>(
    _ delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) -> Void
  ) {
    Self.timerQueue.asyncAfter(deadline: .now() + delay.dispatchInterval, owner: owner) { [self] owner in
      async(owner: owner, priority: priority, execute: body)
    }
  }

  /// The same for any object.
  @_disfavoredOverload
  public func asyncAfter<Owner: AnyObject & Sendable>(
    _ delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    Self.timerQueue.asyncAfter(deadline: .now() + delay.dispatchInterval, lifetime: lifetime) { [self, weak owner] in
      guard let owner else { return }
      submit(body, owner: owner, lifetime: .passUnretained(lifetime), priority: priority)
    }
  }

  /// The same for a lifetime.
  public func asyncAfter(
    _ delay: Duration, lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable () -> Void
  ) {
    Self.timerQueue.asyncAfter(deadline: .now() + delay.dispatchInterval, lifetime: lifetime) { [self] in
      async(lifetime: lifetime, priority: priority, execute: body)
    }
  }

  private static let timerQueue = DispatchQueue(label: "OwnedOperations.delays", qos: .userInitiated)

  // MARK: Operations

  /// Adds the body as an operation. What it throws is the operation's outcome.
  /// - Returns: the operation, for its state, outcome and dependents. If the owner has ended, it is cancelled and finished.
  @discardableResult
  public func addOperation<Owner: OperationOwner & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> OwnedOperation {
    addOperation(owner, owner.lifetimeToken.lifetime, priority, body)
  }

  /// The same for any object.
  @_disfavoredOverload @discardableResult
  public func addOperation<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> OwnedOperation {
    addOperation(owner, OwnerLifetime.of(owner as AnyObject), priority, body)
  }

  /// The same for a lifetime.
  @discardableResult
  public func addOperation(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () throws -> Void
  ) -> OwnedOperation {
    let operation = OwnedBlockOperation(lifetime: lifetime, body)
    if priority != .normal { operation.queuePriority = priority }
    addOperation(operation)
    return operation
  }

  private func addOperation<Owner: AnyObject & Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> OwnedOperation {
    let operation = OwnerBlockOperation(owner, lifetime, body)
    if priority != .normal { operation.queuePriority = priority }
    addOperation(operation)
    return operation
  }

  // MARK: Cancelling, counting, waiting

  /// Cancels what the owner has pending and executing in this queue. The owner lives on. Linear in the queue's operations.
  public func cancelOperations(ownedBy lifetime: OwnerLifetime) {
    lock.lock()
    var taken: [(OwnerSlot, [TakenWork])] = []
    for stage in state.stages {
      guard let slot = stage.existingSlot(for: lifetime) else { continue }
      taken.append((slot, state.takePending(of: slot)))
    }
    let operations = state.operations.operations(ownedBy: lifetime)
    state.operations.forgetRecords(in: taken.map(\.0))
    let runs = Array(state.runs.values)
    unlockAndFollowUp()
    for run in runs { run.cancel(.cancelled, ownedBy: lifetime) }
    for (slot, work) in taken { finishCancelling(work, of: slot, forEndedOwner: false) }
    cancel(operations)
  }

  /// The owner's operations that have not finished. Linear in the queue's operations.
  public func operations(ownedBy lifetime: OwnerLifetime) -> [OwnedOperation] {
    lock.withLock { state.operations.operations(ownedBy: lifetime) }
  }

  /// How many operations and jobs of the owner have not finished.
  public func operationCount(ownedBy lifetime: OwnerLifetime) -> Int {
    lock.lock()
    for worker in state.workers.active { state.settle(worker, isWorker: false) }
    let count = state.unfinished(ownedBy: lifetime)
    unlockAndFollowUp()
    return count
  }

  /// Blocks until nothing of the owner is pending or executing. From inside work of the owner in this queue: until nothing is left but work that waits for the same.
  @available(*, noasync, message: "Use finished(ownedBy:) instead")
  public func waitUntilFinished(ownedBy lifetime: OwnerLifetime) {
    wait(for: lifetime)
  }

  /// Returns when nothing of the owner is pending or executing.
  public func finished(ownedBy lifetime: OwnerLifetime) async {
    await finished(lifetime)
  }

  func wait(for lifetime: OwnerLifetime?) {
    let semaphore = DispatchSemaphore(value: 0)
    let worker = Worker.current.flatMap { $0.works(for: self) ? $0 : nil }
    lock.lock()
    prepareToWait(for: lifetime)
    let inside = worker.map { $0.currentSlot?.lifetime }
    state.waits.insert(.thread(semaphore), for: lifetime, inside: inside)
    unlockAndFollowUp()
    BlockingRegion.perform { semaphore.wait() }
  }

  func finished(_ lifetime: OwnerLifetime?) async {
    await withCheckedContinuation { continuation in
      lock.lock()
      prepareToWait(for: lifetime)
      state.waits.insert(.task(continuation), for: lifetime, inside: nil)
      unlockAndFollowUp()
    }
  }

  /// Workers count what they have done batch by batch. The last of an owner's work must not have to wait for that of others in the same batch.
  private func prepareToWait(for lifetime: OwnerLifetime?) {
    if lifetime != nil { state.takeBatchesBack() }
    for worker in state.workers.active { state.settle(worker, isWorker: false) }
  }

  // MARK: Settings

  /// While true for an owner, nothing of it starts; what executes goes on. The end of the owner takes the suspension along.
  public func setSuspended(_ suspended: Bool, ownedBy lifetime: OwnerLifetime) {
    lock.lock()
    if suspended {
      // The slot is what hears of the owner's end.
      guard state.stages[state.stages.count - 1].slot(for: .passUnretained(lifetime), queue: self) != nil else {
        unlockAndFollowUp()
        return
      }
      state.suspendedOwners.insert(lifetime.id)
    } else {
      state.suspendedOwners.remove(lifetime.id)
    }
    state.takeBatchesBack()
    for stage in state.stages {
      guard let slot = stage.existingSlot(for: lifetime) else { continue }
      slot.isSuspended = suspended
      stage.release(slot, ownerLimit: state.ownerLimit)
    }
    unlockAndFollowUp()
  }

  /// How many operations and jobs of one owner may execute at once. By default there is no limit, which reads as
  /// ``defaultMaxConcurrentOperationCount``. Other negative values are a precondition failure.
  public var maxConcurrentOperationCountPerOwner: Int {
    get {
      let limit = lock.withLock { state.ownerLimit }
      return limit == .max ? OperationQueue.defaultMaxConcurrentOperationCount : limit
    }
    set {
      let limit = Self.checkedLimit(newValue)
      lock.lock()
      state.ownerLimit = limit
      state.takeBatchesBack()
      for stage in state.stages { stage.forEachSlot { stage.release($0, ownerLimit: limit) } }
      unlockAndFollowUp()
    }
  }

  /// Whose turn it is among owners with work of equal priority. With `roundRobin`, a job of an owner without others pending
  /// waits for at most one job of each competing owner and worker. Linear in the pending work's owners to change.
  public var ownerFairness: OwnerFairness {
    get { lock.withLock { state.fairness } }
    set {
      lock.lock()
      state.fairness = newValue
      state.takeBatchesBack()
      for stage in state.stages { stage.setFairness(newValue) }
      unlockAndFollowUp()
    }
  }
}

extension Duration {
  /// For deadlines; the longest interval there is stands for longer ones.
  var dispatchInterval: DispatchTimeInterval {
    let (seconds, attoseconds) = components
    let nanoseconds = Double(seconds) * 1e9 + Double(attoseconds) / 1e9
    return .nanoseconds(Int(max(0, min(nanoseconds, 9.2e18))))
  }
}

/// A closure in a struct keeps its own calling convention when it is cast; bare, it would be wrapped in another for the cast, and again behind it.
private struct TypedBody<Owner: AnyObject> { let call: @Sendable (Owner) -> Void }
private struct ErasedBody { let call: @Sendable (AnyObject) -> Void }
