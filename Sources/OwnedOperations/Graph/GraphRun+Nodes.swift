import Foundation
import Synchronization

/// Running and cancelling nodes. See the protocol in `GraphRun`.
extension GraphRun {
  // MARK: On a worker

  /// Runs a node whose item came up, or a bundle of roots; then those that it made ready, and so on. What it can't run at once waits in the
  /// worker's `NodeStack`, where others can take it. It goes through the queue only if something stands against running on:
  /// - a successor of another owner or priority
  /// - more urgent work
  /// - a limit or a suspension
  /// - other work that has waited for a while.
  func begin(_ number: UInt32, at index: Int, on worker: AnyObject) {
    let worker = Worker.of(worker)
    run(from: number, at: index, on: worker, worker.core)
    worker.end(index, .countsItself)
    worker.letGoOfNodeOwner()
  }

  private func run(from number: UInt32, at index: Int, on worker: Worker, _ queue: QueueCore) {
    let stack = worker.batch.nodeStack
    guard var node = takeInHand(number, stack) else { return }
    let attributes = arrays.attributes[Int(node)]
    let source = source(of: node)
    var time = ChainTime(allowance: Self.chainTime, step: worker.chainStep)
    var succeeded: UInt32 = 0
    var count: UInt32 = 0
    var found = ReadyNodes()
    worker.beginChain(of: self, at: index)
    defer { worker.endChain() }
    while true {
      worker.setChainNode(node)
      found.reset()
      count += 1
      let outcome = perform(node, on: worker, after: succeeded)
      switch outcome {
      case .listed:
        // Held back, see `perform`.
        queue.flush(stack)
        return
      case .succeeded:
        states[Int(node)].store(outcome.rawValue, ordering: .releasing)
        succeeded += 1
        worker.batch.setNodesOver(succeeded)
        collectReady(after: node, keeping: attributes, into: &found)
      case .failed:
        states[Int(node)].store(outcome.rawValue, ordering: .releasing)
        queue.countFailedNode(ownerQueue(attributes.lifetime), on: worker, after: succeeded)
        if policy == .requireSuccess { blame(node) }
        collectReady(after: node, keeping: attributes, into: &found)
      default:
        cancelNodes([node], otherwise: outcome, on: queue)
      }
      var goesOn = !worker.hasBlockedInChain && queue.hint.mayGoOn(at: attributes.level)
      if goesOn, time.isDue(count), time.isUsedUp(&worker.chainStep, batchStart: worker.batchStart) {
        goesOn = !othersWait(worker, queue, level: attributes.level)
      }
      if goesOn { found.pushSiblings(to: stack, of: source) }
      if goesOn, found.hasOthers {
        queue.list(found, of: self)
        found.forgetOthers()
        goesOn = queue.hint.mayGoOn(at: attributes.level)
      }
      if goesOn, !stack.isEmpty {
        if found.next == nil { found.next = stack.pop() }
        if !stack.isEmpty, !queue.hint.hasReadyWork(at: attributes.level) { queue.share(stack, of: self) }
      }
      if !goesOn {
        queue.flush(stack)
        found.giveUpAll()
        queue.list(found, of: self)
      }
      if !found.doomed.isEmpty { cancelNodes(found.doomed, otherwise: .cancelled, on: queue) }
      if found.isSink { sinksDidFinish(1, on: queue, isOnWorker: true) }
      guard goesOn, let next = found.next else { return }
      worker.letGoOfNodeOwner(unlessNext: arrays.attributes[Int(next)].holdsOwner)
      node = next
    }
  }

  /// After this long, other work gets its turn; in nanoseconds.
  private static var chainTime: UInt64 { 50_000 }

  private func othersWait(_ worker: Worker, _ queue: QueueCore, level: Int) -> Bool {
    worker.isGuest || worker.batch.hasItems || !worker.batch.nested.isEmpty || queue.hint.hasReadyWork(at: level)
  }

  /// Takes the first node of a bundle in hand, and pushes the others.
  private func takeInHand(_ number: UInt32, _ stack: NodeStack) -> UInt32? {
    guard number >= structure.nodeCount else { return claim(number) ? number : nil }
    var last: UInt32?
    for node in structure.nodes(ofBundle: number).reversed() where claim(node) {
      // There is room: the stack is empty when a work item begins, and larger than a bundle.
      if let last { _ = stack.push(last, of: source(of: last)) }
      last = node
    }
    return last
  }

  /// The node, or those of a bundle of roots.
  func nodes(of number: UInt32) -> ContiguousArray<UInt32> {
    number < structure.nodeCount ? [number] : ContiguousArray(structure.nodes(ofBundle: number))
  }

  /// Where the node goes back to.
  func source(of node: UInt32) -> NodeStack.Source {
    let attributes = arrays.attributes[Int(node)]
    return NodeStack.Source(run: self, ownerQueue: ownerQueues[attributes.lifetime].unsafelyUnwrapped.borrowed, level: attributes.level)
  }

  func list(_ nodes: ContiguousArray<UInt32>) -> Bool {
    for node in nodes { markListed(node) }
    return nodes.allSatisfy { cancellations[arrays.attributes[Int($0)].lifetime].load(ordering: .relaxed) == 0 }
  }

  func markListed(_ node: UInt32) { states[Int(node)].store(NodeState.listed.rawValue, ordering: .releasing) }

  /// Whether neither the node, nor one of a bundle, waits for its turn.
  func isDead(_ number: UInt32) -> Bool {
    nodes(of: number).allSatisfy { states[Int($0)].load(ordering: .acquiring) != NodeState.listed.rawValue }
  }

  /// - Returns: an outcome. `listed` if the node has gone back to the ready lists, because only its owner's own bodies hold the owner.
  private func perform(_ node: UInt32, on worker: Worker, after succeeded: UInt32) -> NodeState {
    if let reason = reasonNotToRun(node), !Mutation.nodeSkipsTheLifetime.isOn { return reason }
    worker.batch.setBegun(nodesOver: succeeded)
    do {
      try pieces.call(node)
      return .succeeded
    } catch let heldBack as NodeHeldBack {
      worker.batch.setNodesOver(succeeded)
      guard let ownerQueue = worker.core.putBack(node, of: self) else { return .ownerEnded }
      heldBack.hold.keep(HeldBackOwnerQueue(ownerQueue, worker.core))
      return .listed
    } catch is NodeOwnerHasGone {
      worker.batch.setNodesOver(succeeded)
      return .ownerEnded
    } catch {
      noteError(error, of: node)
      return .failed
    }
  }

  /// Takes a listed node in hand.
  private func claim(_ node: UInt32) -> Bool {
    if Mutation.nodeIsClaimedTwice.isOn { return states[Int(node)].load(ordering: .acquiring) == NodeState.listed.rawValue }
    return states[Int(node)].compareExchange(
      expected: NodeState.listed.rawValue, desired: NodeState.claimed.rawValue, ordering: .acquiringAndReleasing
    ).exchanged
  }

  func ownerQueue(_ lifetime: Int) -> OwnerQueue { ownerQueues[lifetime].unsafelyUnwrapped.with { $0 } }

  @inline(__always)  // for each node
  func reasonNotToRun(_ node: UInt32) -> NodeState? {
    let owner = arrays.attributes[Int(node)].lifetime
    let cancellation = cancellations[owner].load(ordering: .acquiring)
    if cancellation != 0 { return NodeState(rawValue: cancellation) }
    if !lifetimes[owner].with({ $0.isAlive }) { return owner == 0 ? .graphOwnerEnded : .ownerEnded }
    if owner != 0, !lifetimes[0].with({ $0.isAlive }) { return .graphOwnerEnded }
    guard policy == .requireSuccess else { return nil }
    return counts[Int(node)].load(ordering: .relaxed) & Self.predecessorFailed != 0 ? .dependencyFailed : nil
  }

  /// Sets the successors of a finished node free, and sorts those that become ready.
  private func collectReady(after node: UInt32, keeping attributes: NodeAttributes, into found: inout ReadyNodes) {
    let successors = arrays.successors(of: node)
    found.isSink = successors.isEmpty
    for successor in successors where isLastPredecessor(of: successor) {
      if reasonNotToRun(successor) != nil {
        found.doomed.append(successor)
      } else if arrays.attributes[Int(successor)] == attributes {
        if found.next == nil { found.next = successor } else { found.addSibling(successor) }
      } else {
        found.add(successor)
      }
    }
  }

  /// Counts one predecessor of the node as finished.
  /// - Returns: whether it was the last one, and the node is in the caller's hand.
  private func isLastPredecessor(of node: UInt32) -> Bool {
    if arrays.attributes[Int(node)].hasOnePredecessor { return true }
    if Mutation.predecessorIsMiscounted.isOn { counts[Int(node)].store(counts[Int(node)].load(ordering: .relaxed) - 1, ordering: .relaxed) }
    let left = counts[Int(node)].subtract(Mutation.predecessorIsMiscounted.isOn ? 0 : 1, ordering: .acquiringAndReleasing).newValue
    return left & ~Self.predecessorFailed == 0
  }

  // MARK: Cancelling

  /// Cancels what has not started. What executes goes on to its end, and has the outcome that it comes to.
  /// - Complexity: linear in the nodes.
  public func cancel() { cancel(.cancelled) }

  /// - Parameter lifetime: cancels the nodes of this one only.
  func cancel(_ reason: NodeState, ownedBy lifetime: OwnerLifetime? = nil) {
    reference?.whileThere { cancel(reason, ownedBy: lifetime, on: $0) }
  }

  func cancelNodes(ownedBy lifetime: OwnerLifetime?) { cancel(.cancelled, ownedBy: lifetime) }

  private func cancel(_ reason: NodeState, ownedBy lifetime: OwnerLifetime?, on queue: QueueCore) {
    guard !isFinished else { return }
    let owners = structure.lifetimes.indices.filter { lifetime == nil || structure.lifetimes[$0] === lifetime }
    guard !owners.isEmpty else { return }
    queue.mutate { scheduler, _ in
      for owner in owners where cancellations[owner].load(ordering: .relaxed) == 0 {
        cancellations[owner].store(reason.rawValue, ordering: .releasing)
      }
      for worker in scheduler.workers.active where !worker.batch.nodeStack.isEmpty { scheduler.reclaimBatch(from: worker) }
    }
    cancelListed(otherwise: reason, on: queue)
  }

  /// The queue is being deinitialised, suspended: nothing will ever start.
  func queueIsGone() {
    for owner in structure.lifetimes.indices { cancellations[owner].store(NodeState.cancelled.rawValue, ordering: .releasing) }
    cancelListed(otherwise: .cancelled, on: nil)
  }

  /// Takes those listed nodes in hand that are to be cancelled.
  private func cancelListed(otherwise reason: NodeState, on queue: QueueCore?) {
    var claimed: ContiguousArray<UInt32> = []
    for node in 0..<UInt32(structure.nodeCount)
    where states[Int(node)].load(ordering: .acquiring) == NodeState.listed.rawValue && reasonNotToRun(node) != nil && claim(node) {
      claimed.append(node)
    }
    cancelNodes(claimed, otherwise: reason, on: queue)
  }

  /// The queue has taken the items of these nodes, and bundles, out of its ready lists.
  func itemsWereTakenOut(_ numbers: [UInt32]) {
    var claimed: ContiguousArray<UInt32> = []
    for number in numbers { claimed += nodes(of: number).filter { claim($0) } }
    guard !claimed.isEmpty else { return }
    if reference?.whileThere({ cancelNodes(claimed, otherwise: .cancelled, on: $0) }) == nil {
      cancelNodes(claimed, otherwise: .cancelled, on: nil)
    }
  }

  /// Cancels nodes that the caller has in hand, and those after them that are to be cancelled as well, wave by wave. Others that become
  /// ready are listed.
  func cancelNodes(_ nodes: ContiguousArray<UInt32>, otherwise reason: NodeState, on queue: QueueCore?) {
    var wave = nodes
    var sinks = 0
    while !wave.isEmpty {
      var counted = CancelledNodes(run: self, queue: queue)
      for node in wave {
        let outcome = reasonNotToRun(node) ?? reason
        states[Int(node)].store(outcome.rawValue, ordering: .releasing)
        let attributes = arrays.attributes[Int(node)]
        counted.add(attributes.lifetime, attributes.level, isSkipped: outcome.isEndOfOwner)
      }
      counted.flush()
      var next: ContiguousArray<UInt32> = []
      var ready = ReadyNodes()
      for node in wave {
        if policy == .requireSuccess { blame(node) }
        let successors = arrays.successors(of: node)
        if successors.isEmpty { sinks += 1 }
        for successor in successors where isLastPredecessor(of: successor) {
          if reasonNotToRun(successor) != nil { next.append(successor) } else { ready.add(successor) }
        }
      }
      if ready.hasOthers {
        queue?.list(ready, of: self)
      }
      wave = next
    }
    if sinks > 0 { sinksDidFinish(sinks, on: queue) }
  }
}

/// Cancelled nodes in a row of the same owner, to be counted together.
private struct CancelledNodes {
  let run: GraphRun
  let queue: QueueCore?
  var owner = 0
  var level = 0
  var count = 0
  var skipped = 0

  mutating func add(_ owner: Int, _ level: Int, isSkipped: Bool) {
    if owner != self.owner || level != self.level { flush() }
    self.owner = owner
    self.level = level
    count += 1
    if isSkipped { skipped += 1 }
  }

  mutating func flush() {
    if count > 0 { queue?.countCancelledNodes(run.ownerQueue(owner), level: level, count: count, skipped: skipped) }
    (count, skipped) = (0, 0)
  }
}

/// Nodes that have just become ready. Most often there are one or two, which need no memory.
struct ReadyNodes {
  /// The one to go on with.
  var next: UInt32?
  /// Of the same owner and priority.
  private var sibling: UInt32?
  private var siblings: ContiguousArray<UInt32> = []
  /// For the queue's ready lists.
  private(set) var first: UInt32?
  private(set) var others: ContiguousArray<UInt32> = []
  /// To be cancelled.
  var doomed: ContiguousArray<UInt32> = []
  var isSink = false

  init() {}
  init(_ node: UInt32) { first = node }

  var hasOthers: Bool { first != nil }

  mutating func add(_ node: UInt32) {
    if first == nil { first = node } else { others.append(node) }
  }

  init(bundlesOf structure: GraphStructure) {
    for bundle in 0..<UInt32(structure.bundleCount) { add(UInt32(structure.nodeCount) + bundle) }
  }

  mutating func addSibling(_ node: UInt32) {
    if sibling == nil { sibling = node } else { siblings.append(node) }
  }

  /// So that they come out in order. Those that find no room go to the queue.
  @inline(__always)  // for each node
  mutating func pushSiblings(to stack: NodeStack, of source: NodeStack.Source) {
    guard let sibling else { return }
    let fitting = min(siblings.count, NodeStack.capacity / 2)
    for node in siblings[fitting...] { add(node) }
    for node in siblings[..<fitting].reversed() where !stack.push(node, of: source) { add(node) }
    if !stack.push(sibling, of: source) { add(sibling) }
    self.sibling = nil
    siblings.removeAll(keepingCapacity: true)
  }

  mutating func forgetOthers() {
    first = nil
    others.removeAll(keepingCapacity: true)
  }

  /// All go to the queue, in order.
  mutating func giveUpAll() {
    var all = ContiguousArray([next, sibling].compactMap { $0 })
    all += siblings
    if let first { all.append(first) }
    all += others
    (next, sibling, siblings) = (nil, nil, [])
    first = all.first
    others = ContiguousArray(all.dropFirst())
  }

  @inline(__always)  // for each node
  mutating func reset() {
    next = nil
    first = nil
    sibling = nil
    isSink = false
    if !siblings.isEmpty { siblings.removeAll(keepingCapacity: siblings.count < 4096) }
    if !others.isEmpty { others.removeAll(keepingCapacity: others.count < 4096) }
    if !doomed.isEmpty { doomed.removeAll(keepingCapacity: doomed.count < 4096) }
  }
}
