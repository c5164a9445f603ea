/// Records whose operation has finished without them, or whose node of a graph was cancelled, stay in their lanes until their turn comes.
/// It may never come: the queue, or the owner, may be suspended, or more urgent work be always there. So they are counted, and swept when
/// they may be as many as the rest.
extension BarrierPhase {
  static let fewestDeadRecords = 64

  /// Records of this level have died. The count is an estimate: some may be with a worker, or have had their turn. It only says when to
  /// sweep.
  /// - Returns: what is to be released outside the lock.
  func noteDead(_ count: Int, level: Int, pool: inout ChunkPool) -> [TakenWork] {
    deadRecords[level] += count
    guard deadRecords[level] >= mostDeadRecords[level] else { return [] }
    return sweep(level, pool: &pool)
  }

  /// Linear in the records of the level. As many have to die before the next sweep as this one leaves, so the cost for each that dies is
  /// constant.
  private func sweep(_ level: Int, pool: inout ChunkPool) -> [TakenWork] {
    // Asked once: an operation may finish meanwhile.
    var isAlive: [ObjectIdentifier: [Bool]] = [:]
    var lanes: [Lane] = []
    forEachSlot { slot in
      slot.forEachLane(at: level) { lane in
        guard lane.work.count > 0 else { return }
        var flags: [Bool] = []
        flags.reserveCapacity(lane.work.count)
        lane.work.visit { flags.append(!$0.isDead) }
        isAlive[ObjectIdentifier(lane)] = flags
        lanes.append(lane)
      }
    }
    if fairness == .firstComeFirstServed { withdrawTickets(level, lanes, isAlive) }
    var taken: [TakenWork] = []
    var left = 0
    for lane in lanes {
      guard let flags = isAlive[ObjectIdentifier(lane)], flags.contains(false) else {
        left += lane.work.count
        continue
      }
      let dead = lane.work.remove(keeping: flags, pool: &pool)
      if fairness == .roundRobin, lane.isInRing { readyCount -= dead.count }
      left += lane.work.count
      taken.append(TakenWork(dead))
    }
    deadRecords[level] = 0
    mostDeadRecords[level] = max(Self.fewestDeadRecords, left)
    return taken
  }

  /// First come, first served: takes back exactly those tickets that stand for dead records, so that the order among the living stays what
  /// it is. A lane's void tickets come before all others of it in the ring, and its held ones before those, in the order of its records.
  private func withdrawTickets(_ level: Int, _ lanes: [Lane], _ isAlive: [ObjectIdentifier: [Bool]]) {
    var places: [ObjectIdentifier: Int] = [:]
    for lane in lanes {
      places[ObjectIdentifier(lane)] = lane.held.count
      if let flags = isAlive[ObjectIdentifier(lane)] { lane.held.remove(keeping: flags.prefix(lane.held.count)) }
    }
    for entry in rings[level].takeAll() {
      let lane = entry.lane
      let void = min(lane.voidTickets, entry.tickets)
      lane.voidTickets -= void
      guard entry.tickets > void, let flags = isAlive[ObjectIdentifier(lane)], let place = places[ObjectIdentifier(lane)] else { continue }
      let records = flags[place...].prefix(entry.tickets - void)
      places[ObjectIdentifier(lane)] = records.endIndex
      let living = records.count { $0 }
      readyCount -= records.count - living
      if living > 0 { rings[level].append(ReadyRing.Entry(lane: lane, tickets: living, age: entry.age)) }
    }
    if rings[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
  }
}

extension Work {
  /// Whether nothing would come of the record if its turn came.
  fileprivate var isDead: Bool {
    switch self {
    case .operation(let operation): operation.load().isFinished
    case .graphNode(let run, let number): !run.isListed(number)
    default: false
    }
  }
}
