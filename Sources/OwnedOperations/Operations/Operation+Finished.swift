import Foundation

extension Operation {
  /// Returns when the operation has finished, ours or plain, in whatever queue or in none. It is not started by this.
  ///
  /// Cancelling the task that waits only stops the wait: then this returns early, and `isFinished` may be false.
  public final func finished() async {
    if let owned = self as? OwnedOperation {
      // The only error is that the task was cancelled.
      try? await owned.finishedUnlessCancelled()
      return
    }
    guard !isFinished else { return }
    let waiter = WaitingTask()
    let sentinel = FinishSentinel(of: self) { waiter.wake() }
    await WaitTarget.plainOperation(self).whileWaiting {
      await withTaskCancellationHandler {
        sentinel.arm()
        try? await withCheckedThrowingContinuation { waiter.install($0) }
      } onCancel: {
        waiter.cancel()
      }
    }
    // An armed sentinel has to be kept until it has told, or is told not to.
    sentinel.disarm()
  }
}
