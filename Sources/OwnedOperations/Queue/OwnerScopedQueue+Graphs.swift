import Foundation

/// Runs of graphs, as far as they are the queue's affair: nodes are counted when the run begins, listed when they are ready, and counted
/// out when they are over.
extension OperationGraph {
  /// Begins a run. Nodes run like jobs of their owners: by priority, with the queue's limits and barriers, and counted in its statistics; a
  /// node that becomes ready may run before work of the same priority that came earlier.
  /// - Returns: the run, to wait for, ask, or cancel. It may be let go. A graph without nodes has finished when this returns.
  /// - Throws: what ``validate()`` throws, and ``OwnerScopedQueueError/ownerEnded(operation:owner:)`` if the owner of the graph has ended.
  /// - Complexity: linear in the nodes and their owners; after an edit of the graph, in the edges, too.
  @discardableResult
  public func run(on queue: OwnerScopedQueue) throws(OwnerScopedQueueError) -> GraphRun {
    let (structure, bodies, policy) = try storage.compiled()
    let lifetime = structure.lifetimes[0]
    guard lifetime.isAlive else { throw .ownerEnded(operation: "the graph", owner: lifetime.id) }
    let run = GraphRun(of: storage, structure, bodies, policy, queue: queue)
    if structure.nodeCount > 0 { queue.begin(run) } else { run.sinksDidFinish(0, on: nil) }
    return run
  }
}

extension OwnerScopedQueue {
  // MARK: Beginning and ending

  fileprivate func begin(_ run: GraphRun) {
    let structure = run.structure
    core.note { $0.begin(run) }
    guard structure.lifetimes[0].join(run) else {
      run.cancel(.graphOwnerEnded)
      run.cancelNodes(structure.roots, otherwise: .graphOwnerEnded, on: self)
      return
    }
    var ready = ReadyNodes()
    for root in structure.roots {
      if run.reasonNotToRun(root) != nil { ready.doomed.append(root) } else { ready.add(root) }
    }
    if ready.doomed.isEmpty, structure.bundleCount > 0, driver == nil { ready = ReadyNodes(bundlesOf: structure) }
    list(ready, of: run)
    run.cancelNodes(ready.doomed, otherwise: .cancelled, on: self)
  }

  func forget(_ run: GraphRun) {
    core.mutate { state, _ in state.runs[ObjectIdentifier(run)] = nil }
  }

  // MARK: Ready nodes

  private static let nodesPerHold = 2048

  /// Puts the nodes into the ready lists, in this order. Those that turn out to be cancelled are finished instead.
  func list(_ nodes: ReadyNodes, of run: GraphRun) {
    guard let first = nodes.first else { return }
    var refused: ContiguousArray<UInt32> = []
    var listed = 0
    repeat {
      let start = listed
      let end = min(nodes.others.count, listed + Self.nodesPerHold)
      core.mutate { state, _ in
        if start == 0, !state.list(first, of: run) { refused += run.nodes(of: first) }
        for node in nodes.others[start..<end] where !state.list(node, of: run) { refused += run.nodes(of: node) }
      }
      listed = end
    } while listed < nodes.others.count
    if !refused.isEmpty { run.cancelNodes(refused, otherwise: .cancelled, on: self) }
  }

  /// Gives half of what a worker keeps for itself to the others.
  func share(_ stack: NodeStack) {
    guard let (run, nodes) = stack.take(leavesHalf: true) else { return }
    var ready = ReadyNodes()
    for node in nodes { ready.add(node) }
    list(ready, of: run)
  }

  /// Gives all that a worker has kept for itself back.
  func flush(_ stack: NodeStack) {
    guard !stack.isEmpty else { return }
    core.mutate { state, _ in
      if let (run, nodes) = stack.take() { state.putBack(nodes, of: run) }
    }
  }

  /// A node can't begin now: its owner is held by bodies only. It waits at the front of the ready lists, with all that the owner has.
  /// - Returns: who is to be told when that changes; nil if the owner has ended.
  func putBack(_ node: UInt32, of run: GraphRun) -> OwnerSlot? {
    let slot = run.slot(run.arrays.attributes[Int(node)].lifetime)
    return core.mutate { state, _ in
      guard !slot.hasEnded, !slot.isRemoved, slot.lifetime != nil else { return nil }
      state.putBack([node], of: run)
      slot.isHeldBack = true
      return slot
    }
  }

  // MARK: Counting

  /// A node that threw. Those that succeed are counted with the worker's batch.
  func countFailedNode(_ slot: OwnerSlot, on worker: Worker, after succeeded: UInt32) {
    core.mutate { state, _ in
      worker.batch.setNodesOver(succeeded)
      slot.stage.finish(slot)
      state.statistics.count(WorkBatch.Tally(failed: 1))
      state.finish(1)
    }
  }

  func countCancelledNodes(_ slot: OwnerSlot, level: Int, count: Int, skipped: Int) {
    core.mutate { state, _ in
      slot.stage.finish(slot, count: count)
      state.noteDead(count, level: level, of: slot)
      state.statistics.cancelled += count
      state.statistics.skippedForEndedOwners += skipped
      state.finish(count, withoutRunning: count)
      state.afterFinish(of: slot)
    }
  }

  // MARK: Cancelling

  /// For records taken out of the ready lists: has their runs cancel the nodes. Outside the lock.
  func cancelNodes(in taken: [TakenWork]) {
    for work in taken { work.forEachRun { run, nodes in run.recordsWereTakenOut(nodes, on: self) } }
  }
}

extension QueueState {
  /// Counts the nodes of the run, which is about to list its roots.
  fileprivate mutating func begin(_ run: GraphRun) {
    let structure = run.structure
    for (index, lifetime) in structure.lifetimes.enumerated() {
      // Nodes of an owner that has ended are cancelled when their turn comes, and go without one until then.
      let hasNodes = structure.nodeCountsByLifetime[index] > 0
      let slot = (hasNodes ? slot(for: Borrowed(lifetime))?.object : nil) ?? lastStage.with { $0.slotWithoutOwner }
      run.slots[index] = Retained(slot)
      slot.stage.addBlocked(slot, count: structure.nodeCountsByLifetime[index])
    }
    statistics.enqueued += structure.nodeCount
    unfinished += structure.nodeCount
    runs[ObjectIdentifier(run)] = run
  }

  /// Puts a node, or a bundle of roots, into its ready list.
  /// - Returns: false if it has been cancelled: nobody would take it out of the list.
  @inline(__always)  // for each node
  mutating func list(_ number: UInt32, of run: GraphRun) -> Bool {
    let isBundle = number >= run.structure.nodeCount
    let attributes = run.arrays.attributes[Int(isBundle ? run.nodes(of: number)[0] : number)]
    let slot = run.slot(attributes.lifetime)
    guard run.cancellations[attributes.lifetime].load(ordering: .relaxed) == 0, !slot.hasEnded else { return false }
    if isBundle {
      for node in run.nodes(of: number) { run.markListed(node) }
    } else {
      run.markListed(number)
    }
    endHandoverBeforeAddition()
    slot.stage.makeReady(slot: slot, level: attributes.level, pool: &pool, ownerLimit: ownerLimit).initialize(to: .graphNode(run, number))
    return true
  }

  /// Puts nodes that a worker had kept for itself before all others of their owner and priority. Those that have been cancelled meanwhile
  /// are finished after unlocking.
  mutating func putBack(_ nodes: ContiguousArray<UInt32>, of run: GraphRun) {
    guard let first = nodes.first else { return }
    let attributes = run.arrays.attributes[Int(first)]
    let slot = run.slot(attributes.lifetime)
    for node in nodes { run.markListed(node) }
    guard run.cancellations[attributes.lifetime].load(ordering: .relaxed) == 0, !slot.hasEnded else {
      var list = WorkList()
      for node in nodes { list.append(.graphNode(run, node), pool: &pool) }
      garbage.append(TakenWork(list))
      return
    }
    let records = UnsafeMutablePointer<Work>.allocate(capacity: nodes.count)
    for (index, node) in nodes.enumerated() { (records + index).initialize(to: .graphNode(run, node)) }
    // They go back as if they were records that had been taken, which count as executing.
    slot.stage.changeExecuting(slot, by: nodes.count)
    slot.stage.giveBack(movingFrom: records, count: nodes.count, lane: slot.makeLane(at: attributes.level), level: attributes.level)
    records.deallocate()
  }
}

extension TakenWork {
  /// Calls `body` with the nodes among the records, those of one run that follow each other together.
  fileprivate func forEachRun(_ body: (GraphRun, [UInt32]) -> Void) {
    var current: GraphRun?
    var nodes: [UInt32] = []
    visit { work in
      guard case .graphNode(let run, let node) = work else { return }
      if let current, current !== run {
        body(current, nodes)
        nodes = []
      }
      current = run
      nodes += run.nodes(of: node)
    }
    if let current { body(current, nodes) }
  }
}
