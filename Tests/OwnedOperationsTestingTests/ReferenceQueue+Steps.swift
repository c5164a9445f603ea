/// What each step, and each start and end of a body, makes of what is in the queue.
extension ReferenceQueue {
  // MARK: Bodies

  /// The time has come to this many milliseconds.
  mutating func moveClock(to time: Int) {
    clock = max(clock, time)
    let last = defect == .delayIsLonger ? clock - 1 : clock
    let due = delayed.filter { $0.time <= last }.sorted { $0.time < $1.time }
    guard !due.isEmpty else { return }
    delayed.removeAll { $0.time <= last }
    for (_, item) in due { add(item) }
    noteTurns()
  }

  mutating func start(_ id: Int) {
    guard let item = items[id] else { return }
    items[id]?.state = .executing
    starts += 1
    lastTurns[item.flow] = starts
    noteTurns()
  }

  /// The body, or what has to be done instead, is over.
  mutating func end(_ id: Int, fails: Bool = false) {
    guard let item = items[id], item.state == .executing else { return }
    now += 1
    tally.started += 1
    if item.isCancelled {
      tally.cancelled += 1
    } else if fails {
      tally.failed += 1
    } else {
      tally.succeeded += 1
    }
    finish(id, isFailure: fails && defect != .failureIsForgiven)
    noteTurns()
  }

  // MARK: Steps

  mutating func apply(_ step: SimulationStep) {
    now += 1
    perform(step)
    noteTurns()
  }

  private mutating func perform(_ step: SimulationStep) {
    switch step {
    case .job(let id, let owner, let priority, let body):
      add(Item(id: id, kind: .job, owner: owner, level: priority.rawValue, body: body, hasCaptures: true))
    case .delayedJob(let id, let owner, let milliseconds, let body):
      let item = Item(id: id, kind: .job, owner: owner, body: body, hasCaptures: true)
      if !ended.contains(owner) { delayed.append((clock + milliseconds, item)) }
    case .closure(let id, let body): add(Item(id: id, kind: .operation, owner: 0, body: body, hasCaptures: true))
    case .operation(let id, let kind, let owner, let priority, let after, let isAdded, let body):
      make(id, kind, owner, priority, after, body)
      if isAdded { addOperations([id]) }
    case .add(let ids): addOperations(ids)
    case .barrier(let id, let body):
      add(Item(id: id, kind: .barrier, owner: 0, body: body, hasCaptures: true))
      lastPhase += 1
    case .ownersBarrier(let id, let owner, let body):
      if !ended.contains(owner) { lastPhase += 1 }
      add(Item(id: id, kind: .job, owner: owner, body: body, hasCaptures: true))
      if !ended.contains(owner) { lastPhase += 1 }
    case .graph(let id, let owner, let priority, let shape, let nodes): addGraph(id, owner, priority, shape, nodes)
    case .observe(let id, let owner): if !ended.contains(owner) { observations.append((id, owner)) }
    case .post(let id):
      for observation in observations {
        add(Item(id: Self.delivery(of: id, to: observation.id), kind: .delivery, owner: observation.owner, line: observation.id))
      }
    case .finish(let id, let fails): end(id, fails: fails)
    case .depend(let id, let other): depend(id, on: other)
    case .dependNoMore(let id, let other): resolve(other, of: id)
    case .setPriority(let id, let priority): setLevel(priority.rawValue, of: id)
    case .cancel(let id): cancelOperation(id)
    case .cancelGraph(let id): if defect != .cancelledGraphGoesOn { cancelGraph(id, isSkip: false) }
    case .cancelAll: cancel { _ in true }
    case .cancelOwner(let owner): cancel { $0.owner == owner }
    case .endOwner(let owner): end(owner: owner)
    case .invalidate(let id):
      observations.removeAll { $0.id == id }
      if defect != .invalidatedObservationGoesOn { cancel { $0.line == id } }
    case .suspend(let isOn): isSuspended = isOn
    case .suspendOwner(let owner, let isOn):
      if isOn, !ended.contains(owner) { suspendedOwners.insert(owner) } else if !isOn { suspendedOwners.remove(owner) }
      if defect == .ownersSuspensionIsForgotten, unfinished.isEmpty { suspendedOwners.remove(owner) }
    case .limit(let limit): self.limit = limit
    case .ownerLimit(let limit): ownerLimit = limit
    case .takeTurns(let isOn): setTakesTurns(isOn)
    case .runNext, .runAll, .advance, .waitForAll, .waitForOwner, .waitFor: break
    }
  }

  static func delivery(of post: Int, to observation: Int) -> Int { 1_000_000 + post * 1000 + observation }

  // MARK: Adding

  mutating func add(_ item: Item) {
    now += 1
    var item = item
    tally.enqueued += 1
    guard !ended.contains(item.owner) else {
      tally.cancelled += 1
      tally.skipped += 1
      item.state = .finished
      items[item.id] = item
      return
    }
    item.phase = lastPhase
    items[item.id] = item
    unfinished.append(item.id)
    makeReady(item.id)
  }

  private mutating func makeReady(_ id: Int) {
    guard var item = items[id] else { return }
    item.state = .ready
    if let former = item.places[item.level], let formerInFlow = item.placesInFlow[item.level] {
      item.place = former
      item.placeInFlow = formerInFlow
      item.isExact = false
    } else {
      item.takePlace(now, at: item.level)
      item.place = now
      item.placeInFlow = now
    }
    items[id] = item
  }

  private mutating func make(
    _ id: Int, _ kind: SimulatedKind, _ owner: Int, _ priority: SimulatedPriority, _ after: [Int], _ body: [SimulationStep]
  ) {
    let itemKind: Kind = kind == .plain ? .plain : kind == .asynchronous ? .asynchronous : .operation
    var item = Item(id: id, kind: itemKind, owner: kind == .plain ? 0 : owner, level: priority.rawValue, body: body)
    item.fails = kind == .failing
    item.requiresSuccess = kind == .strict
    item.hasCaptures = kind != .plain && kind != .asynchronous
    item.state = ended.contains(item.owner) ? .finished : .made
    item.isCancelled = item.state == .finished
    item.isUntold = item.isCancelled
    items[id] = item
    for other in after { depend(id, on: other) }
  }

  private mutating func addOperations(_ ids: [Int]) {
    let isRefused = ids.contains { items[$0].map { ended.contains($0.owner) } ?? false }
    guard !isRefused || ids.count == 1 else {
      // All or none; then one by one.
      for id in ids { addOperations([id]) }
      return
    }
    for id in ids { addOperation(id) }
    // Those that were cancelled before need no turn.
    for id in ids { if let item = items[id], item.isCancelled, item.state == .ready, item.kind != .plain { finishCancelled(id) } }
  }

  private mutating func addOperation(_ id: Int) {
    guard let item = items[id] else { return }
    tally.enqueued += 1
    guard !ended.contains(item.owner) else {
      tally.cancelled += 1
      tally.skipped += 1
      items[id]?.isUntold = false
      for dependent in item.dependents { resolve(id, of: dependent) }
      return
    }
    now += 1
    unfinished.append(id)
    items[id]?.phase = lastPhase
    if item.dependencies.isEmpty || item.isCancelled { makeReady(id) } else { items[id]?.state = .blocked }
    if item.dependencies.contains(where: { items[$0]?.isUntold ?? false }) { noteQuestion(to: id) }
  }

  /// A plain operation that waits is asked in its owner's turn, since what it waits for has finished. Foundation doesn't know that yet.
  private mutating func noteQuestion(to id: Int) {
    guard let item = items[id] else { return }
    flowsWithLeftovers.insert(item.flow)
    // Until it comes up it has a place, and is in it if Foundation hears of the end meanwhile.
    if item.state == .blocked, item.places.isEmpty { items[id]?.takePlace(now, at: item.level) }
  }

  private mutating func finishCancelled(_ id: Int, isSkip: Bool = false) {
    tally.cancelled += 1
    if isSkip { tally.skipped += 1 }
    finish(id, isFailure: true)
  }

  private mutating func addGraph(_ id: Int, _ owner: Int, _ priority: SimulatedPriority, _ shape: SimulatedGraph, _ nodes: Int) {
    guard !ended.contains(owner) else { return }
    graphs[id] = nodes
    for node in 0..<nodes {
      var item = Item(id: id + node, kind: .node, owner: owner, level: priority.rawValue, graph: id)
      let predecessors = shape.predecessors(of: node, among: nodes).map { id + $0 }
      item.dependencies = Set(predecessors)
      for predecessor in predecessors { items[predecessor]?.dependents.append(item.id) }
      add(item)
      if !predecessors.isEmpty {
        items[item.id]?.state = .blocked
        items[item.id]?.leavePlaces()
      }
    }
  }

  // MARK: Dependencies

  /// Whether the first waits for the second, through whatever is between.
  func depends(_ id: Int, on other: Int) -> Bool {
    id == other || items[id]?.dependencies.contains { depends($0, on: other) } ?? false
  }

  private mutating func depend(_ id: Int, on other: Int) {
    guard let dependency = items[other], let item = items[id], item.state != .finished, !depends(other, on: id) else { return }
    let isUnfinished = dependency.state != .finished || item.kind == .plain && dependency.isUntold
    if isUnfinished, defect != .lateDependencyIsIgnored || item.state == .made {
      items[id]?.dependencies.insert(other)
      if !dependency.dependents.contains(id) { items[other]?.dependents.append(id) }
      if item.kind == .plain || dependency.kind == .plain { items[id]?.isExact = false }
      if item.state == .ready, !item.isCancelled {
        flowsWithLeftovers.insert(item.flow)
        items[id]?.state = .blocked
      }
    }
    let hasFailed = dependency.kind == .plain ? dependency.state == .finished && dependency.isCancelled : dependency.isFailure
    if item.requiresSuccess, hasFailed { cancelOperation(id) }
  }

  private mutating func resolve(_ other: Int, of id: Int) {
    guard items[id]?.dependencies.remove(other) != nil, let item = items[id] else { return }
    if item.state == .blocked, item.dependencies.isEmpty { makeReady(id) }
  }

  private mutating func setLevel(_ level: Int, of id: Int) {
    guard let item = items[id], item.level != level else { return }
    items[id]?.level = level
    // What is blocked again may still have its place, and then gets one of the new priority.
    if item.state == .blocked, !item.places.isEmpty, item.places[level] == nil { items[id]?.takePlace(now, at: level) }
    guard item.state == .ready else { return }
    flowsWithLeftovers.insert(item.flow)
    makeReady(id)
  }

  // MARK: Finishing and cancelling

  private mutating func finish(_ id: Int, isFailure: Bool) {
    guard let item = items[id] else { return }
    items[id]?.state = .finished
    items[id]?.hasFailed = isFailure
    if item.state == .made { items[id]?.isUntold = true }
    unfinished.removeAll { $0 == id }
    if let graph = item.graph { graphs[graph]? -= 1 }
    let isFailure = item.kind == .plain ? item.isCancelled : isFailure || item.isCancelled
    for dependent in item.dependents where defect != .cancelForgetsDependents || !item.isCancelled {
      if item.state == .made, items[dependent]?.kind == .plain {
        noteQuestion(to: dependent)
        continue
      }
      if isFailure, items[dependent]?.dependencies.contains(id) ?? false { cancelIfStrict(dependent) }
      if let graph = item.graph, cancelledGraphs.contains(graph) { cancelNode(dependent, after: id) }
      resolve(id, of: dependent)
    }
  }

  private mutating func cancelIfStrict(_ id: Int) {
    guard let item = items[id], item.requiresSuccess, item.state != .executing else { return }
    cancelOperation(id, isSkip: ended.contains(item.owner) && defect != .endIsNoSkip)
  }

  private mutating func cancelOperation(_ id: Int, isSkip: Bool = false) {
    guard let item = items[id], item.state != .finished, !item.isCancelled else { return }
    items[id]?.isCancelled = true
    if item.kind == .plain {
      // It finishes when its turn comes, which nobody is told of.
      items[id]?.isExact = false
      if item.state == .blocked {
        items[id]?.dependencies = []
        makeReady(id)
      }
      return
    }
    if item.state == .blocked || item.state == .ready { finishCancelled(id, isSkip: isSkip) }
    for dependent in item.dependents where items[dependent]?.dependencies.contains(id) ?? false { cancelIfStrict(dependent) }
  }

  /// A job, a delivery, a barrier.
  private mutating func drop(_ id: Int, isSkip: Bool) {
    if items[id]?.state != .executing { finishCancelled(id, isSkip: isSkip) }
  }

  private mutating func cancel(isSkip: Bool = false, _ isMeant: (Item) -> Bool) {
    for id in unfinished.reversed() {
      guard let item = items[id], isMeant(item) else { continue }
      switch item.kind {
      case .job, .delivery, .barrier: drop(id, isSkip: isSkip)
      case .operation, .asynchronous, .plain: cancelOperation(id, isSkip: isSkip)
      case .node: if let graph = item.graph { cancelGraph(graph, isSkip: isSkip) }
      }
    }
  }

  private mutating func cancelGraph(_ id: Int, isSkip: Bool) {
    guard cancelledGraphs.insert(id).inserted else { return }
    if isSkip { skippedGraphs.insert(id) }
    for node in unfinished where items[node]?.graph == id && items[node]?.state == .ready { cancelNode(node, after: nil) }
  }

  /// Those of its predecessors that execute come first.
  private mutating func cancelNode(_ id: Int, after predecessor: Int?) {
    if let predecessor { items[id]?.dependencies.remove(predecessor) }
    guard let item = items[id], item.dependencies.isEmpty, item.state == .ready || item.state == .blocked else { return }
    drop(id, isSkip: item.graph.map { skippedGraphs.contains($0) } ?? false)
  }

  private mutating func end(owner: Int) {
    guard ended.insert(owner).inserted else { return }
    suspendedOwners.remove(owner)
    observations.removeAll { $0.owner == owner }
    delayed.removeAll { $0.item.owner == owner }
    let leavesJobs = defect == .endLeavesJobs
    cancel(isSkip: defect != .endIsNoSkip) { $0.owner == owner && !(leavesJobs && $0.kind == .job) }
    for (id, item) in items where item.owner == owner && item.state == .made {
      items[id]?.isCancelled = true
      finish(id, isFailure: true)
    }
  }

  private mutating func setTakesTurns(_ isOn: Bool) {
    guard isOn != takesTurns else { return }
    takesTurns = isOn
    (lastTurns, waitingSince) = ([:], [:])
    // Whoever has turns in a row then: the order is one of each owner's work only, which is the one that it was.
    for id in unfinished where !isOn && items[id]?.places.isEmpty == false {
      items[id]?.place = now
      for level in items[id].map({ Array($0.places.keys) }) ?? [] { items[id]?.places[level] = now }
    }
  }
}

extension ReferenceQueue.Item {
  /// Of ours, as soon as it was cancelled or has failed.
  fileprivate var isFailure: Bool { isCancelled || state == .finished && hasFailed }

  fileprivate mutating func takePlace(_ place: Int, at level: Int) {
    places[level] = place
    placesInFlow[level] = place
  }

  fileprivate mutating func leavePlaces() { (places, placesInFlow) = ([:], [:]) }
}
