/// What was pending of an owner is taken out at once, when the owner ends or its work is cancelled. Its turns stay in the run queue, void,
/// until they come up (see `BarrierPhase` for why). They may never: the queue may be suspended, or more urgent work be always there. So a
/// few in front and at the end go at once, and all of them when they may be as many as the others.
///
/// Without that, owners that come, add a job to a suspended queue and go take 300 bytes each for as long as it is suspended.
extension BarrierPhase {
  /// That many void turns may stay.
  private static let fewest = 64
  /// That many go at once, in front and at the end.
  private static let few = 4

  /// Whether all void turns of a level are to go. As many tickets have become void since they last did as half of the entries. So to look
  /// at all of those is amortised constant time for each ticket.
  func areVoidTurnsDue(_ level: Int) -> Bool { runQueues[level].voidTickets >= max(Self.fewest, runQueues[level].entryCount / 2) }

  /// Work of this level has been taken out.
  func dropVoidTurns(_ level: Int) {
    if areVoidTurnsDue(level) { dropAllVoidTurns(level) }
    dropFewVoidTurns(level)
  }

  /// The same in constant time: others are left until work is taken out again, or their turn comes.
  func dropFewVoidTurns(_ level: Int) {
    var dropped = 0
    while dropped < Self.few, dropFirstVoidTurn(level) { dropped += 1 }
    while dropped < 2 * Self.few, dropLastVoidTurn(level) { dropped += 1 }
    // All are void.
    if readyCount == 0, (1...Self.fewest).contains(runQueues[level].entryCount) { dropAllVoidTurns(level) }
    if runQueues[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
  }

  /// - Returns: false if the first is none.
  private func dropFirstVoidTurn(_ level: Int) -> Bool {
    guard let (flow, tickets, _) = runQueues[level].unretainedFirst else { return false }
    // Where the entry goes, so may the flow: its count comes first.
    let void = flow.with { useVoidTurns(of: $0, tickets, level) }
    if void > 0 { runQueues[level].useFirst(void) }
    return void > 0
  }

  /// Of flows without work: in others the void turns are the older ones.
  /// - Returns: false if the last is none.
  private func dropLastVoidTurn(_ level: Int) -> Bool {
    guard let entry = runQueues[level].last, entry.flow.work.count == 0, useVoidTurns(of: entry.flow, entry.tickets, level) > 0 else {
      return false
    }
    runQueues[level].removeLast()
    return true
  }

  private func dropAllVoidTurns(_ level: Int) {
    for var entry in runQueues[level].takeAll() {
      entry.tickets -= useVoidTurns(of: entry.flow, entry.tickets, level)
      if entry.tickets > 0 { runQueues[level].append(entry) }
    }
  }

  /// - Parameter tickets: of an entry of the flow's, the first that is left of it.
  /// - Returns: how many of them are void. The entry is to lose them.
  private func useVoidTurns(of flow: Flow, _ tickets: Int, _ level: Int) -> Int {
    let void: Int
    switch fairness {
    case .firstComeFirstServed:
      void = min(flow.voidTickets, tickets)
      flow.voidTickets -= void
    case .roundRobin:
      if flow.work.count > 0 { return 0 }
      void = tickets
      flow.isInRunQueue = false
    }
    runQueues[level].voidTickets = max(0, runQueues[level].voidTickets - void)
    return void
  }
}
