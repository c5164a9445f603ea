import Foundation
import Synchronization

/// The place in the queue of a task: an asynchronous operation that executes while the task has its turn.
///
/// ## Protocol
///
/// The body has a task of its own, a child of the caller's. So the owner's end can cancel it and leave the caller alone. It is made when
/// the turn has been added. What the runtime enqueues to have it begin (its first step) is kept by its executor (`TurnExecutor`) until the
/// turn has come. `bodyState.firstStep`:
///
/// - `awaited`: neither has happened. To `kept` when the runtime enqueues; to `due` when the turn comes, or is cancelled, or its
///   owner has gone.
/// - `kept`: to `due`, and whoever brings it there enqueues the step.
/// - `due`: for good. The runtime's enqueueing is passed on.
///
/// So the step is enqueued once, after the turn has come. Then the body looks whether it may begin: that the turn executes, which its start
/// decided, and that nothing has cancelled it or its caller. When the body is over it finishes the turn itself, before its caller goes on.
/// A caller that has its steps run by this queue needs a permit for that, and it may be this one.
///
/// Who cancels the turn cancels the body's task, which it knows by a reference that is good until the task's end. `bodyState.bodyTask`:
///
/// - `none`: before the body has begun. It will see that the turn is cancelled.
/// - `runs`: to `isBeingCancelled` by the one who cancels; to `none` by the task, at its end.
/// - `isBeingCancelled`: handlers of the cancellation run, which are the user's, outside of the lock. Then to `none`. The task waits for
///   that before it ends.
///
/// Nobody before it: a turn that is added while nothing is ready, and there is a permit, is begun by whoever adds it
/// (`Scheduler.addTurn`). All that its start does is to say that it has come. No worker is woken for it. The body's first step runs on the
/// caller's thread where that is as good as any of the queue's. After all, the caller waits for it.
final class QueueTurn: OwnedOperation, @unchecked Sendable {  // stores constants only
  typealias Body = @Sendable () async throws -> Void

  /// The object has gone, though its lifetime has not ended.
  private struct OwnerHasGone: Error {}

  private enum FirstStep {
    case awaited
    case kept(UnownedJob, TurnExecutor)
    case due
  }

  private enum BodyTask {
    case none
    case runs(UnsafeCurrentTask)
    case isBeingCancelled
  }

  private struct BodyState {
    var firstStep = FirstStep.awaited
    var bodyTask = BodyTask.none
    /// The body's task, at its end, while it is being cancelled.
    var ending: CheckedContinuation<Void, Never>?
  }

  private let bodyState = Locked(BodyState())
  private let isCallerCancelled = Atomic<Bool>(false)
  private let holding: OperationOwnerHold?
  private let ownerBody: AsyncBody?

  init(lifetime: OwnerLifetime, _ holding: OperationOwnerHold?) {
    self.holding = holding
    ownerBody = holding.map { AsyncBody($0.hold) }
    super.init(lifetime: lifetime)
    setTellsOthers()
    // Made for an owner that has ended, it will not be told so.
    if isFinished { enqueueFirstStep() }
  }

  override var isAsynchronous: Bool { true }

  // MARK: Its owner

  override var holdsOwner: Bool { holding != nil }
  override func beginForOwner() -> OwnerHold? { holding?.begin() }
  override func takeOwner() -> Bool { holding?.take() ?? true }
  override func endForOwner() { holding?.endUnlessTaken() }
  override func letGoOfOwner() {
    // Who finished it within its start may have been heard by nobody, and then the owner may have ended: its work is not called.
    enqueueFirstStep()
    holding?.end()
  }

  // MARK: Coming, and being cancelled

  override func perform() { enqueueFirstStep() }

  override func resumeCancelled() { enqueueFirstStep() }

  /// What has not been started has no body to be cancelled.
  override var ignoresCancellation: Bool { !load().contains(.wasStarted) }

  override func didCancel(_ reason: CancellationReason) { cancelBodyTask() }

  override var isUnknown: Bool { !wasGivenOut }

  override var isTaskCancelled: Bool { super.isTaskCancelled || isCallerCancelled.load(ordering: .acquiring) }

  /// The caller's task was cancelled. Once the body has begun, that is its affair.
  func callerWasCancelled() {
    // First: the turn may be cancelled later, and the body must not begin though it has come meanwhile.
    isCallerCancelled.store(true, ordering: .releasing)
    // Somebody may observe the turn, and wait for that task, which can't go on before its cancellation handlers are over: we are in one.
    cancelUnlessStarted()
    tellSchedulerOfCancelledTask()
  }

  /// The task doesn't want its place.
  func giveUp() {
    cancel()
    finishBody(throwing: nil)
  }

  // MARK: The body's task

  /// The runtime has the task begin.
  /// - Returns: whether the step is kept until the turn has come.
  fileprivate func keep(_ step: UnownedJob, for executor: TurnExecutor) -> Bool {
    bodyState.withLock { state in
      guard case .awaited = state.firstStep else { return false }
      state.firstStep = .kept(step, executor)
      return true
    }
  }

  private func enqueueFirstStep() {
    let former = bodyState.withLock { state in
      defer { state.firstStep = .due }
      return state.firstStep
    }
    if case .kept(let step, let executor) = former { executor.start(step) }
  }

  /// For tests: the body has a task, which waits for the turn.
  var keepsFirstStep: Bool { bodyState.withLock { if case .kept = $0.firstStep { true } else { false } } }

  private var hasCome: Bool {
    bodyState.withLock { if case .due = $0.firstStep { true } else { false } }
  }

  /// Runs the body in a task of its own when the turn has come, and returns when it is over.
  /// - Throws: what the body throws; `CancellationError` if the turn was cancelled before the body was over.
  nonisolated(nonsending) func run(in queue: OwnerScopedQueue, _ body: @escaping Body) async throws {
    try await withTaskCancellationHandler {
      try await withThrowingTaskGroup(of: Void.self) { group in
        // Not just executing: a start that is under way elsewhere may not have taken the owner yet.
        let hasCome = hasCome
        let executor = TurnExecutor(queue: queue, self, keepsFirstStep: !hasCome)
        if hasCome, executor.mayBeginOnThisThread, #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
          ThreadSlot.queue.with(queue) {
            OwnTaskStep.with(executor.asUnownedTaskExecutor()) {
              group.addImmediateTask(executorPreference: executor) { try await self.run(body) }
            }
          }
        } else {
          group.addTask(executorPreference: executor) { try await self.run(body) }
        }
        try await group.next()
      }
    } onCancel: {
      CancellationHandler.run { callerWasCancelled() }
    }
  }

  nonisolated(nonsending) private func run(_ body: Body) async throws {
    withUnsafeCurrentTask { task in
      if let task { bodyState.withLock { $0.bodyTask = .runs(task) } }
    }
    var failure: (any Error)?
    do {
      // The turn came some time ago.
      guard isExecuting, mayBeginInTask, !isCallerCancelled.load(ordering: .acquiring) else { throw CancellationError() }
      try await runInTask(for: ownerBody, body)
    } catch is OwnerHasGone {
      cancel(.ownerEnded)
    } catch {
      failure = error
    }
    await end(throwing: failure)
    if isCancelled { throw CancellationError() }
    if let failure { throw failure }
  }

  /// Calls a body that holds its owner, inside of `run`.
  nonisolated(nonsending) func call<Owner: AnyObject & Sendable, T>(_ body: @Sendable (Owner) async throws -> T) async throws -> T {
    guard let address = holding?.handOver() else { throw OwnerHasGone() }
    // The frame's reference is the one that is counted, and goes before it is counted out.
    defer { ownerBody?.end() }
    return try await callHolding(address, body)
  }

  nonisolated(nonsending) private func callHolding<Owner: AnyObject & Sendable, T>(
    _ address: UnsafeMutableRawPointer, _ body: @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let owner = Retained<Owner>(address: address).take()
    // Over before the frame lets go of the owner: if that ends it, it must not make cancelled of what has succeeded.
    do {
      let value = try await body(owner)
      _ = withExtendedLifetime(owner) { finish() }
      return value
    } catch {
      _ = withExtendedLifetime(owner) { finish(throwing: error) }
      throw error
    }
  }

  /// Lets go of the owner, too, if the body has not taken it over.
  private func finishBody(throwing error: (any Error)?) {
    finish(throwing: error)
    letGoOfOwner()
  }

  /// In the body's task, which nobody may cancel afterwards.
  nonisolated(nonsending) private func end(throwing error: (any Error)?) async {
    finishBody(throwing: error)
    let isBeingCancelled = bodyState.withLock { state in
      if case .isBeingCancelled = state.bodyTask { return true }
      state.bodyTask = .none
      return false
    }
    guard isBeingCancelled else { return }
    await withCheckedContinuation { continuation in
      let isOver = bodyState.withLock { state in
        guard case .isBeingCancelled = state.bodyTask else { return true }
        state.ending = continuation
        return false
      }
      if isOver { continuation.resume() }
    }
  }

  /// Once at most.
  private func cancelBodyTask() {
    let former = bodyState.withLock { state in
      let former = state.bodyTask
      if case .runs = former { state.bodyTask = .isBeingCancelled }
      return former
    }
    guard case .runs(let task) = former else { return }
    task.cancel()
    let ending = bodyState.withLock { state in
      state.bodyTask = .none
      return state.ending.take()
    }
    ending?.resume()
  }
}

/// Runs the steps of a task that has a turn. The turn is what the queue's limit counts, so the steps go straight to GCD.
final class TurnExecutor: TaskExecutor {
  private let queue: OwnerScopedQueue
  private let dispatchQueue: DispatchQueue
  private let turn: QueueTurn
  /// Steps run on threads of GCD's default pool.
  private let hasPlainThreads: Bool
  /// Changed by the first enqueueing, which comes before all others: they are made by what it begins.
  nonisolated(unsafe) private var keepsNextStep: Bool

  /// - Parameter keepsFirstStep: whether the first step that is enqueued waits for the turn.
  init(queue: OwnerScopedQueue, _ turn: QueueTurn, keepsFirstStep: Bool) {
    self.queue = queue
    self.turn = turn
    keepsNextStep = keepsFirstStep
    let (underlyingQueue, qualityOfService) = queue.core.read { ($0.underlyingQueue, $0.qualityOfService) }
    dispatchQueue = underlyingQueue ?? DispatchQueue.global(qos: qualityOfService.dispatchQoS.qosClass)
    hasPlainThreads = underlyingQueue == nil && qualityOfService == .default
  }

  /// Whether this thread, which runs the caller's task, is as good for the first step as those that steps are enqueued for.
  ///
  /// It has to be of the same pool, and nobody but the caller may want it back. And it must not be inside of other work of a queue's, which
  /// would make the stack deep.
  var mayBeginOnThisThread: Bool {
    Platform.runsTasksWhereThreadsMayBlock && hasPlainThreads && queue.driver == nil && ThreadSlot.queue.pointer == nil
      && withUnsafeCurrentTask { $0?.unownedTaskExecutor == nil }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let step = UnownedJob(job)
    if keepsNextStep {
      keepsNextStep = false
      if turn.keep(step, for: self) { return }
    }
    start(step)
  }

  fileprivate func start(_ step: UnownedJob) {
    if let driver = queue.driver {
      let drivenStep = queue.taskStep(of: ObjectIdentifier(turn)) { [self] in
        ThreadSlot.queue.with(queue) { runStep(step) }
      }
      return driver.add(drivenStep)
    }
    dispatchQueue.async { [self] in
      ThreadSlot.queue.with(queue) { runStep(step) }
    }
  }
}
