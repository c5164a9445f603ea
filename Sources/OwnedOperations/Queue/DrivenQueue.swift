import Foundation

/// Queues whose work is run by a driver, in users' tests. The scheduler is the same; only who runs it is another.
///
/// - A worker that is due is a step of the driver's. It takes one record, runs it, settles, and leaves; if there is more to do, it is sent
///   for again.
/// - How many workers may be under way depends on the limit only, neither on processors nor on how long records take.
/// - Nothing is taken in advance, and each node of a graph is a record.
struct QueueDriving {
  let driver: any QueueDriver
  /// The driver chooses among what may begin. A queue with a limit of one keeps its order, which is promised.
  let isShuffled: Bool

  init(_ driver: any QueueDriver, isShuffled: Bool) {
    self.driver = driver
    self.isShuffled = isShuffled
  }
}

extension OwnerScopedQueue {
  /// Makes a queue whose work the driver runs.
  package convenience init(name: String?, maxConcurrentOperationCount: Int, driver: any QueueDriver, isShuffled: Bool) {
    self.init(
      name: name, limit: maxConcurrentOperationCount, qualityOfService: .default, underlyingQueue: nil,
      driving: QueueDriving(driver, isShuffled: isShuffled))
  }

  var driver: (any QueueDriver)? { core.driver }

  var isShuffled: Bool { core.driver != nil && core.read { $0.shuffler != nil } }

  /// Asks the operations that nobody announces, and whether owners are held again. For the driver, when nothing else is due.
  package func askUnannounced() {
    let (isWatching, heldBack) = core.read { state in
      var heldBack: [OwnerLifetime] = []
      for stage in state.stages { stage.forEachSlot { if $0.isHeldBack, let lifetime = $0.lifetime { heldBack.append(lifetime) } } }
      return (!state.watched.isEmpty, heldBack)
    }
    if isWatching { askWatched() }
    for lifetime in heldBack { lifetime.ownerHold?.lookAgainIfHeldBack() }
  }

  /// A step of a task that has a turn in this queue.
  func taskStep(of turn: ObjectIdentifier, _ body: @escaping @Sendable () -> Void) -> DrivenStep {
    DrivenStep(isShuffled: isShuffled, operation: turn) { [self] isNamed in
      body()
      return .ran(isNamed ? "a task in \(quotedName)" : nil)
    }
  }

  /// Has the driver call the body when the delay has passed, unless the owner ends first; it is released then.
  func call(_ body: @escaping @Sendable () -> Void, after delay: Duration, _ lifetime: OwnerLifetime, by driver: any QueueDriver) {
    let kind = DrivenCall.Kind.job(queue: core.read { $0.name }, owner: lifetime.driverName)
    let call = DrivenCall(kind, while: { lifetime.isAlive }, body)
    let end = LifetimeEndCall(lifetime) { [weak call] in call?.cancel() }
    call.keep(end)
    guard end.join() else { return call.cancel() }
    driver.add(call, after: delay)
  }

  fileprivate var quotedName: String { "\"\(core.read { $0.name })\"" }
}

extension OwnerLifetime {
  /// How it is called in what a driver says.
  var driverName: String { name.map { "\"\($0)\"" } ?? "\(id)" }
}

extension QueueState {
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
  fileprivate mutating func endStep(of worker: Worker, after last: LastStep) -> Bool {
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

extension Worker {
  /// What the worker was sent for.
  func step(of queue: OwnerScopedQueue) -> DrivenStep {
    DrivenStep(isShuffled: queue.isShuffled) { [self] isNamed in
      // Bodies must not take the task that waits for them on this thread, if one does, for their own.
      OperationTask.$current.withValue(nil) {
        OwnBodyWait.$taskBody.withValue(nil) { withAutoreleasePool { takeStep(queue, isNamed: isNamed) } }
      }
    }
  }

  private func takeStep(_ queue: OwnerScopedQueue, isNamed: Bool) -> DrivenStep.Outcome {
    beginDrain()
    while !hasWork {
      switch queue.core.mutate({ state, _ in state.nextStep(of: self, after: .nothing, isTimeUp: false, queue) }) {
      case .run, .lookAgain: continue
      case .leave(let isLast):
        queue.tidyUp(isLast: isLast)
        return .nothing
      case .leaveLater, .letOthersRun: return .nothing
      }
    }
    let name = isNamed ? nameOfNext(in: queue) : nil
    let isBarrier = barrier != nil
    becomeCurrent { run() }
    let isLast = queue.core.mutate { state, _ in state.endStep(of: self, after: isBarrier ? .barrier : .records) }
    queue.tidyUp(isLast: isLast)
    return .ran(name)
  }

  private func nameOfNext(in queue: OwnerScopedQueue) -> String {
    let (lifetime, operation) = queue.core.read { _ in batch.next }
    if let operation { return "\(operation.label) in \(queue.quotedName)" }
    if barrier != nil { return "a barrier in \(queue.quotedName)" }
    return lifetime.map { "work of \($0.driverName) in \(queue.quotedName)" } ?? "work in \(queue.quotedName)"
  }
}

extension OwnerScopedQueue {
  /// Like a thread that goes.
  fileprivate func tidyUp(isLast: Bool) {
    if isLast { removeIdleSlots() }
  }
}

extension Stage {
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
