/// A task that waits, for whoever sees to what it waits for.
///
/// To resume a task is to hand it to its executor, which may be the user's, and may block: one with a mailbox that is full, for example.
/// Whoever resumes it has other things in hand, work that was taken and others who wait. So a task that prefers an executor that isn't this
/// package's is resumed in the background. All others are handed to the system, or to a queue, at once.
///
/// What remains: the runtime has a lock for each task, under which it calls the task's cancellation handlers, and which it takes to resume
/// the task. Whoever resumes a task that is being cancelled waits for its handlers.
package struct SuspendedTask<Value: Sendable, Failure: Error>: Sendable {
  private let continuation: CheckedContinuation<Value, Failure>
  /// Of the user's.
  private let executor: UnownedTaskExecutor?

  /// In the task, as it is suspended, and under no lock: this may take the one that the task's cancellation handlers are called under.
  package init(_ continuation: CheckedContinuation<Value, Failure>) {
    self.continuation = continuation
    executor = withUnsafeCurrentTask { $0?.unownedTaskExecutor }.flatMap { OwnTaskStep.isOne(of: $0) ? nil : $0 }
  }

  var executorMayBlock: Bool { executor != nil }

  /// Once. Any thread; calls nothing of the user's.
  package func resume(with result: Result<Value, Failure>) {
    guard let executor else { return continuation.resume(with: result) }
    ExecutorLine.add(for: executor) { continuation.resume(with: result) }
  }

  package func resume(returning value: Value) { resume(with: .success(value)) }
}

extension SuspendedTask where Value == Void {
  package func resume() { resume(returning: ()) }
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

// MARK: Executors of the user's

/// Hands tasks to one of the user's executors, in the background, one after the other. While it blocks it has one thread, however many of
/// its tasks are to go on.
private enum ExecutorLine {
  private typealias Key = Int
  typealias Resumption = @Sendable () -> Void

  /// For each executor that has a line, what its thread has not taken yet.
  private static let lines = Locked<[Key: [Resumption]]>([:])

  static func add(for executor: UnownedTaskExecutor, _ resumption: @escaping Resumption) {
    // Where the object is, which is there as long as it has tasks that wait; and then how to call it.
    let key = unsafeBitCast(executor, to: (Key, Int).self).0
    let hasThread = lines.withLock { lines in
      guard lines[key] != nil else {
        lines[key] = []
        return false
      }
      lines[key]?.append(resumption)
      return true
    }
    if hasThread { return }
    DeferredCalls.add {
      resumption()
      while let more = takeMore(key) { for resumption in more { resumption() } }
    }
  }

  private static func takeMore(_ key: Key) -> [Resumption]? {
    lines.withLock { lines in
      guard let more = lines[key], !more.isEmpty else {
        lines[key] = nil
        return nil
      }
      lines[key] = []
      return more
    }
  }
}
