/// Ready work is taken out, to be cancelled.
extension BarrierPhase {
  /// Takes all ready work of the owner out.
  /// - Returns: the items, to be released outside the lock. They still count as unfinished.
  func takeAll(of ownerQueue: OwnerQueue) -> [TakenWork] {
    var taken: [TakenWork] = []
    var lines: [Flow] = []
    for level in 0..<PriorityLevel.count {
      ownerQueue.forEachFlow(at: level) { flow in
        if flow.work.count > 0 { taken.append(takeAll(in: flow)) }
        if flow.line != nil { lines.append(flow) }
      }
    }
    for flow in lines { ownerQueue.removeIfIdle(flow) }
    return taken
  }

  private func takeAll(in flow: Flow) -> TakenWork {
    let items = flow.work.count
    switch fairness {
    case .firstComeFirstServed:
      flow.voidTickets += items - flow.held.count
      readyCount -= items - flow.held.count
    case .roundRobin:
      if flow.isInRunQueue { readyCount -= items }
    }
    flow.held.reset()
    return TakenWork(flow.work.takeAll())
  }

  /// Takes all ready work of the line out, as above.
  func takeAll(of line: LineKey, _ ownerQueue: OwnerQueue) -> TakenWork? {
    guard let flow = ownerQueue.flow(of: line), flow.work.count > 0 else { return nil }
    defer { ownerQueue.removeIfIdle(flow) }
    return takeAll(in: flow)
  }
}
