/// What was pending of an owner is taken out at once, when the owner ends or its work is cancelled. Its turns stay in the run queue, void,
/// until they come up (see `BarrierPhase` for why). They may never: the queue may be suspended, or more urgent work be always there. So
/// those in front and at the end go at once, and all of them when they may be more than the others.
///
/// Without that, owners that come, add a job to a suspended queue and go take 300 bytes each for as long as it is suspended.
extension BarrierPhase {
  /// That many void turns may stay.
  private static let fewest = 64

  /// Work of this level has been taken out. Amortised constant time for each entry of the run queue: when all are looked at, more than half
  /// of them go.
  func dropVoidTurns(_ level: Int) {
    dropFirstVoidTurns(level)
    dropLastVoidTurns(level)
    // An entry that isn't void stands for ready work.
    if runQueues[level].entryCount > 2 * readyCount + Self.fewest { dropAllVoidTurns(level) }
    if runQueues[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
  }

  private func dropFirstVoidTurns(_ level: Int) {
    while let (flow, tickets, _) = runQueues[level].unretainedFirst {
      // Where the entry goes, so may the flow: its count comes first.
      let void = flow.with { useVoidTurns(of: $0, tickets) }
      if void == 0 { return }
      runQueues[level].useFirst(void)
    }
  }

  /// Of flows without work: in others the void turns are the older ones.
  private func dropLastVoidTurns(_ level: Int) {
    while let entry = runQueues[level].last, entry.flow.work.count == 0, useVoidTurns(of: entry.flow, entry.tickets) == entry.tickets {
      runQueues[level].removeLast()
    }
  }

  private func dropAllVoidTurns(_ level: Int) {
    for var entry in runQueues[level].takeAll() {
      entry.tickets -= useVoidTurns(of: entry.flow, entry.tickets)
      if entry.tickets > 0 { runQueues[level].append(entry) }
    }
  }

  /// - Parameter tickets: of an entry of the flow's, the first that is left of it.
  /// - Returns: how many of them are void. The entry is to lose them.
  private func useVoidTurns(of flow: Flow, _ tickets: Int) -> Int {
    switch fairness {
    case .firstComeFirstServed:
      let void = min(flow.voidTickets, tickets)
      flow.voidTickets -= void
      return void
    case .roundRobin:
      if flow.work.count > 0 { return 0 }
      flow.isInRunQueue = false
      return tickets
    }
  }
}
