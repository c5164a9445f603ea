import Foundation
import Synchronization

/// Swift concurrency: tasks run on the queue's threads, and the end of an owner cancels them.
extension OwnerScopedQueue: TaskExecutor {
  /// For the Swift runtime: one step of a task that prefers this queue, as with `Task(executorPreference: queue)`. It runs like a job
  /// without an owner, at the priority of its task.
  public func enqueue(_ job: consuming ExecutorJob) {
    let priority = Operation.QueuePriority(job.priority)
    submit(.executorJob(UnownedJob(job)), lifetime: nil, priority: priority)
  }

  /// Runs an asynchronous body on the queue when its turn comes, and returns what it returns.
  ///
  /// The body inherits the priority and the task-local values of the caller; cancelling the caller cancels it. From its turn until it is
  /// over it counts as one executing operation, of the owner and of the queue. When the owner ends, the body never starts, or is cancelled.
  ///
  /// The owner is held from the body's start until the body is over, however long it is suspended in between: an owner can't go before.
  /// Where that may be long, use the `weaklyFor:` form. A caller that goes on holding the owner while it waits keeps it, too.
  ///
  /// The body has its place in the queue for all of its life. Only while it awaits other work of the queue, others may have the place; then
  /// it goes on when there is one again.
  /// - Throws: what the body throws; `CancellationError` if the owner ended, or `cancelAllOperations()` was called, before the body was
  ///   over, or the caller was cancelled before its turn.
  public func run<Owner: OperationOwner & Sendable, T: Sendable>(
    owner: consuming Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = owner.lifetimeToken.lifetime
    let holding = OperationOwnerHold(consume owner, lifetime)
    return try await run(holding, lifetime, priority, body)
  }

  /// Runs an asynchronous body on the queue for any object when its turn comes, and returns what it returns. Everything else is as for an
  /// `OperationOwner`.
  @_disfavoredOverload
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    owner: consuming Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    let holding = OperationOwnerHold(consume owner, lifetime)
    return try await run(holding, lifetime, priority, body)
  }

  /// Runs an asynchronous body that doesn't keep its owner: it gets a weak reference. The owner's end cancels the body, wherever it is
  /// suspended.
  ///
  /// ```swift
  /// final class Screen: Sendable {
  ///   func show(_ text: String) { print(text) }
  /// }
  ///
  /// let screen = Screen()
  /// try await OwnerScopedQueue().run(weaklyFor: screen) { screen in
  ///   try await Task.sleep(for: .seconds(60))  // the screen may go meanwhile, which ends the sleep
  ///   screen.object?.show("a minute later")
  /// }
  /// ```
  /// - Throws: as the `owner:` form.
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    weaklyFor owner: consuming Owner, priority: Operation.QueuePriority = .normal,
    _ body: @escaping @Sendable (WeakOwner<Owner>) async throws -> T
  ) async throws -> T {
    let reference = WeakOwner(consume owner)
    return try await run(weaklyFor: reference, priority: priority, body)
  }

  /// Runs an asynchronous body that doesn't keep its owner, for callers that don't keep it either while they wait. Everything else is as
  /// with the owner itself.
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    weaklyFor owner: WeakOwner<Owner>, priority: Operation.QueuePriority = .normal,
    _ body: @escaping @Sendable (WeakOwner<Owner>) async throws -> T
  ) async throws -> T {
    try await run(lifetime: owner.lifetime, priority: priority) { try await body(owner) }
  }

  private func run<Owner: AnyObject & Sendable, T: Sendable>(
    _ holding: OperationOwnerHold, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority,
    _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let turn = QueueTurn(lifetime: lifetime, holding)
    return try await run(turn, priority) {
      guard let address = holding.handOver() else { throw OwnerHasGone() }
      let asyncBody = AsyncBody(holding.hold)
      defer { asyncBody.end() }
      // The frame's reference is the one that is counted, and goes before it is counted out.
      return try await OwnBodyWait.$taskBody.withValue(asyncBody) {
        let owner = Retained<Owner>(address: address).take()
        // Over before the frame lets go of the owner: if that ends it, it must not make cancelled of what has succeeded.
        do {
          let value = try await body(owner)
          _ = withExtendedLifetime(owner) { turn.finish() }
          return value
        } catch {
          _ = withExtendedLifetime(owner) { turn.finish(throwing: error) }
          throw error
        }
      }
    }
  }

  /// Runs an asynchronous body on the queue for a lifetime when its turn comes, and returns what it returns. Everything else is as for an
  /// owner, which is not held.
  public func run<T: Sendable>(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () async throws -> T
  ) async throws -> T {
    try await run(QueueTurn(lifetime: lifetime, nil), priority, body)
  }

  private func run<T: Sendable>(
    _ turn: QueueTurn, _ priority: Operation.QueuePriority, _ body: @escaping @Sendable () async throws -> T
  ) async throws -> T {
    add(turn, priority)
    return try await run(turn, body)
  }

  private func add(_ turn: QueueTurn, _ priority: Operation.QueuePriority) {
    if priority != .normal { turn.queuePriority = priority }
    addOperation(turn)
  }

  /// Takes a place in the queue for a task that is about to be made.
  func addTurn(lifetime: OwnerLifetime, priority: Operation.QueuePriority) -> QueueTurn {
    let turn = QueueTurn(lifetime: lifetime, nil)
    add(turn, priority)
    return turn
  }

  /// The task doesn't want its place.
  func giveUp(_ turn: QueueTurn) {
    turn.cancel()
    finish(turn)
  }

  /// Runs a body in the place that was taken for it.
  func run<T: Sendable>(_ turn: QueueTurn, _ body: @escaping @Sendable () async throws -> T) async throws -> T {
    // If this is the task of an operation, that one may have to make room when the body waits.
    let waiter = OperationTask.current.map { _ in WaitingTask() }
    if let waiter { _ = turn.addWaiter(waiter) }
    return try await WaitTarget.operation(turn).whileWaiting(toldBy: waiter) {
      // A task that prefers this queue must not need one of its slots to go on while its own turn takes the slot.
      try await withTaskExecutorPreference(TurnExecutor(queue: self, turn)) { try await run(body, when: turn) }
    }
  }

  private func run<T: Sendable>(_ body: @escaping @Sendable () async throws -> T, when turn: QueueTurn) async throws -> T {
    await withTaskCancellationHandler {
      await turn.came.wait()
    } onCancel: {
      turn.callerWasCancelled()
    }
    guard turn.isExecuting, !turn.isCancelled else {
      finish(turn)
      throw CancellationError()
    }
    do {
      let value = try await withTaskCancellationHandler {
        try await run(body, during: turn)
      } onCancel: {
        turn.callerWasCancelled()
      }
      finish(turn)
      if turn.isCancelled { throw CancellationError() }
      return value
    } catch is OwnerHasGone {
      turn.cancel(.ownerEnded)
      finish(turn)
      throw CancellationError()
    } catch {
      finish(turn, throwing: error)
      if turn.isCancelled { throw CancellationError() }
      throw error
    }
  }

  /// Lets go of the owner, too, if the body has not taken it over.
  private func finish(_ turn: QueueTurn, throwing error: (any Error)? = nil) {
    turn.finish(throwing: error)
    turn.letGoOfOwner()
  }

  /// Runs the body in a child task, which the cancellation of the turn cancels.
  private func run<T: Sendable>(_ body: @escaping @Sendable () async throws -> T, during turn: QueueTurn) async throws -> T {
    let executor = TurnExecutor(queue: self, turn)
    return try await withThrowingTaskGroup(of: T?.self) { group in
      group.addTask(executorPreference: executor) {
        // The turn came some time ago.
        guard turn.mayBeginInTask else { throw CancellationError() }
        return try await turn.runInTask(body)
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
}

/// A weak reference to an owner, for bodies that may be suspended for long.
public struct WeakOwner<Owner: AnyObject & Sendable>: Sendable {
  private let reference: WeakReference<Owner>
  /// Of the owner.
  public let lifetime: OwnerLifetime

  /// Makes a reference that doesn't hold the owner.
  public init(_ owner: Owner) {
    reference = WeakReference(owner)
    lifetime = OwnerLifetime.of(owner as AnyObject)
  }

  /// The owner, unless it has gone.
  public var object: Owner? { reference.object }
}

/// The object has gone, though its lifetime has not ended.
private struct OwnerHasGone: Error {}

/// The place in the queue of a task: an asynchronous operation that executes while the task has its turn.
final class QueueTurn: OwnedOperation, @unchecked Sendable {  // stores constants only
  fileprivate let came = Signal()
  fileprivate let wasCancelled = Signal()
  private let isCallerCancelled = Atomic<Bool>(false)
  private let holding: OperationOwnerHold?

  fileprivate init(lifetime: OwnerLifetime, _ holding: OperationOwnerHold?) {
    self.holding = holding
    super.init(lifetime: lifetime)
    setTellsOthers()
    // Made for an owner that has ended, it will not be told so.
    if isFinished { came.fire() }
  }

  override var isAsynchronous: Bool { true }

  override var holdsOwner: Bool { holding != nil }
  override func beginForOwner() -> OwnerHold? { holding?.begin() }
  override func takeOwner() -> Bool { holding?.take() ?? true }
  override func endForOwner() { holding?.endUnlessTaken() }

  override func perform() { came.fire() }

  override func didCancel(_ reason: CancellationReason) {
    wasCancelled.fire()
    came.fire()
  }

  override func letGoOfOwner() { holding?.end() }

  override var isTaskCancelled: Bool { super.isTaskCancelled || isCallerCancelled.load(ordering: .acquiring) }

  /// The task was cancelled. Once its turn has come, that is the body's affair.
  fileprivate func callerWasCancelled() {
    cancelUnlessStarted()
    isCallerCancelled.store(true, ordering: .releasing)
    tellSchedulerOfCancelledTask()
  }
}

/// Something that happens once and that tasks wait for. A task that is cancelled waits no longer.
private final class Signal: Sendable {
  private struct State {
    var hasFired = false
    var waiting: CheckedContinuation<Void, Never>?
  }

  private let state = Locked(State())

  func fire() {
    let continuation = state.withLock { state in
      state.hasFired = true
      return state.waiting.take()
    }
    continuation?.resume()
  }

  /// For one task at a time. Returns when the signal has fired; on the task's cancellation it fires.
  func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if !state.hasFired { state.waiting = continuation }
          return state.hasFired
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      fire()
    }
  }
}

/// Runs the steps of a task that has its turn. The turn is what the queue's limit counts, so the steps go straight to GCD.
final class TurnExecutor: TaskExecutor {
  private let queue: OwnerScopedQueue
  private let dispatchQueue: DispatchQueue
  private let turn: ObjectIdentifier

  init(queue: OwnerScopedQueue, _ turn: QueueTurn) {
    self.queue = queue
    self.turn = ObjectIdentifier(turn)
    dispatchQueue = queue.underlyingQueue ?? DispatchQueue.global(qos: queue.qualityOfService.dispatchQoS.qosClass)
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let executor = asUnownedTaskExecutor()
    if let driver = queue.driver {
      let step = queue.taskStep(of: turn) { [self] in
        ThreadSlot.queue.with(queue) { job.runSynchronously(on: executor) }
      }
      return driver.add(step)
    }
    dispatchQueue.async { [self] in
      ThreadSlot.queue.with(queue) { job.runSynchronously(on: executor) }
    }
  }
}

extension Operation.QueuePriority {
  /// The nearest to that of a task.
  fileprivate init(_ priority: JobPriority) { self.init(taskPriority: priority.rawValue) }

  /// The nearest to that of a task; normal if it has none of its own.
  init(_ priority: TaskPriority?) { self.init(taskPriority: priority?.rawValue ?? TaskPriority.medium.rawValue) }

  private init(taskPriority rawValue: UInt8) {
    switch rawValue {
    case TaskPriority.high.rawValue...: self = .high
    case ..<TaskPriority.low.rawValue: self = .veryLow
    case ..<TaskPriority.medium.rawValue: self = .low
    default: self = .normal
    }
  }
}
