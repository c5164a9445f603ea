import Dispatch

/// Finishing an owner's work before it goes.
extension OwnerLifetime {
  /// Waits until the owner's work in the queue is done, or the time is up, and then ends the owner.
  ///
  /// ```swift
  /// let queue = OwnerScopedQueue()
  /// let upload = OwnerLifetime(name: "upload")
  /// queue.async(lifetime: upload) { print("the last part") }
  /// let isDone = await upload.drain(on: queue, timeout: .seconds(5))
  /// print(isDone, upload.isAlive)  // true false
  /// ```
  ///
  /// What is added meanwhile, by the work itself or by anybody else, is waited for as well. An owner that is given work again and again is
  /// drained when there is none for a moment, or by the time-out. What is added between that moment and the end, right after it, never
  /// begins. Nor does what is added later. Work of the owner that is suspended is waited for like any other.
  ///
  /// When the time is up the owner ends with what is left. Pending work never begins, tasks are cancelled, and bodies that run are not
  /// waited for. So it does when the calling task is cancelled. From inside work of the owner in this queue, it is drained when nothing is
  /// left but work that waits for the same.
  /// - Parameters:
  ///   - queue: whose work of the owner is waited for. To drain several, wait for the others with ``OwnerScopedQueue/finished(ownedBy:)``
  ///     first.
  ///   - timeout: how long to wait at most. By default without an end. Nothing is waited for if it isn't positive.
  /// - Returns: whether everything was done. False if the time was up, the task was cancelled, or the owner had ended before. Of several
  ///   drains of one owner at a time, the first may end it before the others have looked.
  /// - Precondition: it is not ``process``, which never ends.
  /// - Complexity: beside the wait, linear in the queue's workers and barriers.
  @discardableResult
  public func drain(on queue: OwnerScopedQueue, timeout: Duration? = nil) async -> Bool {
    precondition(
      self !== OwnerLifetime.process,
      "OwnerLifetime.process can't be drained, because it never ends; wait with queue.finished(ownedBy:), or drain a lifetime of your own")
    guard isAlive else { return false }
    if let timeout, timeout <= .zero {
      defer { end() }
      return queue.operationCount(ownedBy: self) == 0
    }
    let outcome = DrainOutcome()
    let timer = queue.driver == nil ? timeout.map { outcome.settle(after: $0) } : nil
    if let timeout, let driver = queue.driver { driver.add(outcome.driven(), after: timeout) }
    let operation = OperationTask.current?.operation
    return await WaitTarget.work(of: queue, ownedBy: self).whileWaiting {
      queue.insert(outcome, for: self, inside: operation)
      let isDone = await withTaskCancellationHandler {
        await outcome.settled()
      } onCancel: {
        outcome.settle(false)
      }
      timer?.cancel()
      if !isDone { queue.remove(outcome, for: self) }
      // Not after the wait: a task gets its permit back there, and who has it may be over only when the owner ends.
      let hasEndedBefore = !isAlive
      end()
      return isDone && !hasEndedBefore
    }
  }
}

extension OwnerScopedQueue {
  fileprivate func insert(_ outcome: DrainOutcome, for lifetime: OwnerLifetime, inside operation: OwnedOperation?) {
    core.mutate { scheduler, _ in scheduler.insert(.drain(outcome), for: lifetime, inside: operation.flatMap { scheduler.asWaiting($0) }) }
  }

  fileprivate func remove(_ outcome: DrainOutcome, for lifetime: OwnerLifetime) {
    core.mutate { scheduler, _ in scheduler.remove(outcome, for: lifetime) }
  }
}
