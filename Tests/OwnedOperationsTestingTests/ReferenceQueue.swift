/// What ought to happen in a queue: slow and obvious. See `Simulation`.
///
/// It doesn't run anything. It is told each step, and each start and end of a body, and says what is wrong with it.
///
/// Who may start: what is ready, while the queue is not suspended and fewer execute than the limit; whose owner is not suspended and has
/// fewer executing than the limit of owners; and when everything before its barrier has finished.
/// In which order:
/// - the most urgent first;
/// - of equals, what has become ready first, or, if owners take turns, what has become ready first of each. (An operation that has another
///   priority or a dependency by now may have cost its owner a turn, and so may a plain one that was asked and is not ready; what was
///   cancelled has not.)
/// - of several owners that were held, being suspended or at their limit, any first;
/// - what has become ready by one and the same event, in any order;
/// - `isExact` is false of what may come later than its place: plain operations that wait are asked when nothing else is left to do, and
///   what was blocked again, or has changed its priority back, keeps its place for as long as that has not come up.
struct ReferenceQueue {
  enum Kind {
    case job, delivery, barrier, operation, asynchronous, plain, node
  }

  enum State {
    /// An operation that is in no queue.
    case made
    /// It depends on others.
    case blocked
    case ready, executing, finished
  }

  /// One owner's work of one priority, or one observation's.
  struct Flow: Hashable {
    let owner: Int
    let level: Int
    let line: Int?
  }

  struct Item {
    let id: Int
    let kind: Kind
    let owner: Int
    var level = SimulatedPriority.normal.rawValue
    var body: [SimulationStep] = []
    var fails = false
    var requiresSuccess = false
    /// Of which observation.
    var line: Int?
    /// Of which graph.
    var graph: Int?
    /// Whether its captures are counted.
    var hasCaptures = false

    var state = State.ready
    var isCancelled = false
    var isExact = true
    /// Its owner was suspended, or at its limit, while it was ready, or had been and kept its place.
    var wasHeld = false
    var hasFailed = false
    /// It finished with its owner's end, and nobody had added it. Foundation doesn't hear of that until somebody tries to.
    var isUntold = false
    /// Unfinished.
    var dependencies: Set<Int> = []
    var dependents: [Int] = []
    /// Barriers before it.
    var phase = 0
    /// When it has become ready: among all, and in its flow.
    var place = 0
    var placeInFlow = 0
    /// Its former places by level: among all, and in its flow.
    var places: [Int: Int] = [:]
    var placesInFlow: [Int: Int] = [:]

    var flow: Flow { Flow(owner: owner, level: level, line: line) }
    var isOperation: Bool { kind == .operation || kind == .asynchronous || kind == .plain }
  }

  struct Counts: Equatable {
    var enqueued = 0, started = 0, succeeded = 0, failed = 0, cancelled = 0, skipped = 0, pending = 0, executing = 0
  }

  /// Something to be found by whoever compares.
  enum Defect: CaseIterable, Sendable {
    case lastComesFirst, ignoresPriorities, ignoresTurns, limitIsOneMore, ownersShareOneLimit, barrierWaitsForNobody, barrierHoldsNobody
    case endLeavesJobs, cancelForgetsDependents, suspensionIsIgnored, ownersSuspensionIsForgotten
    case failureIsForgiven, lateDependencyIsIgnored, endIsNoSkip, cancelledGraphGoesOn, invalidatedObservationGoesOn, delayIsLonger
  }

  var defect: Defect?
  var isShuffled = false

  var items: [Int: Item] = [:]
  /// In the queue and not finished, in the order in which they were added.
  var unfinished: [Int] = []
  var delayed: [(time: Int, item: Item)] = []
  var ended: Set<Int> = []
  var suspendedOwners: Set<Int> = []
  var observations: [(id: Int, owner: Int)] = []
  /// Unfinished nodes.
  var graphs: [Int: Int] = [:]
  var cancelledGraphs: Set<Int> = []
  var skippedGraphs: Set<Int> = []
  var isSuspended = false
  var limit: Int?
  var ownerLimit: Int?
  var takesTurns = false
  var lastPhase = 0
  var tally = Counts()
  var clock = 0
  /// What becomes ready now has this place.
  var now = 0
  /// Turns of owners: when each had its last, and since when each has waited for one.
  var starts = 0
  var lastTurns: [Flow: Int] = [:]
  var waitingSince: [Flow: Int] = [:]
  /// Of operations that have left: these cost the owner turns.
  var flowsWithLeftovers: Set<Flow> = []

  init() {}

  // MARK: Looking

  func item(_ id: Int) -> Item? { items[id] }

  var counts: Counts {
    var counts = tally
    counts.executing = unfinished.count { items[$0]?.state == .executing }
    counts.started += counts.executing
    counts.pending = unfinished.count - counts.executing
    return counts
  }

  /// Barriers without an owner don't count.
  var operationCount: Int { unfinished.count { items[$0]?.kind != .barrier || items[$0]?.owner != 0 } }

  func operationCount(of owner: Int) -> Int { unfinished.count { items[$0]?.owner == owner } }

  var operations: [Item] { unfinished.compactMap { items[$0] }.filter(\.isOperation) }

  /// How much work still has what it captured.
  var captureCount: Int {
    let inQueue = items.values.count { $0.hasCaptures && $0.state != .finished && !($0.isOperation && $0.isCancelled) }
    return inQueue + delayed.count { $0.item.hasCaptures }
  }

  func isSuspended(owner: Int) -> Bool { suspendedOwners.contains(owner) }

  // MARK: Order

  struct Situation {
    var firstPhase = Int.max
    var executing = 0
    var executingByOwner: [Int: Int] = [:]
  }

  var situation: Situation {
    var situation = Situation()
    for id in unfinished {
      guard let item = items[id] else { continue }
      situation.firstPhase = min(situation.firstPhase, item.phase)
      if item.state == .executing {
        situation.executing += 1
        situation.executingByOwner[item.owner, default: 0] += 1
      }
    }
    return situation
  }

  /// Why nothing at all may start now.
  private func obstacle(_ situation: Situation) -> String? {
    if isSuspended, defect != .suspensionIsIgnored { return "the queue is suspended" }
    let slack = defect == .limitIsOneMore ? 1 : 0
    if let limit, situation.executing >= limit + slack { return "\(situation.executing) execute already" }
    return nil
  }

  /// Why the item may not start now, whatever the queue says.
  private func obstacle(to item: Item, _ situation: Situation) -> String? {
    guard item.state == .ready else { return "it is \(item.state)" }
    if item.phase > situation.firstPhase, defect != .barrierHoldsNobody { return "a barrier is before it" }
    if item.kind == .barrier, item.owner == 0 {
      guard defect != .barrierWaitsForNobody else { return nil }
      let others = unfinished.contains { $0 != item.id && items[$0].map { $0.phase <= item.phase } ?? false }
      return others ? "it is a barrier, and others are before it" : nil
    }
    if suspendedOwners.contains(item.owner) { return "its owner is suspended" }
    let executing = defect == .ownersShareOneLimit ? situation.executing : situation.executingByOwner[item.owner] ?? 0
    if let ownerLimit, executing >= ownerLimit { return "\(executing) of its owner execute already" }
    return nil
  }

  private func isHeld(_ item: Item, _ situation: Situation) -> Bool {
    suspendedOwners.contains(item.owner) || ownerLimit.map { situation.executingByOwner[item.owner] ?? 0 >= $0 } ?? false
  }

  /// What may start now, in the order in which it was added.
  var startable: [Item] {
    let situation = situation
    guard obstacle(situation) == nil else { return [] }
    return unfinished.compactMap { items[$0] }.filter { obstacle(to: $0, situation) == nil }
  }

  /// What is wrong with a start of this; nil if nothing is.
  func objection(toStartOf id: Int) -> String? {
    guard let item = items[id] else { return "\(id) starts, which was never added" }
    let situation = situation
    if let obstacle = obstacle(situation) ?? obstacle(to: item, situation) { return "\(id) starts, but \(obstacle)" }
    for other in unfinished {
      guard other != id, let other = items[other], other.isExact, obstacle(to: other, situation) == nil else { continue }
      if let reason = reason(other, comesBefore: item) { return "\(id) starts, but \(other.id) comes first: \(reason)" }
    }
    return nil
  }

  private func reason(_ first: Item, comesBefore second: Item) -> String? {
    if first.level != second.level, defect != .ignoresPriorities { return first.level < second.level ? "it is more urgent" : nil }
    let isSameFlow = first.flow == second.flow
    if isShuffled { return isSameFlow && first.line != nil && first.placeInFlow < second.placeInFlow ? "it was posted before" : nil }
    if defect == .lastComesFirst { return first.place > second.place ? "it has become ready before" : nil }
    if isSameFlow { return first.placeInFlow < second.placeInFlow ? "it has become ready before, in the same flow" : nil }
    guard takesTurns, defect != .ignoresTurns else {
      return first.place < second.place && !(first.wasHeld && second.wasHeld) ? "it has become ready before" : nil
    }
    guard !flowsWithLeftovers.contains(first.flow) else { return nil }
    guard let since = waitingSince[first.flow], let last = lastTurns[second.flow] else { return nil }
    return since < last && lastTurns[first.flow] ?? -1 < last ? "its owner has waited since before the last turn of this one" : nil
  }

  /// To be called whenever something has changed.
  mutating func noteTurns() {
    guard takesTurns || ownerLimit != nil || !suspendedOwners.isEmpty else { return }
    let situation = situation
    for id in unfinished {
      guard let item = items[id], !item.wasHeld, isHeld(item, situation) else { continue }
      if item.state == .ready || item.state == .blocked && !item.places.isEmpty { items[id]?.wasHeld = true }
    }
    var waiting: Set<Flow> = []
    for id in unfinished {
      if let item = items[id], item.isExact, obstacle(to: item, situation) == nil { waiting.insert(item.flow) }
    }
    waitingSince = waitingSince.filter { waiting.contains($0.key) }
    for flow in waiting where waitingSince[flow] == nil { waitingSince[flow] = starts }
  }

  // MARK: Waiting

  /// Whether a wait until this has finished comes to its end: played through in a copy.
  func comesToEnd(_ isAwaited: (Item) -> Bool) -> Bool {
    // What their bodies do, and which of them begins first, may decide whether the wait ends.
    guard unfinished.allSatisfy({ items[$0].map { $0.body.isEmpty || $0.state == .executing } ?? true }) else { return false }
    let mayHoldUp = limit != nil || ownerLimit != nil
    let willExecute = unfinished.contains { items[$0]?.kind == .asynchronous && items[$0]?.state != .executing }
    guard !mayHoldUp || !willExecute else { return false }
    var copy = self
    while copy.unfinished.contains(where: { copy.items[$0].map(isAwaited) ?? false }) {
      guard let next = copy.startable.first(where: { copy.objection(toStartOf: $0.id) == nil }) else { return false }
      copy.start(next.id)
      if next.kind != .asynchronous { copy.end(next.id, fails: next.fails) }
    }
    return true
  }
}
