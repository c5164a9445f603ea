/// Asking the operations that nobody announces; see `WatchedOperations`.
extension QueueCore {
  private static let operationsPerHold = 64

  // MARK: Watching

  /// The item's operation says itself that it is not ready.
  func holdBack(_ operation: OwnedOperation, at level: Int) {
    let isHeldBack = operation.holdBack()
    let now = Uptime.now
    mutate { scheduler, followUp in scheduler.holdBack(operation, at: level, isHeldBack: isHeldBack, now: now, &followUp) }
  }

  /// Any thread: the operation may answer otherwise from now on.
  func operationMayHaveBecomeReady(_ operation: OwnedOperation) {
    let now = Uptime.now
    mutate { scheduler, followUp in
      guard let place = scheduler.operations.place(of: operation), scheduler.operations[place].watchList != .none else { return }
      scheduler.hurry(operation, now: now, &followUp)
    }
  }

  // MARK: Asking

  /// A round. On the timer's thread.
  func askWatched() {
    let start = Uptime.now
    beginQuestions()
    let (urgent, sinceLastChange) = note { ($0.watched.takeUrgent(), start - min(start, $0.watched.lastChange)) }
    for operation in urgent { ask(operation) }
    let share = ReadinessPace.share(sinceLastChange: sinceLastChange)
    ask(.held, share)
    ask(.blocked, share)
    let now = Uptime.now
    let interval = note { $0.watched.endRound(begunAt: start, now: now) }
    if let interval { ask(noLaterThan: now + interval) }
  }

  private func ask(_ list: WatchedOperations.List, _ share: ReadinessPace.Share) {
    let end = Uptime.now + share.time
    let count = read { $0.watched.count(list) }
    var asked = 0
    while asked < count, asked < share.turns || Uptime.now < end {
      let operations = note { $0.watched.next(min(count - asked, Self.operationsPerHold), of: list) }
      guard !operations.isEmpty else { return }
      asked += operations.count
      for operation in operations { ask(operation) }
    }
  }

  private func ask(_ operation: OwnedOperation) {
    let word = operation.load()
    if word.phase == .pending, !word.isReady {
      if operation.noticeReadiness() { noteChange() }
      return
    }
    guard word.phase != .pending || operation.answersReady else { return }
    if operation.announceAgain() {
      noteChange()
      operationDidBecomeReady(operation)
      return
    }
    // It has been started, or is blocked again; who unblocks it makes the item.
    note { scheduler in
      guard let place = scheduler.operations.place(of: operation), !operation.isWatched else { return }
      scheduler.unwatch(place)
    }
  }

  private func noteChange() {
    let now = Uptime.now
    note { $0.watched.noteChange(now) }
  }
}
