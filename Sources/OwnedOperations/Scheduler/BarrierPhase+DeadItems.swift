/// Some work items are dead: their operation has finished without them, or their node of a graph was cancelled. Round robin, they are no
/// turn. They stay in their flows until their turn comes, or until what is behind them is taken. Their turn may never come: the queue, or
/// the owner, may be suspended, or more urgent work be always there. So they are counted, and swept when they may be as many as the rest.
///
/// Without the sweep, adding operations to a suspended queue and cancelling them takes ever more memory. 100,000 of them take 65 MB,
/// 400,000 take 255 MB. With it, either takes 3 MB.
extension BarrierPhase {
  /// What is known of a level's dead items.
  struct DeadItems {
    static let fewest = 64
    /// How many have died since the last sweep.
    var count = 0
    /// How many may, before the next.
    var most = fewest
  }

  /// To pass by one takes some thirty nanoseconds, to die a thousand.
  private static let ownersForEach = 32

  /// Whether somebody need look for dead items.
  func mayHaveDeadItems(_ level: Int) -> Bool { !deadItems.isEmpty && deadItems[level].count > 0 }

  /// Work items of this level have died. The count is an estimate: some may be with a worker, or have had their turn. It only says when to
  /// sweep, and, if zero, that nobody need look for dead ones.
  /// - Returns: what is to be released outside the lock.
  func noteDead(_ count: Int, level: Int, pool: inout ChunkPool) -> [TakenWork] {
    if deadItems.isEmpty { deadItems = Array(repeating: DeadItems(), count: PriorityLevel.count) }
    deadItems[level].count += count
    guard deadItems[level].count >= max(deadItems[level].most, ownerQueueCount / Self.ownersForEach) else { return [] }
    return sweep(level, pool: &pool)
  }

  /// Linear in the items of the level, and in the owners that the phase knows. As many have to die before the next sweep as this one
  /// leaves, and one for so many owners, so the cost for each is constant.
  private func sweep(_ level: Int, pool: inout ChunkPool) -> [TakenWork] {
    // Asked once: an operation may finish meanwhile.
    var isAlive: [ObjectIdentifier: [Bool]] = [:]
    var flows: [Flow] = []
    forEachOwnerQueue { ownerQueue in
      ownerQueue.forEachFlow(at: level) { flow in
        guard flow.work.count > 0 else { return }
        var flags: [Bool] = []
        flags.reserveCapacity(flow.work.count)
        flow.work.visit { flags.append(!$0.isDead) }
        isAlive[ObjectIdentifier(flow)] = flags
        flows.append(flow)
      }
    }
    if fairness == .firstComeFirstServed { withdrawTickets(level, flows, isAlive) }
    var taken: [TakenWork] = []
    var left = 0
    for flow in flows {
      guard let flags = isAlive[ObjectIdentifier(flow)], flags.contains(false) else {
        left += flow.work.count
        continue
      }
      let dead = flow.work.remove(keeping: flags, pool: &pool)
      if fairness == .roundRobin, flow.isInRunQueue {
        readyCount -= dead.count
        if flow.work.count == 0 { runQueues[level].voidTickets += 1 }
      }
      left += flow.work.count
      taken.append(TakenWork(dead))
    }
    dropVoidTurns(level)
    deadItems[level] = DeadItems(most: max(DeadItems.fewest, left))
    return taken
  }

  /// First come, first served: takes back exactly those tickets that stand for dead items, so that the order among the living stays what
  /// it is. In the run queue a flow's void tickets come before all others of it. Its held ones come before those, in the order of its
  /// items.
  private func withdrawTickets(_ level: Int, _ flows: [Flow], _ isAlive: [ObjectIdentifier: [Bool]]) {
    var places: [ObjectIdentifier: Int] = [:]
    for flow in flows {
      places[ObjectIdentifier(flow)] = flow.held.count
      if let flags = isAlive[ObjectIdentifier(flow)] { flow.held.remove(keeping: flags.prefix(flow.held.count)) }
    }
    for entry in runQueues[level].takeAll() {
      let flow = entry.flow
      let void = min(flow.voidTickets, entry.tickets)
      flow.voidTickets -= void
      guard entry.tickets > void, let flags = isAlive[ObjectIdentifier(flow)], let place = places[ObjectIdentifier(flow)] else { continue }
      let items = flags[place...].prefix(entry.tickets - void)
      places[ObjectIdentifier(flow)] = items.endIndex
      let living = items.count { $0 }
      readyCount -= items.count - living
      if living > 0 { runQueues[level].append(RunQueue.Entry(flow: flow, tickets: living, age: entry.age)) }
    }
    if runQueues[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
  }
}

extension WorkList {
  /// How many of the oldest items, up to a limit, are dead.
  func countDead(upTo limit: Int) -> Int { countFirst(limit) { $0.isDead } }
}
