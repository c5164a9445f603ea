import Foundation

/// Work tied to an owner.
///
/// The owner is held weakly until the body runs, and strongly while it runs. When the owner ends, its pending work is cancelled. What it
/// captured is released promptly and in the background, even if the queue is suspended or all workers are busy. Nothing of it starts
/// afterwards.
extension OwnerScopedQueue {
  // MARK: Jobs

  /// Runs the body with the owner, unless the owner ends first. A job: there is no `Operation` object.
  ///
  /// The body runs once, on a thread of the queue's, and is released there. If the owner ends first, it is released in the background.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready.
  ///   - body: gets the owner, which it must not capture.
  /// - Complexity: constant.
  @inlinable  // where the owner's class is known, its token is read without being counted
  public func async<Owner: OperationOwner & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable (Owner) -> Void
  ) {
    submit(consume body, owner: owner, token: owner.lifetimeToken, priority: priority)
  }

  /// Runs the body with an object that holds no token, unless the object ends first. A job: there is no `Operation` object.
  ///
  /// The object's lifetime, ``OwnerLifetime/of(_:)-(AnyObject)``, is looked up by its address at each call. Where there are a great many,
  /// fetch it once and pass the lifetime, or store a token in the object.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Complexity: constant on average.
  @_disfavoredOverload
  public func async<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    submit(consume body, owner: owner, lifetime: Borrowed(lifetime), isOwn: false, priority: priority)
    withExtendedLifetime(lifetime) {}
  }

  /// Runs the body unless the lifetime ends first. A job: there is no `Operation` object.
  /// - Parameters:
  ///   - lifetime: kept until the body has run. Its owner is not held, and the body must not capture it.
  ///   - priority: among what is ready.
  ///   - body: runs once, on a thread of the queue's.
  /// - Complexity: constant.
  public func async(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: consuming @escaping @Sendable () -> Void
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submitPerhapsNested(.block(consume body), lifetime: Borrowed(lifetime), priority: priority)
  }

  /// - Parameter token: the caller's, who keeps it. The lifetime behind it is not counted either: several threads may add for one owner.
  @usableFromInline
  func submit<Owner: AnyObject & Sendable>(
    _ body: consuming @escaping @Sendable (Owner) -> Void, owner: Owner, token: OwnerLifetime.Token, priority: Operation.QueuePriority
  ) {
    submit(consume body, owner: owner, lifetime: Borrowed(token.lifetime), isOwn: true, priority: priority)
    withExtendedLifetime(token) {}  // whether or not this is made a part of its caller
  }

  /// - Parameter isOwn: the lifetime is that of the owner's token.
  @inline(__always)  // for each job
  private func submit<Owner: AnyObject & Sendable>(
    _ body: consuming @escaping @Sendable (Owner) -> Void, owner: Owner, lifetime: Borrowed<OwnerLifetime>, isOwn: Bool,
    priority: Operation.QueuePriority
  ) {
    guard lifetime.with({ $0.isAlive }) else { return refusedJobs.add() }
    let isBound = lifetime.with { isOwn ? $0.bindOwn(owner) : $0.bind(owner) }
    if isBound { lifetime.with { $0.unretainedHold }?.with { $0.place.prefetch() } }  // to have it under the lock
    let erased = ErasedOwnerBody.erase(consume body)
    if isBound {
      submitPerhapsNested(.ownerJob(consume erased, heldBy: nil), lifetime: lifetime, priority: priority)
    } else {
      let hold = isOwn ? OwnerHold.ofRegistry(owner) : OwnerHold.of(owner)
      submit(.ownerJob(consume erased, heldBy: hold), lifetime: lifetime, priority: priority)
    }
  }

  /// Adds a job for somebody who does not hold its owner.
  /// - Parameter hold: nil for the object that the lifetime is bound to.
  func submit(
    _ body: @escaping ErasedOwnerBody.Body, _ lifetime: OwnerLifetime, _ hold: OwnerHold?, _ priority: Operation.QueuePriority = .normal
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submit(.ownerJob(body, heldBy: hold), lifetime: Borrowed(lifetime), priority: priority)
  }

  // MARK: Delayed jobs

  /// Adds a job when the delay has passed, unless the owner ends first. What it captured is released at the owner's end, not at the
  /// deadline.
  /// - Parameters:
  ///   - delay: until the job is added. It runs then when its turn comes. A negative delay is none.
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready when the delay has passed.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Complexity: constant, and a timer of GCD's.
  public func asyncAfter<Owner: OperationOwner & Sendable>(
    _ delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) -> Void
  ) {
    asyncAfter(delay, owner, owner.lifetimeToken.lifetime, priority, body)
  }

  /// Adds a job of an object that holds no token when the delay has passed, unless the object ends first. What it captured is released at
  /// the object's end, not at the deadline.
  /// - Parameters:
  ///   - delay: until the job is added. It runs then when its turn comes. A negative delay is none.
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready when the delay has passed.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Complexity: constant on average, and a timer of GCD's.
  @_disfavoredOverload
  public func asyncAfter<Owner: AnyObject & Sendable>(
    _ delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) -> Void
  ) {
    asyncAfter(delay, owner, OwnerLifetime.of(owner as AnyObject), priority, body)
  }

  /// The timer doesn't hold the owner, not even for the moment in which it adds the job: see ``DelayedJob``.
  private func asyncAfter<Owner: AnyObject & Sendable>(
    _ delay: Duration, _ owner: Owner, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority,
    _ body: @escaping @Sendable (Owner) -> Void
  ) {
    let erased = ErasedOwnerBody.erase(body)
    let hold = lifetime.holdUnlessBound(to: owner)
    add(DelayedJob(self, .ownerJob(erased, heldBy: hold)), after: delay, lifetime, priority)
  }

  /// Adds a job when the delay has passed, unless the lifetime ends first. What it captured is released at that end, not at the deadline.
  /// - Parameters:
  ///   - delay: until the job is added. It runs then when its turn comes. A negative delay is none.
  ///   - lifetime: kept until the body has run. Its owner is not held, and the body must not capture it.
  ///   - priority: among what is ready when the delay has passed.
  ///   - body: runs once, on a thread of the queue's.
  /// - Complexity: constant, and a timer of GCD's.
  public func asyncAfter(
    _ delay: Duration, lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable () -> Void
  ) {
    add(DelayedJob(self, .block(body)), after: delay, lifetime, priority)
  }

  private func add(_ job: DelayedJob, after delay: Duration, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority) {
    let level = PriorityLevel.of(priority)
    let body: @Sendable () -> Void = { job.add(lifetime, level: level) }
    if let driver { return call(body, after: delay, lifetime, by: driver) }
    Self.timerQueue.asyncAfter(deadline: Uptime.time(after: delay.dispatchInterval), lifetime: lifetime, execute: body)
  }

  private static let timerQueue = DispatchQueue(label: "OwnedOperations.delays", qos: .userInitiated)

  // MARK: Operations

  /// Adds the body as an operation. What it throws is the operation's outcome.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Returns: the operation, for its state, outcome and dependents. If the owner has ended, it is cancelled and finished.
  /// - Complexity: constant.
  @discardableResult
  public func addOperation<Owner: OperationOwner & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> OwnedOperation {
    addOperation(owner, owner.lifetimeToken.lifetime, priority, body)
  }

  /// Adds the body as an operation of an object that holds no token. What it throws is the operation's outcome.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - priority: among what is ready.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Returns: the operation, for its state, outcome and dependents. If the owner has ended, it is cancelled and finished.
  /// - Complexity: constant on average.
  @_disfavoredOverload @discardableResult
  public func addOperation<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> OwnedOperation {
    addOperation(owner, OwnerLifetime.of(owner as AnyObject), priority, body)
  }

  /// Adds the body as an operation of the lifetime. What it throws is the operation's outcome.
  /// - Parameters:
  ///   - lifetime: its end cancels the operation. Its owner is not held, and the body must not capture it.
  ///   - priority: among what is ready.
  ///   - body: runs once, on a thread of the queue's.
  /// - Returns: the operation, for its state, outcome and dependents. If the lifetime has ended, it is cancelled and finished.
  /// - Complexity: constant.
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
    operation.holding.hold.lookAgainIfHeldBack()
    return operation
  }

  // MARK: Cancelling, counting, waiting

  /// Cancels what the owner has pending and executing in this queue. The owner lives on.
  /// - Complexity: linear in the queue's operations and the owner's jobs.
  public func cancelOperations(ownedBy lifetime: OwnerLifetime) {
    cancel(core.mutate { scheduler, _ in scheduler.takeAll(of: lifetime) }, ownedBy: lifetime)
  }

  /// The owner's operations that have not finished.
  /// - Complexity: linear in the queue's operations.
  public func operations(ownedBy lifetime: OwnerLifetime) -> [OwnedOperation] {
    core.read { $0.operations.giveOut(ownedBy: lifetime) }
  }

  /// How many operations and jobs of the owner have not finished.
  /// - Complexity: linear in the queue's workers and barriers.
  public func operationCount(ownedBy lifetime: OwnerLifetime) -> Int {
    core.mutate { scheduler, _ in
      scheduler.settleForQuestion()
      return scheduler.unfinished(ownedBy: lifetime)
    }
  }

  /// Blocks until nothing of the owner is pending or executing. From inside work of the owner in this queue: until nothing is left but work
  /// that waits for the same.
  /// - Complexity: beside the wait, linear in the queue's workers and barriers.
  @available(*, noasync, message: "Use finished(ownedBy:) instead")
  public func waitUntilFinished(ownedBy lifetime: OwnerLifetime) {
    wait(for: lifetime)
  }

  /// Returns when nothing of the owner is pending or executing. From inside work of the owner in this queue: when nothing is left but work
  /// that waits for the same. To cancel the task that waits doesn't end the wait.
  /// - Complexity: beside the wait, linear in the queue's workers and barriers.
  public func finished(ownedBy lifetime: OwnerLifetime) async {
    await finished(lifetime)
  }

  func wait(for lifetime: OwnerLifetime?) {
    let thread = WaitingThread()
    let worker = Worker.current.flatMap { $0.works(for: core) ? $0 : nil }
    let isInBody = worker?.isInBody ?? false
    let operation = OperationTask.current?.operation  // whose task blocks this thread
    func insert(_ scheduler: inout Scheduler) {
      if let worker, !isInBody { scheduler.setOutside(worker) }
      scheduler.insert(.thread(thread), for: lifetime, inside: operation.flatMap { scheduler.asWaiting($0) } ?? worker?.unfinishedWork)
    }
    if Mutation.waiterMissesTheFinish.isOn { core.note { insert(&$0) } } else { core.mutate { scheduler, _ in insert(&scheduler) } }
    BlockingRegion.perform(for: .work(of: self, ownedBy: lifetime), thread)
  }

  func finished(_ lifetime: OwnerLifetime?) async {
    let operation = OperationTask.current?.operation
    await WaitTarget.work(of: self, ownedBy: lifetime).whileWaiting {
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        let task = SuspendedTask(continuation)
        core.mutate { scheduler, _ in
          scheduler.insert(.task(task), for: lifetime, inside: operation.flatMap { scheduler.asWaiting($0) })
        }
      }
    }
  }

  // MARK: Settings

  /// While true for an owner, nothing of it starts; what executes goes on. The end of the owner takes the suspension along.
  /// - Complexity: linear in the queue's workers and barriers.
  public func setSuspended(_ suspended: Bool, ownedBy lifetime: OwnerLifetime) {
    let hasRunOut = core.mutate { scheduler, _ in
      scheduler.setSuspended(suspended, lifetime)
      return scheduler.hasRunOut
    }
    if hasRunOut { core.noteIdle() }
  }

  /// Whether the owner was suspended in this queue, and has neither been resumed nor ended.
  public func isSuspended(ownedBy lifetime: OwnerLifetime) -> Bool {
    core.read { $0.isSuspended(lifetime) } && lifetime.isAlive
  }

  /// How many operations and jobs of one owner may execute at once. By default there is no limit, which reads as
  /// ``defaultMaxConcurrentOperationCount``. Within it, ``maxConcurrentOperationCount`` says how many there are. Other negative values are
  /// a precondition failure.
  ///
  /// Work without an owner, such as plain operations, counts as that of one owner more: the limit holds for all of it together.
  /// - Complexity: constant to read; to change, linear in the owners that have pending work, or had lately.
  public var maxConcurrentOperationCountPerOwner: Int {
    get { core.read { $0.ownerLimitAsSet } }
    set {
      let limit = Self.checkedLimit(newValue)
      core.mutate { scheduler, _ in scheduler.setOwnerLimit(limit, asSet: newValue) }
    }
  }

  /// Whose turn it is among owners with work of equal priority. With `roundRobin`, a job of an owner without others pending
  /// waits for at most one job of each competing owner and worker.
  /// - Complexity: constant to read; to change, linear in the owners that have pending work, or had lately.
  public var ownerFairness: OwnerFairness {
    get { core.read { $0.fairness } }
    set {
      core.mutate { scheduler, _ in scheduler.setFairness(newValue) }
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
