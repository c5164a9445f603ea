/// A task that waits, for whoever sees to what it waits for.
///
/// To resume a task is to hand it to its executor, which may be the user's, and may block: one with a mailbox that is full, for example.
/// Whoever resumes it has other things in hand, work that was taken and others who wait. So a task that prefers an executor that isn't this
/// package's is resumed in the background, where one that blocks holds up no other. All others are handed to the system, or to a queue, at
/// once.
///
/// The runtime has a lock for each task, under which it calls the task's cancellation handlers, and which it takes to resume the task. So
/// whoever resumes a task that is being cancelled waits for its handlers. A handler of ours that may resume tasks does that in the
/// background, too (`CancellationHandler`). What remains is what others do in theirs.
package struct SuspendedTask<Value: Sendable, Failure: Error>: Sendable {
  private let continuation: CheckedContinuation<Value, Failure>
  let executorMayBlock: Bool

  /// In the task, as it is suspended, and under no lock: this may take the one that the task's cancellation handlers are called under.
  package init(_ continuation: CheckedContinuation<Value, Failure>) {
    self.continuation = continuation
    executorMayBlock = withUnsafeCurrentTask { $0?.unownedTaskExecutor }.map { !OwnTaskStep.isOne(of: $0) } ?? false
  }

  /// Once. Any thread; calls nothing of the user's.
  package func resume(with result: Result<Value, Failure>) {
    guard executorMayBlock || CancellationHandler.isOnThisThread else { return continuation.resume(with: result) }
    DeferredCalls.resume { continuation.resume(with: result) }
  }

  package func resume(returning value: Value) { resume(with: .success(value)) }
}

extension SuspendedTask where Value == Void {
  package func resume() { resume(returning: ()) }
}

/// What this package does where a task is cancelled, if it may resume other tasks.
///
/// The runtime calls it under a lock of that task. Of two that are cancelled at a time, and resume each other there, each would wait for
/// the other's lock for ever.
package enum CancellationHandler {
  package static func run(_ body: () -> Void) {
    let slot = ThreadSlot.cancellationHandler
    let outer = slot.pointer
    slot.pointer = UnsafeMutableRawPointer(bitPattern: 1)  // a mark, no more
    defer { slot.pointer = outer }
    body()
  }

  static var isOnThisThread: Bool { ThreadSlot.cancellationHandler.pointer != nil }
}

// MARK: Steps for executors of this package

extension TaskExecutor {
  /// Runs a step of a task that prefers this executor, which is this package's, on this thread.
  package func runStep(_ step: UnownedJob) {
    let executor = asUnownedTaskExecutor()
    OwnTaskStep.with(executor) { step.runSynchronously(on: executor) }
  }
}

/// For which executor of this package the thread runs a step.
enum OwnTaskStep {
  static func with<Result>(_ executor: UnownedTaskExecutor, _ body: () -> Result) -> Result {
    var executor = executor
    return withUnsafeMutablePointer(to: &executor) { pointer in
      let outer = ThreadSlot.taskStep.pointer
      ThreadSlot.taskStep.pointer = UnsafeMutableRawPointer(pointer)
      defer { ThreadSlot.taskStep.pointer = outer }
      return body()
    }
  }

  /// Whether it is the one for which the thread runs a step.
  static func isOne(of executor: UnownedTaskExecutor) -> Bool {
    ThreadSlot.taskStep.pointer.map { $0.assumingMemoryBound(to: UnownedTaskExecutor.self).pointee == executor } ?? false
  }
}
