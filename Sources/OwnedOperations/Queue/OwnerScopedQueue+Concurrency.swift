import Foundation

/// Swift concurrency: tasks run on the queue's threads, and the end of an owner cancels them.
extension OwnerScopedQueue: TaskExecutor {
  /// For the Swift runtime: one step of a task that prefers this queue, as with `Task(executorPreference: queue)`. It runs like a job without an
  /// owner, at the priority of its task.
  public func enqueue(_ job: consuming ExecutorJob) {
    let priority = Operation.QueuePriority(job.priority)
    submit(.executorJob(UnownedJob(job)), lifetime: nil, priority: priority)
  }

  /// Runs an asynchronous body on the queue when its turn comes, and returns what it returns.
  ///
  /// The body inherits the priority and the task-local values of the caller; cancelling the caller cancels it. From its turn until it is over it counts as
  /// one executing operation, of the owner and of the queue. When the owner ends, the body never starts, or is cancelled.
  /// - Throws: what the body throws; `CancellationError` if the owner ended, or `cancelAllOperations()` was called, before the body was over, or the
  ///   caller was cancelled before its turn.
  public func run<Owner: OperationOwner & Sendable, T: Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = owner.lifetimeToken.lifetime
    return try await run(lifetime: lifetime, priority: priority, Self.holdingWeakly(owner, body))
  }

  /// The same for any object.
  @_disfavoredOverload
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return try await run(lifetime: lifetime, priority: priority, Self.holdingWeakly(owner, body))
  }

  /// The same for a lifetime.
  public func run<T: Sendable>(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () async throws -> T
  ) async throws -> T {
    let turn = Turn(lifetime: lifetime)
    if priority != .normal { turn.queuePriority = priority }
    addOperation(turn)
    // A task that prefers this queue must not need one of its slots to go on while its own turn takes the slot.
    return try await withTaskExecutorPreference(TurnExecutor(queue: self)) { try await run(body, when: turn) }
  }

  private func run<T: Sendable>(_ body: @escaping @Sendable () async throws -> T, when turn: Turn) async throws -> T {
    await withTaskCancellationHandler {
      await turn.came.wait()
    } onCancel: {
      turn.cancelBeforeItCame()
    }
    guard turn.isExecuting, !turn.isCancelled else {
      turn.finish()
      throw CancellationError()
    }
    do {
      let value = try await run(body, during: turn)
      turn.finish()
      if turn.isCancelled { throw CancellationError() }
      return value
    } catch is OwnerHasGone {
      turn.cancel(.ownerEnded)
      turn.finish()
      throw CancellationError()
    } catch {
      turn.finish(throwing: error)
      if turn.isCancelled { throw CancellationError() }
      throw error
    }
  }

  /// Runs the body in a child task, which the cancellation of the turn cancels.
  private func run<T: Sendable>(_ body: @escaping @Sendable () async throws -> T, during turn: Turn) async throws -> T {
    let executor = TurnExecutor(queue: self)
    return try await withThrowingTaskGroup(of: T?.self) { group in
      group.addTask(executorPreference: executor) {
        // The turn came some time ago; this look at the lifetime decides.
        guard !turn.isCancelled else { throw CancellationError() }
        return try await body()
      }
      group.addTask {
        await turn.wasCancelled.wait()
        return nil
      }
      defer { group.cancelAll() }
      while let result = try await group.next() {
        if let result { return result }
        group.cancelAll()
      }
      throw CancellationError()
    }
  }

  /// The owner weakly until the body runs, strongly while it runs.
  private static func holdingWeakly<Owner: AnyObject & Sendable, T: Sendable>(
    _ owner: Owner, _ body: @escaping @Sendable (Owner) async throws -> T
  ) -> @Sendable () async throws -> T {
    { [weak owner] in
      guard let owner else { throw OwnerHasGone() }
      return try await body(owner)
    }
  }
}

/// The object has gone, though its lifetime has not ended.
private struct OwnerHasGone: Error {}

/// The place in the queue of a task: an asynchronous operation that executes while the task has its turn.
private final class Turn: OwnedOperation, @unchecked Sendable {  // stores constants only
  let came = Signal()
  let wasCancelled = Signal()

  override init(lifetime: OwnerLifetime) {
    super.init(lifetime: lifetime)
    // Made for an owner that has ended, it will not be told so.
    if isFinished { came.fire() }
  }

  override var isAsynchronous: Bool { true }

  override func perform() { came.fire() }

  override func didCancel(_ reason: CancellationReason) {
    wasCancelled.fire()
    came.fire()
  }

  /// The task that waits was cancelled. Once its turn has come, that is the body's affair.
  func cancelBeforeItCame() {
    if !isExecuting { cancel() }
  }
}

/// Something that happens once and that tasks wait for. A task that is cancelled waits no longer.
private final class Signal: Sendable {
  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var hasFired = false
  nonisolated(unsafe) private var waiting: CheckedContinuation<Void, Never>?

  func fire() {
    let continuation = lock.withLock { () -> CheckedContinuation<Void, Never>? in
      hasFired = true
      defer { waiting = nil }
      return waiting
    }
    continuation?.resume()
  }

  /// For one task at a time. Returns when the signal has fired; on the task's cancellation it fires.
  func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = lock.withLock {
          if !hasFired { waiting = continuation }
          return hasFired
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      fire()
    }
  }
}

/// Runs the steps of a task that has its turn. The turn is what the queue's limit counts, so the steps go straight to GCD.
private final class TurnExecutor: TaskExecutor {
  private let queue: OwnerScopedQueue
  private let dispatchQueue: DispatchQueue

  init(queue: OwnerScopedQueue) {
    self.queue = queue
    dispatchQueue = queue.underlyingQueue ?? DispatchQueue.global(qos: queue.qualityOfService.dispatchQoS.qosClass)
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let executor = asUnownedTaskExecutor()
    dispatchQueue.async { [self] in
      ThreadSlot.queue.with(queue) { job.runSynchronously(on: executor) }
    }
  }
}

extension Operation.QueuePriority {
  /// The nearest to that of a task.
  fileprivate init(_ priority: JobPriority) {
    switch priority.rawValue {
    case TaskPriority.high.rawValue...: self = .high
    case ..<TaskPriority.low.rawValue: self = .veryLow
    case ..<TaskPriority.medium.rawValue: self = .low
    default: self = .normal
    }
  }
}
