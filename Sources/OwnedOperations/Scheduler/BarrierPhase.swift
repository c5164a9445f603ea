/// The pending work between two barriers, ready to be taken by priority and turn.
///
/// A queue has one phase, and one more for each barrier that waits. What is added goes to the last phase, what is started comes from the
/// first. When the first has nothing unfinished, its barrier runs and the next phase moves up. So a barrier costs the work around it
/// nothing.
///
/// Barriers that have owners are jobs, in a phase that has nothing else. Those that follow each other share one, which takes its work one
/// at a time and in order: a phase costs two microseconds, a job a tenth of one. If the first has to wait for its owner, all do.
///
/// Everything here is guarded by the queue's lock.
///
/// Work items lie in flows (one owner, and one priority or line); tickets in the run queues say whose turn it is. What always holds:
///
/// - First come, first served: a flow has as many tickets, in the run queue and held, less the void ones, as it has items.
/// - Round robin: a flow with items is in the run queue, once, or held.
/// - `readyCount` is the number of items of flows whose tickets are in the run queues. Some of their owners may turn out to be suspended or
///   at their limit when their turn comes. Then the tickets are held, and come back to the run queue later. Those of barriers stay.
/// - First come, first served: a ticket may be held, or a worker may have its item and give it back. Either way it keeps its age and comes
///   back by it. Those of an owner without lines that are held together have the age of the oldest.
/// - What is held of a line that may go on has its oldest run in the run queue.
///
/// Void tickets are what makes an owner's end cheap where owners take turns in adding. To take its tickets out of the run queue instead is
/// linear in what all owners have pending. The ends of 300 owners with 100 jobs each took 136 ms that way, and of 600 owners 599 ms. With
/// void tickets it is 2.5 ms and 4.6 ms.
final class BarrierPhase {
  // First what every addition touches.

  /// The owner queue that was used last, if it is still in the table.
  private var lastOwnerQueue: (lifetime: Borrowed<OwnerLifetime>?, ownerQueue: Borrowed<OwnerQueue>)?
  /// Pending, taken and executing work of this phase, operations that wait for dependencies included.
  private(set) var unfinished = 0
  /// Work items in the hands of workers, and operations that execute without one.
  private(set) var executing = 0
  var readyCount = 0
  /// A bit for each level with entries in its run queue; the lowest bit is the highest priority.
  var readyLevels: UInt32 = 0
  var fairness: OwnerFairness
  /// A turn was held because one of its line runs. Until the monitor is told.
  var hasHeldForLine = false

  /// The phase ends with a barrier, cancelled or not.
  var isClosed = false
  /// To run when everything in this phase has finished.
  var barrier: (@Sendable () -> Void)?
  /// All of its work is barriers, of one priority.
  private(set) var isOfBarriers = false
  /// The owner of the barrier whose turn it is has to wait.
  private var isHeldUp = false
  /// It has had operations, or nodes of a graph, which may leave items behind.
  private(set) var hasHadRecords = false

  /// One for each level.
  let runQueues = UnsafeMutablePointer<RunQueue>.allocate(capacity: PriorityLevel.count)
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) private var ownerQueues = OwnerQueueTable()
  private var ownerlessQueue: OwnerQueue?
  /// For each level; none as long as no item has died.
  var deadItems: [DeadItems] = []
  private let departures: OwnerQueueDepartures

  init(fairness: OwnerFairness, departures: OwnerQueueDepartures) {
    self.fairness = fairness
    self.departures = departures
    for level in 0..<PriorityLevel.count { (runQueues + level).initialize(to: RunQueue()) }
  }

  deinit {
    ownerQueues.visit { giveUpPlace(of: $0) }
    runQueues.deinitialize(count: PriorityLevel.count)
    runQueues.deallocate()
  }

  /// The phase is new, or used again after `removeAllOwnerQueues`.
  func begin(_ fairness: OwnerFairness) {
    self.fairness = fairness
    (isClosed, hasHeldForLine, isOfBarriers, isHeldUp, hasHadRecords, lastOwnerQueue) = (false, false, false, false, false, nil)
    (readyCount, readyLevels) = (0, 0)
    for level in 0..<PriorityLevel.count {
      if !runQueues[level].isEmpty { _ = runQueues[level].takeAll() }  // void tickets
    }
    if !deadItems.isEmpty { deadItems = [] }
  }

  /// `isFitForBarriers`. What is added from now on are barriers.
  func becomeBarriers() {
    setFairness(.firstComeFirstServed)
    isOfBarriers = true
  }

  /// Whether something may be taken.
  var hasWork: Bool { readyLevels != 0 && (!isOfBarriers || (executing == 0 || Mutation.barriersOverlap.isOn) && !isHeldUp) }

  /// Nothing is in it, and nothing of it is with a worker.
  var isUnused: Bool { unfinished == 0 && executing == 0 && !isClosed }

  // MARK: Owner queues

  /// The queue of the owner, made if need be; nil if the owner has ended.
  @inline(__always)  // for each job
  func ownerQueue(for lifetime: Borrowed<OwnerLifetime>?, orMake make: (OwnerLifetime) -> OwnerQueue) -> Borrowed<OwnerQueue>? {
    if let lastOwnerQueue, lastOwnerQueue.lifetime?.address == lifetime?.address {
      return lastOwnerQueue.ownerQueue.with { $0.hasEnded } ? nil : lastOwnerQueue.ownerQueue
    }
    guard let ownerQueue = placedOwnerQueue(of: lifetime) ?? findOrMakeOwnerQueue(for: lifetime?.object, make),
      !ownerQueue.with({ $0.hasEnded })
    else { return nil }
    lastOwnerQueue = (lifetime, ownerQueue)
    return ownerQueue
  }

  /// The owner queue, if the phase was the first that had one of the owner's object. That may have another lifetime beside this one.
  private func placedOwnerQueue(of lifetime: Borrowed<OwnerLifetime>?) -> Borrowed<OwnerQueue>? {
    guard let lifetime, let found = findPlaced(lifetime) else { return nil }
    found.hold.with { $0.place.setCold(found.ownerQueue.with { $0.unfinished == 0 }) }
    return found.ownerQueue
  }

  private func findPlaced(_ lifetime: Borrowed<OwnerLifetime>) -> (hold: Borrowed<OwnerHold>, ownerQueue: Borrowed<OwnerQueue>)? {
    guard let hold = lifetime.with({ $0.unretainedHold }), let ownerQueue = hold.with({ $0.place.value(of: self, OwnerQueue.self) }),
      ownerQueue.with({ $0.unretainedLifetime?.address == lifetime.address })
    else { return nil }
    return (hold, ownerQueue)
  }

  private func findOrMakeOwnerQueue(for lifetime: OwnerLifetime?, _ make: (OwnerLifetime) -> OwnerQueue) -> Borrowed<OwnerQueue>? {
    guard let lifetime else { return Borrowed(queueWithoutOwner) }
    if let ownerQueue = ownerQueues[lifetime] {
      lifetime.unretainedHold?.with { _ = $0.place.claim(for: self, ownerQueue) }
      return Borrowed(ownerQueue)
    }
    return makeOwnerQueue(for: lifetime, make).map { Borrowed($0) }
  }

  private func makeOwnerQueue(for lifetime: OwnerLifetime, _ make: (OwnerLifetime) -> OwnerQueue) -> OwnerQueue? {
    let ownerQueue = make(lifetime)
    guard lifetime.join(ownerQueue) else { return nil }
    let hold = lifetime.unretainedHold
    let isBack = hold?.with { $0.place.isLeft } ?? false
    let isPlaced = hold?.with { $0.place.claim(for: self, ownerQueue) } ?? false
    ownerQueues.insert(ownerQueue, of: lifetime, isBack: isBack, isPlaced: isPlaced)
    if ownerQueues.isSweepDue {
      departures.isSweepDue = true
      if ownerQueues.isSweepOverdue { departures.isSweepOverdue = true }
    }
    return ownerQueue
  }

  /// Removes owner queues that are kept without need, if there are many.
  /// - Parameter now: in nanoseconds of `Uptime`.
  func sweepOwnerQueues(now: UInt64) {
    for unused in ownerQueues.sweep(now: now) { depart(unused) }
  }

  /// For work that nobody owns.
  var queueWithoutOwner: OwnerQueue {
    let ownerQueue = ownerlessQueue ?? OwnerQueue(lifetime: nil, home: self, listener: nil, isSuspended: false)
    ownerlessQueue = ownerQueue
    return ownerQueue
  }

  /// Those with work, and those that are kept without.
  var ownerQueueCount: Int { ownerQueues.count }

  func existingOwnerQueue(for lifetime: OwnerLifetime) -> OwnerQueue? {
    findPlaced(Borrowed(lifetime))?.ownerQueue.object ?? ownerQueues[lifetime]
  }

  func forEachOwnerQueue(_ body: (OwnerQueue) -> Void) {
    if let ownerlessQueue { body(ownerlessQueue) }
    ownerQueues.visit(body)
  }

  /// See `OwnerQueueTable.judge`.
  func judgesOwnersToComeBack() -> Bool { ownerQueues.judge() }

  /// Whether it keeps owner queues without work that keep no lifetime from ending.
  var keepsOwnerQueues: Bool { ownerQueues.keepsAnnounced && ownerQueues.hasAnnounced }

  /// Those that had no work since the last look, or sweep.
  func restedOwnerQueues(_ pool: inout ChunkPool) -> [OwnerQueue] { ownerQueues.restedSinceLook(&pool) }

  func giveUpRoom() { ownerQueues.giveUpRoom() }

  func idleOwnerQueues(_ kind: OwnerQueueTable.Kind) -> [OwnerQueue] { ownerQueues.idle(kind) }

  func removeIfIdle(_ ownerQueue: OwnerQueue) {
    if !ownerQueue.isRemoved, ownerQueue.isIdle { remove(ownerQueue) }
  }

  private func remove(_ ownerQueue: OwnerQueue) {
    guard ownerQueue.unretainedLifetime != nil, !ownerQueue.isRemoved else { return }
    depart(ownerQueues.remove(ownerQueue))
  }

  /// Has it leave all but the table, in which it is not any more.
  private func depart(_ ownerQueue: OwnerQueue) {
    ownerQueue.isRemoved = true
    if lastOwnerQueue?.ownerQueue.address == Borrowed(ownerQueue).address { lastOwnerQueue = nil }
    giveUpPlace(of: ownerQueue)
    departures.ownerQueues.append(ownerQueue)
  }

  private func giveUpPlace(of ownerQueue: OwnerQueue) {
    ownerQueue.unretainedLifetime?.with { $0.unretainedHold }?.with { $0.place.giveUp(by: self, ownerQueue) }
  }

  /// The owner ended and nothing of it is left, or the phase is over.
  func removeIfDone(_ ownerQueue: OwnerQueue) {
    if ownerQueue.hasEnded, ownerQueue.isIdle { remove(ownerQueue) }
  }

  /// The phase is over. What is left in its flows are items of operations that were cancelled.
  func removeAllOwnerQueues() -> [TakenWork] {
    var taken: [TakenWork] = []
    forEachOwnerQueue { ownerQueue in
      if !ownerQueue.isIdle || ownerQueue.hasLines { taken += takeAll(of: ownerQueue) }
    }
    var leaving = OwnerQueueTable()
    swap(&leaving, &ownerQueues)
    lastOwnerQueue = nil
    leaving.visit { ownerQueue in
      ownerQueue.isRemoved = true
      giveUpPlace(of: ownerQueue)
      departures.ownerQueues.append(ownerQueue)
    }
    ownerlessQueue?.isRemoved = true
    ownerlessQueue = nil
    return taken
  }

  // MARK: Adding

  /// Counts a work item in that goes to a worker at once.
  @inline(__always)  // for each job
  func addTaken(of ownerQueue: Borrowed<OwnerQueue>, level: Int) -> (flow: Borrowed<Flow>, age: UInt64) {
    unfinished += 1
    executing += 1
    return ownerQueue.with { ownerQueue in
      ownerQueue.changeUnfinished(by: 1)
      ownerQueue.executing += 1
      return (ownerQueue.unretainedFlow(at: level), runQueues[level].makeAge())
    }
  }

  /// Counts work in that is in no ready list: an operation with unfinished dependencies, nodes of a graph, what a worker has kept.
  func countIn(_ ownerQueue: OwnerQueue, count: Int = 1, areJobs: Bool = false) {
    if !areJobs { hasHadRecords = true }
    unfinished += count
    ownerQueue.changeUnfinished(by: count)
  }

  /// - Returns: where the item is to be written before the lock is left.
  @inline(__always)  // for each job
  func add(to ownerQueue: Borrowed<OwnerQueue>, level: Int, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<WorkItem> {
    ownerQueue.with { ownerQueue in
      unfinished += 1
      ownerQueue.changeUnfinished(by: 1)
      return makeReady(ownerQueue: ownerQueue, level: level, pool: &pool, ownerLimit: ownerLimit)
    }
  }

  /// Adds to a line of the owner's.
  /// - Returns: where the item is to be written before the lock is left.
  func add(to ownerQueue: OwnerQueue, line: LineKey, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<WorkItem> {
    unfinished += 1
    ownerQueue.changeUnfinished(by: 1)
    return makeReady(in: ownerQueue.makeFlow(of: line), isHeld: ownerQueue.isHeld(ownerLimit), level: LineKey.level, pool: &pool)
  }

  /// Work that has been counted becomes ready.
  /// - Returns: where the item is to be written before the lock is left.
  @inline(__always)  // for each job
  func makeReady(ownerQueue: OwnerQueue, level: Int, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<WorkItem> {
    let isHeld = ownerQueue.isHeld(ownerLimit)
    return ownerQueue.unretainedFlow(at: level).with { makeReady(in: $0, isHeld: isHeld, level: level, pool: &pool) }
  }

  /// - Parameter isHeld: whether the owner's turn has to wait.
  @inline(__always)  // for each job
  private func makeReady(in flow: Flow, isHeld: Bool, level: Int, pool: inout ChunkPool) -> UnsafeMutablePointer<WorkItem> {
    let place = flow.work.makePlace(pool: &pool)
    switch fairness {
    case .firstComeFirstServed:
      // Who has to wait for a turn gets a ticket in the run queue all the same, unless nobody else is there. That is held when it comes up:
      // so those that are held are older than all in the run queue.
      if isHeld, runQueues[level].isEmpty, !isOfBarriers {
        let hasLines = flow.unretainedOwnerQueue.with { $0.hasLines }
        flow.held.addNewest(after: runQueues[level].lastAge, inRuns: hasLines) { runQueues[level].makeAge() }
        if flow.isLineHeld { hasHeldForLine = true }
        return place
      }
      runQueues[level].appendTicket(for: flow)
      readyCount += 1
    case .roundRobin:
      if flow.isInRunQueue {
        readyCount += 1
      } else if isHeld || flow.isLineHeld {
        flow.held.reset(to: 1)
        if flow.isLineHeld { hasHeldForLine = true }
        return place
      } else {
        enterRunQueue(flow, level: level, atFront: false)
      }
    }
    readyLevels |= 1 << UInt32(level)
    return place
  }

  /// Round robin: the flow joins with all of its items.
  private func enterRunQueue(_ flow: Flow, level: Int, atFront: Bool) {
    flow.isInRunQueue = true
    flow.held.reset()
    readyCount += flow.work.count
    let entry = RunQueue.Entry(flow: flow, tickets: 1, age: 0)
    if atFront { runQueues[level].prepend(entry) } else { runQueues[level].append(entry) }
    readyLevels |= 1 << UInt32(level)
  }

  /// Puts work that a worker had taken, and not begun, back to where it came from.
  /// - Parameter age: of its tickets; 0 for work that comes before all else.
  func giveBack(movingFrom source: UnsafeMutablePointer<WorkItem>, count: Int, flow: Flow, level: Int, age: UInt64) {
    flow.work.prepend(movingFrom: source, count: count)
    flow.ownerQueue.executing -= count
    flow.line?.executing -= count
    executing -= count
    if !Mutation.givenBackBarrierIsHeldUp.isOn { looksAgain() }
    switch fairness {
    case .firstComeFirstServed:
      runQueues[level].bringBack(RunQueue.Entry(flow: flow, tickets: count, age: age))
      readyCount += count
      // With those that are held: who held them may have been what is given back.
      bringBackHeld(of: flow, level: level)
    case .roundRobin:
      if flow.isInRunQueue { readyCount += count } else { enterRunQueue(flow, level: level, atFront: true) }
    }
    readyLevels |= 1 << UInt32(level)
  }

  // MARK: Taking

  /// Moves ready work of the highest level to `batch`.
  /// - Returns: the level, or nil if nothing can be taken.
  func take(_ limit: Int, into batch: WorkBatch, pool: inout ChunkPool, ownerLimit: Int) -> Int? {
    while readyLevels != 0 {
      let level = readyLevels.trailingZeroBitCount
      if limit > 1 { runQueues[level].prefetchFirst() }
      while batch.count < limit, let (flow, tickets, age) = runQueues[level].unretainedFirst {
        if limit > 1 { runQueues[level].prefetchNext() }
        // The entry keeps the flow; where the entry goes, the flow is held here.
        let isFull = flow.with { flow in
          takeTurn(of: flow, tickets: tickets, age: age, level: level, limit: limit, into: batch, pool: &pool, ownerLimit: ownerLimit)
        }
        if isFull { break }
      }
      if isHeldUp { return batch.count > 0 ? level : nil }
      if runQueues[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
      if batch.count > 0 { return level }
    }
    return nil
  }

  /// Does with the first entry of the run queue what its turn has come for.
  /// - Returns: whether nothing can be added to the batch.
  private func takeTurn(
    of flow: Flow, tickets: Int, age: UInt64, level: Int, limit: Int, into batch: WorkBatch, pool: inout ChunkPool, ownerLimit: Int
  ) -> Bool {
    if flow.work.count == 0 {
      // All of it was cancelled.
      if let entry = runQueues[level].first { dropFirst(entry, level: level) }
    } else if flow.voidTickets > 0 {
      let void = min(flow.voidTickets, tickets)
      flow.voidTickets -= void
      runQueues[level].useFirst(void)
    } else if flow.unretainedOwnerQueue.with({ $0.isHeld(ownerLimit) }) || flow.isLineHeld {
      isHeldUp = isOfBarriers && !Mutation.heldBarrierIsOvertaken.isOn
      if isHeldUp { return true }
      if let entry = runQueues[level].first { hold(entry, level: level) }
    } else if fairness == .roundRobin {
      guard let entry = runQueues[level].first else { return false }
      runQueues[level].removeFirst()
      // The dead go along with the next that is alive: they are no turn of the owner's.
      let room = limit - batch.count
      let dead = mayHaveDeadItems(level) ? flow.work.countDead(upTo: room) : 0
      count(batch.fill(from: flow, limit: min(dead + 1, room), age: age, pool: &pool), takenFrom: flow)
      if flow.work.count == 0 {
        flow.isInRunQueue = Mutation.usedUpFlowKeepsItsTurn.isOn
      } else if dead == room {
        runQueues[level].prepend(entry)
      } else {
        runQueues[level].append(entry)
      }
      if flow.line == nil { return false }
      if flow.isInRunQueue, runQueues[level].count == 1 { hold(entry, level: level) }
      return true
    } else {
      // Only one job of a line, and nothing behind it, which would come before the rest of the line.
      let isLine = flow.line != nil
      let most = isLine ? 1 : min(limit - batch.count, tickets)
      let taken = batch.fill(from: flow, limit: most, age: age, pool: &pool)
      count(taken, takenFrom: flow)
      runQueues[level].useFirst(taken)  // and the flow may be gone
      // Its next is held now, instead of sending a worker for it.
      if isLine, tickets > taken, let rest = runQueues[level].first { hold(rest, level: level) }
      if isLine, flow.held.count > 0 { hasHeldForLine = true }
      return isLine && !Mutation.batchGoesOnBehindALine.isOn
    }
    return false
  }

  private func count(_ taken: Int, takenFrom flow: Flow) {
    flow.unretainedOwnerQueue.with { $0.executing += taken }
    flow.line?.executing += taken
    executing += taken
    readyCount -= taken
  }

  private func dropFirst(_ entry: RunQueue.Entry, level: Int) {
    runQueues[level].removeFirst()
    entry.flow.isInRunQueue = false
    if fairness == .firstComeFirstServed { entry.flow.voidTickets -= entry.tickets }
  }

  private func hold(_ entry: RunQueue.Entry, level: Int) {
    runQueues[level].removeFirst()
    if entry.flow.isLineHeld { hasHeldForLine = true }
    switch fairness {
    case .firstComeFirstServed:
      let void = min(entry.flow.voidTickets, entry.tickets)
      entry.flow.voidTickets -= void
      readyCount -= entry.tickets - void
      guard entry.tickets > void else { return }
      entry.flow.held.add(entry.tickets - void, age: entry.age, inRuns: entry.flow.ownerQueue.hasLines)
    case .roundRobin:
      entry.flow.isInRunQueue = false
      entry.flow.held.reset(to: 1)
      readyCount -= entry.flow.work.count
    }
  }

  /// The owner may run again, or may run more: its held tickets come back.
  func release(_ ownerQueue: OwnerQueue, ownerLimit: Int) {
    guard !ownerQueue.isRemoved, !ownerQueue.isHeld(ownerLimit) else { return }
    looksAgain()
    for level in 0..<PriorityLevel.count { ownerQueue.forEachFlow(at: level) { release($0, level: level) } }
  }

  /// What held up barriers may do so no more.
  func looksAgain() { isHeldUp = false }

  private func release(_ flow: Flow, level: Int) {
    guard flow.held.count > 0, !flow.isLineHeld else { return }
    switch fairness {
    case .firstComeFirstServed: bringBackHeld(of: flow, level: level)
    case .roundRobin: enterRunQueue(flow, level: level, atFront: false)
    }
  }

  private func bringBackHeld(of flow: Flow, level: Int) {
    // The oldest of a line is enough: its end brings the next. All of them would only be held again, one by one, by whoever comes to them.
    repeat {
      guard let (age, tickets) = flow.held.takeOldest() else { return }
      runQueues[level].bringBack(RunQueue.Entry(flow: flow, tickets: tickets, age: Mutation.heldTurnLosesItsAge.isOn ? 0 : age))
      readyCount += tickets
      readyLevels |= 1 << UInt32(level)
    } while flow.line == nil
  }

  /// Something has changed for a line: what comes next in it may be due.
  func release(lineOf flow: Flow, ownerLimit: Int) {
    if Mutation.lineIsNotReleased.isOn { return }
    if !flow.ownerQueue.isRemoved, !flow.ownerQueue.isHeld(ownerLimit) { release(flow, level: LineKey.level) }
  }

  /// How many owners have a turn at the highest level. Round robin only.
  var turns: Int { readyLevels == 0 ? 0 : runQueues[readyLevels.trailingZeroBitCount].count }

  // MARK: Finishing

  /// Work is over.
  @inline(__always)  // for each job
  func finish(_ ownerQueue: OwnerQueue, count: Int = 1) {
    unfinished -= count
    ownerQueue.changeUnfinished(by: -count)
  }

  /// A worker has let go of one item, or an operation has ended that executed without a worker. Then `by` is -1; it is 1 when that begins.
  func changeExecuting(_ ownerQueue: OwnerQueue, by change: Int) {
    executing += change
    ownerQueue.executing += change
  }
}

extension OwnerQueue {
  /// Valid until `isRemoved`.
  var phase: BarrierPhase { unretainedPhase.object }
  var unretainedPhase: Borrowed<BarrierPhase> { Borrowed(address: unretainedHome.address) }
}
