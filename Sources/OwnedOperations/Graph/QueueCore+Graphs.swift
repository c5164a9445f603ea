/// Runs of graphs, as far as they concern the queue. Nodes are counted when the run begins, listed when they are ready, and counted out
/// when they are over.
extension QueueCore {
  // MARK: Beginning and ending

  func begin(_ run: GraphRun) {
    let structure = run.structure
    note { $0.begin(run) }
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
    let hasRunOut = mutate { scheduler, _ in
      scheduler.runs[ObjectIdentifier(run)] = nil
      return scheduler.hasRunOut
    }
    if hasRunOut { noteIdle() }
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
      mutate { scheduler, _ in
        if start == 0, !scheduler.list(first, of: run) { refused += run.nodes(of: first) }
        for node in nodes.others[start..<end] where !scheduler.list(node, of: run) { refused += run.nodes(of: node) }
      }
      listed = end
    } while listed < nodes.others.count
    if !refused.isEmpty { run.cancelNodes(refused, otherwise: .cancelled, on: self) }
  }

  /// Gives half of what a worker keeps for itself, nodes of the run, to the others.
  func share(_ stack: NodeStack, of run: GraphRun) {
    guard let (_, nodes) = stack.take(leavesHalf: true) else { return }
    var ready = ReadyNodes()
    for node in nodes { ready.add(node) }
    list(ready, of: run)
  }

  /// Gives all that a worker has kept for itself back.
  func flush(_ stack: NodeStack) {
    guard !stack.isEmpty else { return }
    mutate { scheduler, _ in
      if let (source, nodes) = stack.take() { scheduler.putBack(nodes, of: source) }
    }
  }

  /// A node can't begin now: its owner is held by bodies only. It waits at the front of the ready lists, with all that the owner has.
  /// - Returns: who is to be told when that changes; nil if the owner has ended.
  func putBack(_ node: UInt32, of run: GraphRun) -> OwnerQueue? {
    let ownerQueue = run.ownerQueue(run.arrays.attributes[Int(node)].lifetime)
    return mutate { scheduler, _ in
      guard !ownerQueue.hasEnded, !ownerQueue.isRemoved, ownerQueue.lifetime != nil else { return nil }
      scheduler.putBack([node], of: run.source(of: node))
      scheduler.holdBack(ownerQueue)
      return ownerQueue
    }
  }

  // MARK: Counting

  /// A node that threw. Those that succeed are counted with the worker's batch.
  func countFailedNode(_ ownerQueue: OwnerQueue, on worker: Worker, after succeeded: UInt32) {
    mutate { scheduler, _ in
      worker.batch.setNodesOver(succeeded)
      scheduler.countFailedNode(of: ownerQueue)
    }
  }

  func countCancelledNodes(_ ownerQueue: OwnerQueue, level: Int, count: Int, skipped: Int) {
    mutate { scheduler, _ in scheduler.countCancelledNodes(count, skipped: skipped, of: ownerQueue, level: level) }
  }
}

extension Scheduler {
  /// Counts the nodes of the run, which is about to list its roots.
  fileprivate mutating func begin(_ run: GraphRun) {
    let structure = run.structure
    for (index, lifetime) in structure.lifetimes.enumerated() {
      // Nodes of an owner that has ended are cancelled when their turn comes, and go without one until then.
      let hasNodes = structure.nodeCountsByLifetime[index] > 0
      let ownerQueue = (hasNodes ? ownerQueue(for: Borrowed(lifetime))?.object : nil) ?? lastPhase.with { $0.queueWithoutOwner }
      run.ownerQueues[index] = Retained(ownerQueue)
      ownerQueue.phase.countIn(ownerQueue, count: structure.nodeCountsByLifetime[index])
    }
    statistics.enqueued += structure.nodeCount
    unfinished += structure.nodeCount
    runs[ObjectIdentifier(run)] = run
  }

  /// Puts a node, or a bundle of roots, into its ready list.
  /// - Returns: false if it has been cancelled: nobody would take it out of the list.
  mutating func list(_ number: UInt32, of run: GraphRun) -> Bool {
    let isBundle = number >= run.structure.nodeCount
    let attributes = run.arrays.attributes[Int(isBundle ? run.nodes(of: number)[0] : number)]
    let ownerQueue = run.ownerQueue(attributes.lifetime)
    let isCancelled = run.cancellations[attributes.lifetime].load(ordering: .relaxed) != 0 && !Mutation.cancelledNodeIsListed.isOn
    guard !isCancelled, !ownerQueue.hasEnded else { return false }
    if isBundle {
      for node in run.nodes(of: number) { run.markListed(node) }
    } else {
      run.markListed(number)
    }
    endHandoffBeforeAddition()
    ownerQueue.phase.makeReady(ownerQueue: ownerQueue, level: attributes.level, pool: &pool, ownerLimit: ownerLimit).initialize(
      to: .record(run, number))
    return true
  }
}
