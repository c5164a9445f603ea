import Foundation

/// What runs operations: a queue of ours.
protocol OperationScheduler: AnyObject, Sendable {
  /// An operation that was attached blocked has become ready. Any thread, outside locks; once for each time the scheduler found it blocked.
  func operationDidBecomeReady(_ operation: OwnedOperation)

  /// The work is about to run. Once at most for each operation attached, before its finish; under the operation's lock.
  func operationDidBegin()

  /// `isFinished` is visible and dependents have been released. Once for each operation attached, before its completion block; any thread.
  func operationDidFinish(_ operation: OwnedOperation)

  /// Any thread, outside locks.
  func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority)
}

extension OwnedOperation {
  enum AttachResult {
    /// May be started at once.
    case ready
    /// `operationDidBecomeReady` will tell.
    case blocked
    /// Attached already, started, or finished.
    case refused(OwnedOperationError)
  }

  /// Gives the operation to a scheduler, which it keeps until it has finished. From now on a cancellation of work that has not started finishes it at once.
  ///
  /// A cancelled operation that has not finished can be attached; it is ready, and its `start()` finishes it.
  func attach(to scheduler: any OperationScheduler) -> AttachResult {
    var refusal: OwnedOperationError?
    let before = settled()
    if before.phase == .pending, before.isCancelled, before.reason == .ownerEnded, !before.contains(.attached),
      !before.contains(.wasStarted)
    {
      // Whether the reaper has come by yet or not.
      return .refused(.ownerEnded(operation: label, owner: ownerID))
    }
    lock.lock()
    let isFree = !load().contains(.attached) && self.scheduler == nil
    if isFree { self.scheduler = scheduler }
    lock.unlock()
    let change =
      !isFree
      ? nil
      : update { word in
        guard word.phase == .pending, !word.contains(.wasStarted), !word.contains(.finishClaimed) else { return nil }
        var new = word
        new.insert(.attached)
        if word.isReady { new.insert(.announced) }
        return new
      }
    if let change { return change.new.isReady ? .ready : .blocked }
    if isFree { lock.withLock { self.scheduler = nil } }
    let word = load()
    if word.phase == .executing {
      refusal = .alreadyExecuting(label)
    } else if word.isFinished || word.contains(.finishClaimed) {
      let isForEndedOwner = word.isCancelled && word.reason == .ownerEnded && !word.contains(.wasStarted)
      refusal = isForEndedOwner ? .ownerEnded(operation: label, owner: ownerID) : .alreadyFinished(label)
    }
    return .refused(refusal ?? .alreadyEnqueued(label))
  }

  /// Takes back `attach`, for a call that turns out to be refused as a whole. Does nothing once the operation has started or been finished.
  func detach() {
    let change = update { word in
      guard word.phase == .pending, word.contains(.attached), !word.contains(.finishClaimed), !word.contains(.wasStarted) else {
        return nil
      }
      var new = word
      new.remove([.attached, .announced])
      return new
    }
    guard change != nil else { return }
    var former: (any OperationScheduler)?
    lock.withLock { swap(&former, &scheduler) }
  }

  /// `start()`, for the scheduler, unless a dependency was added after the operation had become ready.
  ///
  /// Claims the start by clearing `announced`, so that of several records of one operation one starts it.
  /// - Returns: false if it was not started here: another has claimed it, or it is blocked again; then `operationDidBecomeReady` will tell.
  func startIfReady() -> Bool {
    let claim = update { word in
      guard word.phase == .pending, word.contains(.announced) else { return nil }
      var new = word
      new.remove(.announced)
      return new
    }
    guard let claim, claim.new.isReady else { return false }
    start()
    return true
  }
}
