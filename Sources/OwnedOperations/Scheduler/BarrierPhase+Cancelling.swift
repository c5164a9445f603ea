/// Ready work is taken out, to be cancelled.
extension BarrierPhase {
  /// Takes all ready work of the owner out.
  /// - Returns: the items, to be released outside the lock. They still count as unfinished.
  func takeAll(of ownerQueue: OwnerQueue) -> [TakenWork] {
    var taken: [TakenWork] = []
    var lines: [Flow] = []
    for level in 0..<PriorityLevel.count {
      ownerQueue.forEachFlow(at: level) { flow in
        if flow.work.count > 0 { taken.append(takeAll(in: flow, level: level)) }
        if flow.line != nil { lines.append(flow) }
      }
    }
    for flow in lines { ownerQueue.removeIfIdle(flow) }
    return taken
  }

  /// The same for an owner without lines that has a few items at each level at most: moves them, and leaves the memory for other work.
  /// Constant time.
  /// - Returns: how many are to be counted; nil, and nothing moved, if there are more.
  func takeFew(of ownerQueue: OwnerQueue, to list: inout WorkList, pool: inout ChunkPool) -> Int? {
    guard !ownerQueue.hasLines,
      (0..<PriorityLevel.count).allSatisfy({ ownerQueue.flow(at: $0)?.work.isEmptyOrHasFew ?? true })
    else { return nil }
    var jobs = 0
    for level in 0..<PriorityLevel.count {
      guard let flow = ownerQueue.flow(at: level), flow.work.count > 0 else { continue }
      flow.work.visit { if !$0.account.countsItself { jobs += 1 } }
      noteTaken(flow, level)
      flow.work.moveFew(to: &list, pool: &pool)
      dropVoidTurns(level)
    }
    return jobs
  }

  /// A job, or none.
  struct OnlyJob {
    var item: WorkItem?
  }

  /// Takes the job out that is all that the owner has ready, if anything. Constant time.
  /// - Returns: nil, and nothing is taken out, if there is more, or anything else than a job, or if more than that is to be done.
  func takeOnlyJob(of ownerQueue: OwnerQueue) -> OnlyJob? {
    guard !ownerQueue.hasLines else { return nil }
    var only: (flow: Borrowed<Flow>, level: Int)?
    for level in 0..<PriorityLevel.count {
      guard let flow = ownerQueue.unretainedFlow(ifThereAt: level), flow.with({ $0.work.count > 0 }) else { continue }
      guard only == nil, flow.with({ $0.work.isOneJob }), !areVoidTurnsDue(level) else { return nil }
      only = (flow, level)
    }
    guard let (flow, level) = only else { return OnlyJob() }
    defer { dropFewVoidTurns(level) }
    return flow.with { flow in
      noteTaken(flow, level)
      return OnlyJob(item: flow.work.takeOnlyOne())
    }
  }

  private func takeAll(in flow: Flow, level: Int) -> TakenWork {
    noteTaken(flow, level)
    defer { dropVoidTurns(level) }
    return TakenWork(flow.work.takeAll())
  }

  /// All items of the flow are taken out: before that is done.
  private func noteTaken(_ flow: Flow, _ level: Int) {
    looksAgain()
    let items = flow.work.count
    switch fairness {
    case .firstComeFirstServed:
      flow.voidTickets += items - flow.held.count
      runQueues[level].voidTickets += items - flow.held.count
      readyCount -= items - flow.held.count
    case .roundRobin:
      if flow.isInRunQueue {
        readyCount -= items
        runQueues[level].voidTickets += 1
      }
    }
    flow.held.reset()
  }

  /// Takes all ready work of the line out, as above.
  func takeAll(of line: LineKey, _ ownerQueue: OwnerQueue) -> TakenWork? {
    guard let flow = ownerQueue.flow(of: line), flow.work.count > 0 else { return nil }
    defer { ownerQueue.removeIfIdle(flow) }
    return takeAll(in: flow, level: LineKey.level)
  }
}
