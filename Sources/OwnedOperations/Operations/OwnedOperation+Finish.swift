import Foundation

extension OwnedOperation {
  @discardableResult
  final func finishExecution(throwing error: (any Error)?) -> Bool {
    let change = update { word in
      guard word.phase == .executing, !word.contains(.finishClaimed) || Mutation.finishesTwice.isOn else { return nil }
      var new = word
      new.insert(.finishClaimed)
      if error != nil { new.insert(.failed) }
      return new
    }
    guard change != nil else { return false }
    if let error {
      lock.withLock {
        let extras = makeExtras()
        if extras.error == nil { extras.error = error }
      }
    }
    Aftermath.run { aftermath in completeFinish(&aftermath) }
    return true
  }

  /// For the one thread that has turned `finishClaimed`. The order matters: work released, finish visible, dependents released, scheduler
  /// told, Foundation told, waiters woken, completion block handed over, observers told, of the dependents', too. Dependents that are
  /// observed beforehand are released last: see `Aftermath`.
  final func completeFinish(_ aftermath: inout Aftermath) {
    releaseWork()
    let change = update { word in
      var new = word
      if !word.isCancelled, !isOwnerAlive { new.cancel(.ownerEnded) }
      if new.isCancelled { new.insert(.cancelClaimed) }
      new.phase = .finished
      return new
    }
    guard let change else { return }
    unretainedLifetime.with { $0.leave(self) }

    var leftovers = Leftovers()
    lock.withLock { takeLeftovers(into: &leftovers, wasStarted: change.new.contains(.wasStarted)) }
    leftovers.timer?.cancel()
    let failed = change.new.isCancelled || change.new.contains(.failed) ? self : nil
    if let first = leftovers.firstDependent { release(first, failed, &aftermath) }
    for dependent in leftovers.dependents { release(dependent, failed, &aftermath) }
    let isInHand = change.new.contains(.attached) ? leftovers.scheduler?.operationDidFinish(self) ?? false : false
    if change.new.contains(.wasStarted) || change.new.contains(.attached) || change.new.contains(.refused) {
      if mayBeHeardFinishing(change.new, isInHand: isInHand && leftovers.completionBlock == nil) { tellFoundationOfFinish() }
    }
    for waiter in leftovers.waiters { waiter.wake() }
    if change.turned(.cancelClaimed), !Mutation.turnMissesItsLateCancellation.isOn { resumeCancelled() }
    if change.new.contains(.isObserved) { aftermath.announceChanges(of: self) }
    if change.turned(.cancelClaimed) { aftermath.announceCancellation(of: self) }
    if let completionBlock = leftovers.completionBlock { runCompletionBlock(completionBlock, by: leftovers.scheduler?.driver) }
  }

  private struct Leftovers {
    var scheduler: (any OperationScheduler)?
    var firstDependent: DependencyCell?
    var dependents: [DependencyCell] = []
    var waiters: [any OperationWaiter] = []
    var timer: UptimeTimer?
    var completionBlock: (@Sendable () -> Void)?
  }

  /// Under the lock.
  private func takeLeftovers(into leftovers: inout Leftovers, wasStarted: Bool) {
    swap(&leftovers.scheduler, &scheduler)
    swap(&leftovers.firstDependent, &firstDependent)
    guard let extras else { return }
    swap(&leftovers.dependents, &extras.dependents)
    swap(&leftovers.waiters, &extras.waiters)
    swap(&leftovers.timer, &extras.timer)
    swap(&leftovers.completionBlock, &extras.completionBlock)
    // One that has come since the finish may have been run already.
    if leftovers.completionBlock != nil || wasStarted || Mutation.lateCompletionBlockIsForgotten.isOn {
      extras.completionIsOver = leftovers.completionBlock != nil || wasStarted
    }
  }

  private func release(_ cell: DependencyCell, _ failed: Operation?, _ aftermath: inout Aftermath) {
    guard let dependent = cell.resolve(self) else { return }
    // Who wants to hear beforehand is called in the midst of the change. (Who begins to want it just now may hear before others.)
    if dependent.load().contains(.isObservedBeforehand) { return aftermath.release(dependent, failed) }
    dependent.dependencyDidFinish(failed, &aftermath)
    Aftermath.letGo(of: consume dependent)
  }

  // MARK: Completion block

  private func runCompletionBlock(_ block: @escaping @Sendable () -> Void, by driver: (any QueueDriver)? = nil) {
    // As in Foundation, the operation is kept until the block has run.
    if let driver { return driver.add(completionStep(block)) }
    if Mutation.completionBlockRunsWhereItIsDue.isOn { return block() }
    ThreadStart.onPool(qos: .default) { [self] in
      withExtendedLifetime(self) { block() }
    }
  }

  final func setCompletionBlock(_ block: (@Sendable () -> Void)?) {
    var former = block
    let isLate = lock.withLock { () -> Bool in
      guard block != nil || extras != nil else { return false }
      let word = load()
      // Also while the finish is under way, and hasn't come to the block that is there.
      let runsBesideTheFormer = Mutation.completionBlockRunsBesideTheFormer.isOn
      guard word.isFinished, extras?.completionBlock == nil || runsBesideTheFormer else {
        swap(&former, &makeExtras().completionBlock)
        return false
      }
      // After the finish nothing happens, as in Foundation. An exception is a finish without a start, so early that the block could not be
      // there yet.
      let wasRun = word.contains(.wasStarted) && !runsBesideTheFormer || extras?.completionIsOver ?? false
      guard block != nil, !wasRun else { return false }
      makeExtras().completionIsOver = true
      return true
    }
    if isLate, let block { runCompletionBlock(block) }
  }
}
