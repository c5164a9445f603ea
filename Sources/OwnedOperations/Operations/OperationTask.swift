/// The task of an asynchronous operation, and whatever tasks that one makes: they may outlive the operation.
final class OperationTask: Sendable {
  @TaskLocal static var current: OperationTask?

  /// Where the operation is; nil if it was started by hand.
  let scheduler: (any OperationScheduler)?
  /// Others may still have the task when the operation has gone.
  private let reference: MemoryReference
  /// The body that holds its owner and that this task runs, or was made by.
  let body: AsyncBody?

  /// - Parameter body: of the operation, if that holds its owner.
  init(_ operation: OwnedOperation, _ body: AsyncBody? = nil) {
    reference = MemoryReference(operation)
    scheduler = operation.lock.withLock { operation.scheduler }
    self.body = body ?? Self.current?.body
  }

  /// Nil when it has finished.
  var operation: OwnedOperation? {
    guard let operation = reference.retained() as? OwnedOperation, !operation.load().isFinished else { return nil }
    return operation
  }

  /// - Returns: what has yet to look, for the first time and again; nil if this is no task of an operation.
  static func beginWait(for target: WaitTarget) -> TaskWait? {
    guard let current, let operation = current.operation else { return nil }
    let wait = TaskWait(operation, current.scheduler, target)
    operation.setCurrentWait(target, of: wait)
    return wait
  }
}

/// A wait in the task of an operation. While it is for work of the operation's own scheduler, others may have the operation's permit.
///
/// One state: watching, yielded, over; see `WatchedWait`. `look` and `end` may meet: the scheduler hears of the
/// beginning under the state's lock, and of the end after it.
final class TaskWait: Sendable {
  private enum State {
    case watching, yielded, over
  }

  private let operation: OwnedOperation
  private let scheduler: (any OperationScheduler)?
  private let target: WaitTarget
  private let state = Locked(State.watching)

  fileprivate init(_ operation: OwnedOperation, _ scheduler: (any OperationScheduler)?, _ target: WaitTarget) {
    (self.operation, self.scheduler, self.target) = (operation, scheduler, target)
  }

  /// Whether to look again. Not if the operation has finished, and its task outlives it.
  var isWatching: Bool { scheduler != nil && !operation.load().isFinished && state.withLock { $0 == .watching } }

  var driver: (any QueueDriver)? { scheduler?.driver }

  func isWait(of other: OwnedOperation) -> Bool { operation === other }

  /// What the target leads to may have changed. Any thread, outside locks.
  func look() {
    guard let scheduler, isWatching, target.includesWork(of: scheduler) else { return }
    let begins = state.withLock { state in
      guard state == .watching || Mutation.taskYieldsTwice.isOn else { return false }
      state = .yielded
      if !Mutation.taskYieldsAfterItsWait.isOn { scheduler.beginTaskWait(of: operation) }
      return true
    }
    if begins, Mutation.taskYieldsAfterItsWait.isOn { scheduler.beginTaskWait(of: operation) }
    if begins { scheduler.didBeginTaskWait() }
  }

  /// Returns when the task may go on.
  func end() async {
    if isOver() { await scheduler?.endTaskWait(of: operation) }
  }

  /// For a task that blocks its thread.
  func endBlocking() {
    if isOver() { scheduler?.endBlockingTaskWait(of: operation) }
  }

  /// - Returns: whether the permit was yielded.
  private func isOver() -> Bool {
    operation.setCurrentWait(nil, of: self)
    return state.withLock { state in
      defer { state = .over }
      return state == .yielded
    }
  }
}

extension OwnedOperation {
  /// After `isTaskCancelled` has become true: a wait of the task that is over asks for a permit no longer.
  final func tellSchedulerOfCancelledTask() {
    guard isAsynchronous, let scheduler = lock.withLock({ scheduler }) else { return }
    scheduler.taskWasCancelled(of: self)
  }

  /// The work of an asynchronous operation, in its task.
  /// - Parameter body: which the work is, if that holds its owner.
  final func runInTask<Result>(
    for body: AsyncBody? = nil, isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await OperationTask.$current.withValue(OperationTask(self, body), operation: work)
  }
}
