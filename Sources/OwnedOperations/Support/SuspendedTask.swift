/// A task that waits, for whoever sees to what it waits for.
///
/// To resume a task is to hand it to its executor, which may be the user's, and may block: one with a mailbox that is full, for example.
/// Whoever resumes it has other things in hand, work that was taken and others who wait. So a task with an executor that isn't this
/// package's is resumed in the background, where one that blocks holds up nobody. All others are handed to the system, or to a queue, at
/// once.
package struct SuspendedTask<Value: Sendable, Failure: Error>: Sendable {
  private let continuation: CheckedContinuation<Value, Failure>
  let executorMayBlock: Bool

  /// In the task, as it is suspended.
  package init(_ continuation: CheckedContinuation<Value, Failure>) {
    self.continuation = continuation
    executorMayBlock = ThreadSlot.taskStep.pointer == nil && withUnsafeCurrentTask { $0?.unownedTaskExecutor != nil }
  }

  /// Once. Any thread; calls nothing of the user's.
  package func resume(with result: Result<Value, Failure>) {
    if !executorMayBlock { return continuation.resume(with: result) }
    DeferredCalls.add { continuation.resume(with: result) }
  }

  package func resume(returning value: Value) { resume(with: .success(value)) }
}

extension SuspendedTask where Value == Void {
  package func resume() { resume(returning: ()) }
}

extension TaskExecutor where Self: AnyObject {
  /// Runs a step of a task that prefers this executor, which is this package's, on this thread.
  package func runStep(_ step: UnownedJob) {
    ThreadSlot.taskStep.with(self) { step.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}
