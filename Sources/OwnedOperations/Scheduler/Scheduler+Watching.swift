/// Operations that nobody announces; see `WatchedOperations`.
extension Scheduler {
  /// Plain operations that wait for something are watched.
  mutating func watch(_ operations: [OwnedOperation], now: UInt64, _ followUp: inout FollowUp) {
    guard !operations.isEmpty else { return }
    for operation in operations {
      if let place = self.operations.place(of: operation) { watch(place, in: .blocked) }
    }
    watched.noteChange(now)
    followUp.ask(noLaterThan: now + ReadinessPace.interval)
  }

  /// The operation is to be asked soon.
  mutating func hurry(_ operation: OwnedOperation, now: UInt64, _ followUp: inout FollowUp) {
    let deadline = watched.hurry(operation, now: now)
    followUp.ask(noLaterThan: deadline)
  }

  /// See `QueueCore.holdBack`.
  mutating func holdBack(
    _ operation: OwnedOperation, at level: Int, isHeldBack: Bool, now: UInt64, _ followUp: inout FollowUp
  ) {
    guard let place = operations.place(of: operation) else { return }
    operations[place].levels &= ~(1 << level)
    if operation.isWaitingForScheduler, !Mutation.heldBackMissesTheNews.isOn {
      // It was blocked, and has become ready, since it answered.
      makeReady(place)
    } else if isHeldBack {
      watch(place, in: .held)
      // What Foundation has yet to tell a plain operation of may be all that holds it back.
      hurry(operation, now: now, &followUp)
    }
  }

  /// Does nothing for one that is in a list already.
  mutating func watch(_ place: Int, in list: WatchedOperations.List) {
    guard operations[place].watchList == .none else { return }
    operations[place].watchPlace = watched.insert(operations[place].unretainedOperation, in: list)
    operations[place].watchList = list
  }

  mutating func unwatch(_ place: Int) {
    let entry = operations[place]
    operations[place].watchList = .none
    unwatch(entry)
  }

  /// The operation has left the registry, or its entry says that it is not watched.
  mutating func unwatch(_ entry: OperationRegistry.Entry) {
    guard entry.watchList != .none, let moved = watched.remove(at: entry.watchPlace, of: entry.watchList) else { return }
    moved.with { moved in
      if let place = operations.place(of: moved) { operations[place].watchPlace = entry.watchPlace }
    }
  }
}
