extension BarrierPhase {
  /// Lays the run queues anew. The order among owners starts over from their oldest tickets. Barriers take no turns.
  func setFairness(_ newValue: OwnerFairness) {
    guard newValue != fairness, !isOfBarriers else { return }
    fairness = newValue
    readyCount = 0
    for level in 0..<PriorityLevel.count {
      var queued: [Flow] = []
      var seen = Set<ObjectIdentifier>()
      for entry in runQueues[level].takeAll() where entry.flow.work.count > 0 {
        if seen.insert(ObjectIdentifier(entry.flow)).inserted { queued.append(entry.flow) }
      }
      forEachOwnerQueue { ownerQueue in
        ownerQueue.forEachFlow(at: level) { flow in
          flow.voidTickets = 0
          flow.isInRunQueue = false
          let isHeld = flow.work.count > 0 && !seen.contains(ObjectIdentifier(flow))
          flow.held.reset(to: !isHeld ? 0 : newValue == .roundRobin ? 1 : flow.work.count)
        }
      }
      for flow in queued {
        flow.isInRunQueue = newValue == .roundRobin
        let tickets = newValue == .roundRobin ? 1 : flow.work.count
        runQueues[level].append(RunQueue.Entry(flow: flow, tickets: tickets, age: runQueues[level].makeAge()))
        readyCount += flow.work.count
      }
      if runQueues[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) } else { readyLevels |= 1 << UInt32(level) }
    }
  }
}
