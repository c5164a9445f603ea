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
    itemTime = Self.unknownTime
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
    var choices: [(offset: Int, items: Int)] = []
    for (offset, entry) in runQueues[level].entries().enumerated() {
      let flow = entry.flow
      guard flow.work.count > 0, !flow.ownerQueue.isHeld(ownerLimit), !flow.isLineHeld else { continue }
      let items = flow.line != nil ? 1 : fairness == .roundRobin ? flow.work.count : min(entry.tickets, flow.work.count)
      choices.append((offset, items))
    }
    let count = choices.reduce(0) { $0 + $1.items }
    guard count > 1 else { return }
    var chosen = shuffler.choose(among: count)
    for (offset, items) in choices {
      guard chosen >= items else {
        let flow = runQueues[level].swapFirst(with: offset)
        if flow.line == nil { flow.work.swapFirst(with: shuffler.choose(among: flow.work.count)) }
        return
      }
      chosen -= items
    }
  }
}
