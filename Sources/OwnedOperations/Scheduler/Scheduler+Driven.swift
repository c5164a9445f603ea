/// A scheduler whose workers are a driver's steps; see `DrivenQueue`.
struct QueueDriving {
  let driver: any QueueDriver
  /// The driver chooses among what may begin. A queue with a limit of one keeps its order, which is promised.
  let isShuffled: Bool

  init(_ driver: any QueueDriver, isShuffled: Bool) {
    self.driver = driver
    self.isShuffled = isShuffled
  }
}

extension Scheduler {
  /// More than there can be.
  private static let noEndOfProcessors = 1 << 30

  /// Before anything is added.
  mutating func setDriving(_ driving: QueueDriving) {
    isDriven = true
    extraWorkers = Self.noEndOfProcessors
    if driving.isShuffled { shuffler = driving.driver }
  }

  /// Counts what the worker has run, and has it leave.
  /// - Returns: whether no other worker is active.
  mutating func endStep(of worker: ScheduledWorker, after last: LastStep) -> Bool {
    settle(worker, after: last)
    recordTime = Self.unknownTime
    comeBack(worker)
    arrive(worker)
    worker.endDrain()
    let isLast = leave(worker)
    extraWorkers = Self.noEndOfProcessors
    return isLast
  }
}

extension BarrierPhase {
  /// Puts one of those that may begin before all others of the highest level. Of a line only the first may. Linear.
  func shuffle(by shuffler: any QueueDriver, ownerLimit: Int) {
    let level = readyLevels.trailingZeroBitCount
    var choices: [(offset: Int, records: Int)] = []
    for (offset, entry) in rings[level].entries().enumerated() {
      let lane = entry.lane
      guard lane.work.count > 0, !lane.slot.isHeld(ownerLimit), !lane.isLineHeld else { continue }
      let records = lane.line != nil ? 1 : fairness == .roundRobin ? lane.work.count : min(entry.tickets, lane.work.count)
      choices.append((offset, records))
    }
    let count = choices.reduce(0) { $0 + $1.records }
    guard count > 1 else { return }
    var chosen = shuffler.choose(among: count)
    for (offset, records) in choices {
      guard chosen >= records else {
        let lane = rings[level].swapFirst(with: offset)
        if lane.line == nil { lane.work.swapFirst(with: shuffler.choose(among: lane.work.count)) }
        return
      }
      chosen -= records
    }
  }
}
