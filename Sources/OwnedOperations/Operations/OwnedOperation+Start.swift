import Foundation

extension OwnedOperation {
  private enum StartDecision {
    case run
    /// Cancelled before the start.
    case settle
    case alreadyFinished
    case refused(OwnedOperationError)
  }

  final func beginStart() throws(OwnedOperationError) {
    var isForced = false
    let word = settled()
    if word.phase == .pending, !word.contains(.attached), !word.isCancelled, !word.contains(.wasStarted), !answersReady {
      // A Foundation queue that has made up its mind can't be refused: it would wait for ever.
      isForced = isRunByFoundationQueue
      if !isForced, load().phase == .pending, !isCancelled { throw .notReady(label) }
    }

    var decision = StartDecision.run
    let change = update { word in
      var new = word
      if word.isFinished {
        decision = .alreadyFinished
        guard !word.contains(.wasStarted) else { return nil }
        new.insert(.wasStarted)
      } else if word.contains(.wasStarted) {
        decision = .refused(.alreadyExecuting(label))
        return nil
      } else if word.isCancelled {
        decision = .settle
        new.insert([.wasStarted, .wantsFinish, .cancelClaimed])
        if word.contains(.workReleased) { new.insert(.finishClaimed) }
      } else if !word.isReady, !isForced, !word.contains(.startClaimed) {
        decision = .refused(.notReady(label))
        return nil
      } else {
        decision = .run
        new.insert(.wasStarted)
        new.phase = .executing
      }
      return new
    }
    switch decision {
    case .run: if let change { run(after: change) }
    case .settle: if let change { settleStart(change) }
    case .alreadyFinished: tellFoundationOfFinish()
    case .refused(let error): throw error
    }
  }

  /// The word's answer, and that of a subclass that has a condition of its own. For those who don't keep the answer.
  final var answersReady: Bool { OperationThread.run(inside: self, for: .question) { isReady } }

  /// The start is ours; whether the work runs is decided by this one look at the lifetime.
  private func run(after change: StateChange) {
    guard isOwnerAlive || Mutation.startSkipsTheLifetime.isOn else {
      finishExecution(throwing: nil)  // which sees that the owner has ended, and cancels
      letGoOfOwner()
      return
    }
    guard takeOwner() else {
      cancel(.ownerEnded)
      finishExecution(throwing: nil)
      letGoOfOwner()
      return
    }
    let timeout = begin(isAttached: change.new.contains(.attached))
    if change.new.contains(.isObserved) { deliverChanges() }
    tellFoundation(.isExecuting)
    if let timeout { armTimeout(timeout) }
    // Unless somebody has finished it since it was started: an observer, or whoever it belongs to.
    let word = load()
    if !word.contains(.finishClaimed) || word.contains(.tellsOthers) { OperationThread.run(inside: self) { main() } }
    if isAsynchronous {
      if load().contains(.failed) { finishExecution(throwing: nil) }
      return
    }
    bodyIsOver()
    finishExecution(throwing: nil)
    letGoOfOwner()
  }

  /// In the initialiser of a kind whose work tells others that its turn has come. Such work is begun also if the operation has been
  /// finished since the start, because nobody else would tell them.
  package final func setTellsOthers() { word.bitwiseOr(StateWord.Bits.tellsOthers.rawValue, ordering: .relaxed) }

  /// Whether the work may begin that a start has made a task for, which may have waited long for a thread. This look at the lifetime
  /// decides. The operation may have been finished meanwhile; then the owner's end cancels it no more.
  final var mayBeginInTask: Bool {
    let word = settled()
    return !word.isCancelled && !word.contains(.finishClaimed) || Mutation.taskSkipsTheLifetime.isOn
  }

  /// The work has returned; what it captured may still have to go. For kinds that let go of it themselves, and for all at the end.
  final func bodyIsOver() { ThreadSlot.blockingObserver.object(BlockingObserver.self)?.bodyDidEnd(of: self) }

  /// - Returns: the timeout.
  private func begin(isAttached: Bool) -> Duration? {
    lock.lock()
    defer { lock.unlock() }
    // Unless somebody has finished it since it was started: then the scheduler has heard that it ended without having run. (Without a
    // scheduler, and not finished, it has been detached.)
    guard !isAttached || scheduler != nil || !load().isFinished else { return nil }
    scheduler?.operationDidBegin()
    word.bitwiseOr(StateWord.Bits.ran.rawValue, ordering: .relaxed)
    return extras?.timeout
  }

  /// The operation was cancelled before the start. When this returns, it has finished.
  private func settleStart(_ change: StateChange) {
    if change.turned(.cancelClaimed) {
      Aftermath.run { aftermath in processCancellation(&aftermath) }
    } else if change.turned(.finishClaimed) {
      Aftermath.run { aftermath in completeFinish(&aftermath) }
    } else {
      // The handler of the cancellation is just letting go of the work, which takes it no time, and will finish.
      blockUntilFinished()
    }
  }

  /// Keeps the first error of the work.
  final func recordFailure(_ error: any Error) {
    lock.withLock {
      let extras = makeExtras()
      if extras.error == nil { extras.error = error }
    }
    update { word in
      guard !word.isFinished else { return nil }
      var new = word
      new.insert(.failed)
      return new
    }
  }

  private func armTimeout(_ timeout: Duration) {
    if let driver {
      let isNeeded: @Sendable () -> Bool = { [weak self] in self.map { !$0.isFinished } ?? false }
      return driver.add(DrivenCall(.timeout, while: isNeeded) { [weak self] in self?.cancel(.timedOut) }, after: timeout)
    }
    // The timers of others need their thread, which has no reference of its own: it could turn out to be the last.
    let timeoutDidPass: @Sendable () -> Void = { [weak self] in self?.cancel(.timedOut) }
    let timer = OperationTimers.makeTimer(after: timeout) { DeferredCalls.add(timeoutDidPass) }
    let isArmed = lock.withLock {
      guard !load().isFinished || Mutation.timerOutlivesTheFinish.isOn else { return false }
      makeExtras().timer = timer
      return true
    }
    timer.activate()
    if !isArmed { timer.cancel() }
  }
}

/// Timers of operations that have a timeout.
enum OperationTimers {
  /// For tests, too, which hold it.
  static let queue = DispatchQueue(label: "OwnedOperations.timeouts", qos: .userInitiated)

  fileprivate static func makeTimer(after timeout: Duration, _ body: @escaping @Sendable () -> Void) -> UptimeTimer {
    let (seconds, attoseconds) = timeout.components
    let nanoseconds = Double(max(0, seconds)) * 1e9 + Double(max(0, attoseconds)) / 1e9
    let timer = UptimeTimer(on: queue)
    timer.set(Uptime.time(after: .nanoseconds(Int(min(nanoseconds, 9e18)))))
    timer.setHandler(body)
    return timer
  }
}
