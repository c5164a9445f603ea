import Foundation

/// Somebody who waits for an operation to finish.
class OperationWaiter: @unchecked Sendable {  // subclasses guard what they keep
  func wake() {}
}

private final class WaitingThread: OperationWaiter, @unchecked Sendable {  // a semaphore may be used from any thread
  private let semaphore = DispatchSemaphore(value: 0)

  override func wake() { semaphore.signal() }
  func wait() { semaphore.wait() }
  func wait(milliseconds: Int) { _ = semaphore.wait(timeout: .now() + .milliseconds(milliseconds)) }
}

/// A task that waits. Its continuation is resumed once, by the finish or by the task's cancellation, whichever comes first.
private final class WaitingTask: OperationWaiter, @unchecked Sendable {  // `continuation` and `result` are guarded by `lock`
  private let lock = Lock()
  private var continuation: CheckedContinuation<Void, any Error>?
  private var result: Result<Void, any Error>?

  override func wake() { settle(.success(())) }
  func cancel() { settle(.failure(CancellationError())) }

  func install(_ new: CheckedContinuation<Void, any Error>) {
    let early = lock.withLock {
      if result == nil { continuation = new }
      return result
    }
    if let early { new.resume(with: early) }
  }

  private func settle(_ result: Result<Void, any Error>) {
    let waiting = lock.withLock { () -> CheckedContinuation<Void, any Error>? in
      guard self.result == nil else { return nil }
      self.result = result
      defer { continuation = nil }
      return continuation
    }
    waiting?.resume(with: result)
  }
}

extension OwnedOperation {
  final func blockUntilFinished() {
    guard !load().isFinished else {
      waitUntilFoundationWasTold()
      return
    }
    guard !OperationThread.isInside(self) else {
      OperationReport.report(.waitingForItself(label))
      return
    }
    let waiter = WaitingThread()
    guard addWaiter(waiter) else { return }
    BlockingRegion.perform { waiter.wait() }
  }

  /// Returns when the operation has finished.
  /// - Throws: `CancellationError` when the task that waits is cancelled.
  final func finished() async throws {
    let waiter = WaitingTask()
    guard addWaiter(waiter) else { return }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { waiter.install($0) }
    } onCancel: {
      removeWaiter(waiter)
      waiter.cancel()
    }
  }

  /// - Returns: false if the operation has finished.
  private func addWaiter(_ waiter: OperationWaiter) -> Bool {
    lock.withLock {
      guard !load().isFinished else { return false }
      makeExtras().waiters.append(waiter)
      return true
    }
  }

  private func removeWaiter(_ waiter: OperationWaiter) {
    lock.withLock { extras?.waiters.removeAll { $0 === waiter } }
  }

  final func wakeWaiters() {
    var waiters: [OperationWaiter] = []
    lock.withLock { if let extras { swap(&waiters, &extras.waiters) } }
    for waiter in waiters { waiter.wake() }
  }

  /// Keeps `OperationQueue.waitUntilAllOperationsAreFinished` from spinning on an operation that has finished because its owner ended, and which the (suspended) queue has
  /// yet to start: such a queue asks again and again.
  private func waitUntilFoundationWasTold() {
    let word = load()
    guard word.contains(.readinessWasRead), !word.contains(.foundationWasTold), !word.contains(.attached), !word.contains(.wasStarted)
    else { return }
    let waiter = WaitingThread()
    let waits = lock.withLock {
      guard !load().contains(.foundationWasTold) else { return false }
      makeExtras().waiters.append(waiter)
      return true
    }
    guard waits else { return }
    BlockingRegion.perform { waiter.wait(milliseconds: 1) }
    removeWaiter(waiter)
  }
}
