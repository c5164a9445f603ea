import Foundation

/// Somebody who waits for an operation to finish.
protocol OperationWaiter: AnyObject, Sendable {
  func wake()
  /// What the wait leads to may have changed: the operation was added to a queue, or its body waits.
  /// May be called under a scheduler's lock.
  func targetDidChange()
}

/// A task that waits. Its continuation is resumed once, by the finish or by the task's cancellation, whichever comes first.
final class WaitingTask: OperationWaiter {
  private struct State {
    var task: SuspendedTask<Void, any Error>?
    var result: Result<Void, any Error>?
    /// If the task holds what its target may need.
    var watched: WatchedWait?
  }

  private let state = Locked(State())

  func wake() { settle(.success(())) }
  func cancel() { settle(.failure(CancellationError())) }

  func tell(_ wait: WatchedWait) { state.withLock { $0.watched = wait } }

  func targetDidChange() {
    guard let watched = state.withLock({ $0.watched }) else { return }
    // A look takes the scheduler's lock.
    if let driver = watched.driver {
      driver.add(watched.drivenLook)
    } else {
      ThreadStart.onPool(qos: .default) { [watched] in watched.look() }
    }
    DeferredReleases.add(consume watched)  // not here, under the scheduler's lock: it may have the last reference to an operation
  }

  /// In the task.
  func install(_ continuation: CheckedContinuation<Void, any Error>) {
    let task = SuspendedTask(continuation)
    let early = state.withLock { state in
      if state.result == nil { state.task = task }
      return state.result
    }
    if let early { continuation.resume(with: early) }
  }

  private func settle(_ result: Result<Void, any Error>) {
    let waiting = state.withLock { state -> SuspendedTask<Void, any Error>? in
      guard state.result == nil else { return nil }
      state.result = result
      return state.task.take()
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
    BlockingRegion.perform(for: .operation(self), waiter)
  }

  /// Returns when the operation has finished.
  /// - Throws: `CancellationError` when the task that waits is cancelled.
  final func finishedUnlessCancelled() async throws {
    let waiter = WaitingTask()
    guard addWaiter(waiter) else { return }
    try await WaitTarget.operation(self).whileWaiting(toldBy: waiter) {
      try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { waiter.install($0) }
      } onCancel: {
        removeWaiter(waiter)
        waiter.cancel()
      }
    }
  }

  /// - Returns: false if the operation has finished.
  final func addWaiter(_ waiter: any OperationWaiter) -> Bool {
    let hadFinished = load().isFinished
    return lock.withLock {
      guard !(Mutation.waiterLooksTooEarly.isOn ? hadFinished : load().isFinished) else { return false }
      makeExtras().waiters.append(waiter)
      return true
    }
  }

  final func removeWaiter(_ waiter: any OperationWaiter) {
    lock.withLock { extras?.waiters.removeAll { $0 === waiter } }
  }

  final func wakeWaiters() {
    var waiters: [any OperationWaiter] = []
    lock.withLock { if let extras { swap(&waiters, &extras.waiters) } }
    for waiter in waiters { waiter.wake() }
  }

  /// Keeps `OperationQueue.waitUntilAllOperationsAreFinished` from spinning. It would spin on an operation that its owner's end has
  /// finished, and that the (suspended) queue has yet to start. Such a queue asks again and again.
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
    _ = waiter.wait(for: .milliseconds(1))
    removeWaiter(waiter)
  }
}
