import Foundation

/// Tasks that belong to an owner.
extension OwnerLifetime {
  /// Runs the body in a task that is cancelled when the owner ends. If the owner ends before the body has begun, it never begins.
  ///
  /// ```swift
  /// let session = OwnerLifetime(name: "session")
  /// let greeting = session.task {
  ///   try await Task.sleep(for: .milliseconds(1))
  ///   return "hello"
  /// }
  /// print(try await greeting.value)
  /// ```
  ///
  /// `end()` marks the owner's tasks in constant time. They are cancelled right after it, in the background. A body that answers its
  /// cancellation is over soon. Nobody waits for one that doesn't. What the body captured goes with the task. The owner isn't held: the
  /// body must not capture it.
  ///
  /// With a queue, the task waits for its turn there, and has one permit of that queue for its life, as with
  /// ``OwnerScopedQueue/run(lifetime:priority:_:)``. Once it is cancelled, its remaining steps need none: neither limits nor suspensions
  /// keep it from coming to its end.
  /// - Parameters:
  ///   - priority: of the task, and among what is ready in the queue. By default that of the caller.
  ///   - queue: runs the body's steps, and counts the task as one operation of the owner. By default the global executor.
  ///   - body: inherits the task-local values of the caller.
  /// - Returns: the task, which may be awaited or cancelled. It throws what the body throws, and `CancellationError` if the owner ended, or
  ///   the task was cancelled before the body had begun.
  /// - Complexity: constant.
  @discardableResult
  public func task<Success: Sendable>(
    priority: TaskPriority? = nil, on queue: OwnerScopedQueue? = nil, _ body: @escaping @Sendable () async throws -> Success
  ) -> Task<Success, any Error> {
    // A place in the queue's order, and a part of the owner's work, from now on.
    let place = queue.map { ($0, $0.addTurn(lifetime: self, priority: .init(priority ?? Task.currentPriority))) }
    let cancellation = TaskCancellation()
    let endCall = LifetimeEndCall(self) {
      // Handlers of a cancellation are the user's.
      DeferredCalls.add { cancellation.cancel() }
    }
    // Its first step, too, goes where the queue's turns do: the place that it has must not wait for a thread of Swift's pool.
    let executor = place.map { TurnExecutor(queue: $0.0, $0.1, keepsFirstStep: false) }
    let task = Task(executorPreference: executor, priority: priority) { [self] in
      defer { endCall.leave() }
      // The load of the lifetime comes last, and decides.
      guard !Task.isCancelled, isAlive else {
        place?.1.giveUp()
        throw CancellationError()
      }
      if let (queue, turn) = place { return try await queue.run(turn, body) }
      let value = try await body()
      guard isAlive else { throw CancellationError() }
      return value
    }
    cancellation.set { task.cancel() }
    if !endCall.join() { task.cancel() }
    return task
  }
}

/// Cancels a task, which may be known later than that it is to be cancelled.
private final class TaskCancellation: Sendable {
  private let state = Locked(State())

  private struct State {
    var isCancelled = false
    var action: (@Sendable () -> Void)?
  }

  /// Once.
  func set(_ action: @escaping @Sendable () -> Void) {
    let isLate = state.withLock { state in
      if !state.isCancelled { state.action = action }
      return state.isCancelled
    }
    if isLate { action() }
  }

  func cancel() {
    let action = state.withLock { state in
      state.isCancelled = true
      return state.action.take()
    }
    action?()
  }
}
