import Foundation

/// What runs operations: a queue of ours.
protocol OperationScheduler: AnyObject, Sendable {
  /// Runs its work in place of threads; nil for all but users' tests.
  var driver: (any QueueDriver)? { get }
  /// Whether the driver chooses among its work.
  var isShuffled: Bool { get }

  /// An operation that was attached blocked has become ready. Any thread, outside locks; once for each time the scheduler found it blocked.
  func operationDidBecomeReady(_ operation: OwnedOperation)

  /// Somebody asks an operation that holds itself back whether it is ready: its answer may have changed. Any thread, outside locks.
  func operationMayHaveBecomeReady(_ operation: OwnedOperation)

  /// The work is about to run. Once at most for each operation attached, before its finish; under the operation's lock.
  func operationDidBegin()

  /// `isFinished` is visible and dependents have been released, but for those that are observed beforehand. Once for each operation
  /// attached, before its completion block; any thread.
  /// - Returns: whether this thread has begun the operation for the scheduler, which lets go of it when the start has returned. From now on
  ///   the scheduler has no other reference to it.
  func operationDidFinish(_ operation: OwnedOperation) -> Bool

  /// Whether some of its work may have to wait for all that was added before. Any thread, outside locks.
  var hasBarriers: Bool { get }

  /// Whether it has work, yet to begin, that may get the object that the hold is about. Also true if a job of it waits: nobody knows for
  /// what. The work that asks doesn't count. May be asked by any thread, outside locks.
  func mayHaveWorkToBegin(ofOwnerIn hold: OwnerHold) -> Bool

  /// Nil if there are more. Any thread, outside locks.
  func unfinishedOperations(ownedBy lifetime: OwnerLifetime?, atMost limit: Int) -> [OwnedOperation]?

  /// Any thread, outside locks.
  func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority)

  /// The task of the operation, which has begun, waits for work of this scheduler: others may have its permit meanwhile. May wait several
  /// times at once. Any thread; runs no code of the user's. To be followed by `didBeginTaskWait`, outside locks.
  func beginTaskWait(of operation: OwnedOperation)
  func didBeginTaskWait()

  /// One of these waits is over. Returns when the task may go on. Outside locks.
  func endTaskWait(of operation: OwnedOperation) async
  /// One of these waits, of a thread that the task blocks, is over. Returns when the thread may go on. Outside locks.
  func endBlockingTaskWait(of operation: OwnedOperation)
  /// `isTaskCancelled` is true from now on: what the task waits for now is its end. Any thread, outside locks.
  func taskWasCancelled(of operation: OwnedOperation)
}

extension OwnedOperation {
  enum AttachResult {
    /// May be started at once.
    case ready
    /// `operationDidBecomeReady` will tell.
    case blocked
    case refused(Refusal)
  }

  /// Why an operation can't be attached. It may be made under a scheduler's lock. Its text may not, because names are the user's code.
  struct Refusal: CustomStringConvertible {
    enum Reason {
      case ownerEnded, alreadyExecuting, alreadyFinished, alreadyEnqueued
    }

    let operation: OwnedOperation
    let reason: Reason

    /// Outside locks.
    var error: OwnedOperationError {
      switch reason {
      case .ownerEnded: .ownerEnded(operation: operation.label, owner: operation.ownerID)
      case .alreadyExecuting: .alreadyExecuting(operation.label)
      case .alreadyFinished: .alreadyFinished(operation.label)
      case .alreadyEnqueued: .alreadyEnqueued(operation.label)
      }
    }

    /// To be called once, outside locks.
    func settle() {
      if reason == .ownerEnded { operation.settleRefusal() }
    }

    var description: String { error.description }
  }

  /// Gives the operation to a scheduler, which it keeps until it has finished. From now on a cancellation of work that has not started
  /// finishes it at once.
  ///
  /// A cancelled operation that has not finished can be attached. It is ready, and its `start()` finishes it. If the owner has ended, an
  /// operation is refused for that reason, whatever else has become of it, unless it executes. Runs no code of the user's.
  func attach(to scheduler: any OperationScheduler) -> AttachResult {
    // Whether the reaper has come by yet or not.
    if !isOwnerAlive, load().phase != .executing { return .refused(Refusal(operation: self, reason: .ownerEnded)) }
    lock.lock()
    let isFree = !load().contains(.attached) && self.scheduler == nil || Mutation.isAddedTwice.isOn
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
    if let change {
      noteAttachment()
      return change.new.isReady ? .ready : .blocked
    }
    if isFree { lock.withLock { self.scheduler = nil } }
    return .refused(Refusal(operation: self, reason: reasonToRefuse()))
  }

  /// Those who wait for the operation may hold a permit that it needs.
  private func noteAttachment() {
    let waiters = lock.withLock { extras?.waiters ?? [] }
    guard !waiters.isEmpty else { return }
    for waiter in waiters { waiter.targetDidChange() }
    // Not here, under the scheduler's lock: a waiter may have the last reference to an operation of the user's.
    DeferredReleases.add(contentsOf: consume waiters)
  }

  /// Code of the user's has it from now on. Under the scheduler's lock, while it has the operation itself.
  final func noteGivenOut() {
    if Mutation.givenOutIsForgotten.isOn { return }
    word.bitwiseOr(StateWord.Bits.givenOut.rawValue, ordering: .relaxed)
  }

  final var wasGivenOut: Bool { load().contains(.givenOut) }

  private func reasonToRefuse() -> Refusal.Reason {
    let word = load()
    if word.phase == .executing { return .alreadyExecuting }
    if !isOwnerAlive { return .ownerEnded }
    return word.isFinished || word.contains(.finishClaimed) ? .alreadyFinished : .alreadyEnqueued
  }

  /// Nobody will start an operation that is refused for its owner's end. Plain ones that depend on it must hear of its finish all the same.
  ///
  /// The reaper, which comes by later, doesn't hold it. If nobody else does, it would go before that, unfinished.
  final func settleRefusal() {
    noteRefusal()
    if !load().isFinished { DeferredCalls.add { self.lifetimeDidEnd() } }
  }

  /// It may have finished, or be about to: one of the two sees the other's bit, and tells Foundation.
  private func noteRefusal() {
    let before = StateWord(rawValue: word.bitwiseOr(StateWord.Bits.refused.rawValue, ordering: .acquiringAndReleasing).oldValue)
    if before.isFinished, !Mutation.refusalTellsNobody.isOn { tellFoundationOfFinish() }
  }

  /// Takes back `attach`, for a call that turns out to be refused as a whole. An operation that somebody has started meanwhile goes on
  /// without the scheduler.
  /// - Returns: whether the scheduler has been told that its work began. It won't be told of the finish.
  func detach() -> Bool {
    update { word in
      guard word.phase == .pending, word.contains(.attached), !word.contains(.finishClaimed), !word.contains(.wasStarted) else {
        return nil
      }
      var new = word
      if !Mutation.takenBackStaysAttached.isOn { new.remove([.attached, .announced]) }
      return new
    }
    var former: (any OperationScheduler)?
    lock.lock()
    // Under this lock it begins, and tells the scheduler. If it has finished, the scheduler is told, and finds out that it doesn't have the
    // operation any more.
    let hasBegun = didRun
    swap(&former, &scheduler)
    lock.unlock()
    return hasBegun
  }

  /// `start()`, for the scheduler, unless a dependency was added after the operation had become ready.
  ///
  /// Claims the start by clearing `announced`, so that of several items of one operation one starts it.
  /// - Returns: false if it was not started here. Another has claimed it, or it is blocked again; then `operationDidBecomeReady` will tell.
  func startIfReady() -> Bool {
    let claim = update { word in
      guard word.phase == .pending, word.contains(.announced) else { return nil }
      var new = word
      new.remove([.announced, .watched])
      if new.isReady { new.insert(.startClaimed) }
      return new
    }
    guard let claim, claim.new.isReady || Mutation.startsBlocked.isOn else { return false }
    start()
    return true
  }

  /// Instead of `startIfReady`, for an operation that says itself that it is not ready.
  /// - Returns: whether it is to be asked again. If not, it has been claimed, or is blocked; then `operationDidBecomeReady` will tell.
  func holdBack() -> Bool {
    let claim = update { word in
      guard word.phase == .pending, word.contains(.announced) else { return nil }
      var new = word
      new.remove(.announced)
      if new.isReady { new.insert(.watched) }
      return new
    }
    return claim?.new.isReady ?? false
  }

  /// Takes back `holdBack`.
  /// - Returns: whether it is ready, and the caller has to take it for announced.
  func announceAgain() -> Bool {
    let change = update { word in
      guard word.phase == .pending, word.contains(.watched), word.contains(.attached) else { return nil }
      var new = word
      new.remove(.watched)
      if new.isReady { new.insert(.announced) }
      return new
    }
    return change?.turned(.announced) ?? false
  }
}
