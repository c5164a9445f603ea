import Foundation

/// An owned operation whose work is asynchronous: a task, cancelled with the operation.
///
/// ```swift
/// final class Download: OwnedAsyncOperation, @unchecked Sendable {
///   override func run() async throws { try await Task.sleep(for: .seconds(1)) }
/// }
/// ```
///
/// The operation is executing until ``run()`` returns or throws. When it is cancelled (by hand, by the end of the owner or by its timeout),
/// so is the task. It finishes when `run()` has come to its end.
open class OwnedAsyncOperation: OwnedOperation, @unchecked Sendable {  // `task` is guarded by the operation's lock
  private final var task: Task<Void, Never>?

  /// The work, in a task whose priority follows the operation's quality of service. What it throws is the outcome.
  open func run() async throws {}

  /// True: the operation finishes when its task has returned.
  public final override var isAsynchronous: Bool { true }

  /// Begins the task, and returns. Called by whoever starts the operation; override ``run()``.
  public final override func perform() throws {
    begin { [self] in try await run() }
  }

  final func begin(_ work: @escaping @Sendable () async throws -> Void) {
    let new = Task(executorPreference: drivenExecutor, priority: TaskPriority(qualityOfService)) { [self] in
      do {
        if mayBeginInTask { try await runInTask(work) }
        finish()
      } catch {
        finish(throwing: error)
      }
    }
    lock.withLock { if !load().contains(.finishClaimed) { task = new } }
    // A cancellation that came before the task was there to be cancelled.
    if isCancelled { new.cancel() }
  }

  override func releaseWork() {
    var former: Task<Void, Never>?
    lock.withLock { swap(&former, &task) }
    if let task = former.take() { DeferredReleases.add(consume task) }
  }

  override func cancelWork() { lock.withLock { task }?.cancel() }
  override var finishesOnTimeout: Bool { false }
}

extension TaskPriority {
  init?(_ quality: QualityOfService) {
    switch quality {
    case .userInteractive, .userInitiated: self = .userInitiated
    case .utility: self = .utility
    case .background: self = .background
    default: return nil
    }
  }
}
