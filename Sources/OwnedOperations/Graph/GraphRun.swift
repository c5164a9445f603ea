import Foundation
import Synchronization

/// One run of an ``OperationGraph`` on a queue. The queue keeps it until it has finished.
///
/// All members may be used from any thread, also from inside nodes.
public final class GraphRun: Sendable, LifetimeMember, NodeRun {
  // Protocol
  //
  // - `counts[n]`: how many predecessors of node n are unfinished. Whoever finishes a node decrements those of its successors (acquiring
  //   and releasing). Whoever brings one to zero has that node in hand. (If there is only one predecessor, nobody counts.) The highest bit
  //   says that a predecessor did not succeed; it is set before the decrement.
  // - `states[n]`: `waiting` ──▶ outcome, for a node that is run, or cancelled, by the thread that has it in hand.
  //   `waiting` ──▶ `listed` ──▶ `claimed` ──▶ outcome, for one that is put into the queue's ready lists. `listed` is stored under the
  //   queue's lock. `claimed` is set by compare and exchange: the worker, a canceller or the owner's end wins it. The item in the ready
  //   list of a node claimed by others is found to be out of date when its turn comes.
  // - An outcome is stored (releasing), and counted by the queue, before the successors' counts are touched. Every node leads to a sink. So
  //   when the last sink has finished, nobody touches a closure of the run any more, and the queue has counted all nodes.
  // - `cancellations[i]`: whether the nodes of lifetime i are cancelled, and why. Stored under the queue's lock, under which nodes are
  //   listed. So whoever has stored it sees all nodes that were listed before, and claims them; later ones are not listed. A worker reads
  //   it, and asks the lifetimes, after it has the node in hand and before it runs it: that decides the start.

  static let memberKind: MemberKind = MemberKind(of: GraphRun.self)

  let structure: GraphStructure
  let policy: DependencyPolicy
  private let storage: GraphStorage
  /// Nothing is left to do once the queue has gone: it takes its runs along.
  let reference: QueueReference?

  // Pointers to atomics, and to what is written before the run is published.
  let arrays: GraphArrays
  let pieces: NodeBodyPieces
  let counts: RawStorage<Atomic<UInt32>>
  let states: RawStorage<Atomic<UInt8>>
  let cancellations: RawStorage<Atomic<UInt8>>
  /// The structure keeps them. Named without counting references, because all workers would count the same ones.
  let lifetimes: RawStorage<Borrowed<OwnerLifetime>>
  /// The owner queue of each lifetime, retained. Written under the queue's lock, before the first node is listed.
  let ownerQueues: RawStorage<Retained<OwnerQueue>?>
  /// Until the run has finished; see the protocol.
  nonisolated(unsafe) private var bodies: NodeBodies?
  private let unfinishedSinks: Atomic<Int>
  private let hasFinished = Atomic<Bool>(false)

  let audience = Locked(Audience())  // not private for tests
  struct Audience {
    var thrown: [UInt32: any Error] = [:]
    /// For each node, which of its predecessors did not succeed; empty until one didn't.
    var blamed: ContiguousArray<UInt32> = []
    var waiters: [Waiter] = []
    var finishActions: [@Sendable (GraphRun) -> Void] = []
  }

  private let memberPlace = SharedCell(MemberList.notListed)  // guarded by the lifetime's lock
  var memberIndex: Int32 {
    get { memberPlace.value }
    set { memberPlace.value = newValue }
  }

  /// A bit of `counts`.
  static let predecessorFailed: UInt32 = 1 << 31

  enum NodeState: UInt8 {
    case waiting, listed, claimed
    // Outcomes.
    case succeeded, failed
    case cancelled, ownerEnded, graphOwnerEnded, dependencyFailed

    var isOutcome: Bool { rawValue >= NodeState.succeeded.rawValue }
    var isEndOfOwner: Bool { self == .ownerEnded || self == .graphOwnerEnded }
  }

  init(of storage: GraphStorage, _ structure: GraphStructure, _ bodies: NodeBodies, _ policy: DependencyPolicy, queue: QueueCore) {
    self.storage = storage
    self.structure = structure
    self.bodies = bodies
    arrays = structure.arrays
    pieces = bodies.pieces
    self.policy = policy
    reference = queue.reference
    let count = structure.nodeCount
    counts = RawStorage(copying: structure.predecessorCounts.start, count: count)
    states = RawStorage(zeroes: count)
    let lifetimeCount = structure.lifetimes.count
    cancellations = RawStorage(zeroes: lifetimeCount)
    lifetimes = RawStorage(capacity: lifetimeCount)
    ownerQueues = RawStorage(capacity: lifetimeCount)
    ownerQueues.start.initialize(repeating: nil, count: lifetimeCount)
    for (index, lifetime) in structure.lifetimes.enumerated() { (lifetimes.start + index).initialize(to: Borrowed(lifetime)) }
    unfinishedSinks = Atomic(structure.sinkCount)
  }

  deinit {
    lifetimes[0].with { $0.leave(self) }
    for index in 0..<structure.lifetimes.count { ownerQueues[index]?.release() }
  }

  // MARK: State

  /// Whether all nodes have finished, one way or another.
  public var isFinished: Bool { hasFinished.load(ordering: .acquiring) }

  /// How the node ended; nil while it has not, and for nodes that are not part of this run.
  public func outcome(of node: OperationGraph.Node) -> OperationOutcome? {
    guard node.storage === storage, node.index < structure.nodeCount else { return nil }
    return outcome(of: node.index)
  }

  /// The outcomes of all nodes, in the order in which they were made; nil for those that have not finished.
  /// - Complexity: linear in the nodes.
  public var outcomes: [OperationOutcome?] { (0..<UInt32(structure.nodeCount)).map { outcome(of: $0) } }

  private func outcome(of node: UInt32) -> OperationOutcome? {
    guard let state = NodeState(rawValue: states[Int(node)].load(ordering: .acquiring)) else { return nil }
    switch state {
    case .waiting, .listed, .claimed: return nil
    case .succeeded: return .succeeded
    case .failed: return audience.withLock { $0.thrown[node] }.map { .failed($0) }
    case .cancelled: return .cancelled(.requested)
    case .ownerEnded: return .cancelled(.ownerEnded(structure.lifetimes[arrays.attributes[Int(node)].lifetime].id))
    case .graphOwnerEnded: return .cancelled(.ownerEnded(structure.lifetimes[0].id))
    case .dependencyFailed: return .cancelled(.dependencyFailed(structure.name(of: audience.withLock { $0.blamed[Int(node)] })))
    }
  }

  /// The nodes that threw, with what they threw, in the order in which the nodes were made.
  /// - Complexity: linear in those nodes, times the logarithm of their number.
  public var failures: [(node: OperationGraph.Node, error: any Error)] {
    audience.withLock { Array($0.thrown) }.sorted { $0.key < $1.key }.map {
      (OperationGraph.Node(storage: storage, index: $0.key), $0.value)
    }
  }

  /// How many nodes there are, and how they ended.
  public struct Counts: Hashable, Sendable {
    /// All of them, finished or not.
    public var nodes = 0
    /// Those whose bodies returned.
    public var succeeded = 0
    /// Those whose bodies threw.
    public var failed = 0
    /// Those whose bodies never ran, whatever the reason.
    public var cancelled = 0
    /// Not finished yet.
    public var unfinished: Int { nodes - succeeded - failed - cancelled }
  }

  /// - Complexity: linear in the nodes.
  public var nodeCounts: Counts {
    var result = Counts(nodes: structure.nodeCount)
    for node in 0..<structure.nodeCount {
      switch NodeState(rawValue: states[node].load(ordering: .acquiring)) {
      case .succeeded: result.succeeded += 1
      case .failed: result.failed += 1
      case let state? where state.isOutcome: result.cancelled += 1
      default: break
      }
    }
    return result
  }

  // MARK: Waiting

  /// The queue, or its heir; nil if it has gone.
  private var host: (any QueueHost)? { reference?.whileThere { $0.host } ?? nil }

  /// Blocks until all nodes have finished. Inside work of the same queue, another thread takes the work over meanwhile.
  ///
  /// A node can't wait for its own run: that is reported on standard error, and returns at once.
  @available(*, noasync, message: "Use value or finished() instead")
  public func wait() {
    if let worker = Worker.current, let node = worker.graphNode(of: self) {
      OperationReport.report(.waitingForItself(structure.name(of: node)))
      return
    }
    let thread = WaitingThread()
    let hadFinished = Mutation.graphWaiterLooksTooEarly.isOn && isFinished
    let isOver = audience.withLock { audience in
      let isOver = Mutation.graphWaiterLooksTooEarly.isOn ? hadFinished : isFinished
      if !isOver { audience.waiters.append(.thread(thread)) }
      return isOver
    }
    guard !isOver else { return }
    if let host { BlockingRegion.perform(for: .work(of: host, ownedBy: nil), thread) } else { thread.wait() }
  }

  /// Returns when all nodes have finished.
  public func finished() async {
    guard !isFinished, let host else { return await waitInTask() }
    await WaitTarget.work(of: host, ownedBy: nil).whileWaiting { await waitInTask() }
  }

  private func waitInTask() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      let task = SuspendedTask(continuation)
      let isOver = audience.withLock { audience in
        if !isFinished { audience.waiters.append(.task(task)) }
        return isFinished
      }
      if isOver { continuation.resume() }
    }
  }

  /// Returns when all nodes have succeeded.
  /// - Throws: when all nodes have finished, what the first failed node threw, in the order in which the nodes were made. If none failed
  ///   and some were cancelled, `CancellationError`.
  /// - Complexity: beside the wait, linear in the nodes that failed, times the logarithm of their number.
  public var value: Void {
    get async throws {
      await finished()
      if let failure = failures.first { throw failure.error }
      if nodeCounts.cancelled > 0 { throw CancellationError() }
    }
  }

  /// Calls the closure once, on a thread of GCD's, when all nodes have finished. If they have, calls it at once.
  public func onFinish(_ body: @escaping @Sendable (GraphRun) -> Void) {
    let isOver = audience.withLock { audience in
      if !isFinished { audience.finishActions.append(body) }
      return isFinished
    }
    if isOver { perform([body]) }
  }

  private func perform(_ actions: [@Sendable (GraphRun) -> Void]) {
    guard !actions.isEmpty else { return }
    if let driver = reference?.whileThere({ $0.driver }) ?? nil {
      let step = DrivenStep(isShuffled: false) { [self] isNamed in
        for action in actions { action(self) }
        return .ran(isNamed ? "what a graph has to do when it is finished" : nil)
      }
      return driver.add(step)
    }
    ThreadStart.onPool(qos: .default) { [self] in
      for action in actions { action(self) }
    }
  }

  // MARK: For those who run it

  func noteError(_ error: any Error, of node: UInt32) { audience.withLock { $0.thrown[node] = error } }

  /// The node did not succeed, which its successors will not forgive.
  func blame(_ node: UInt32) {
    audience.withLock { audience in
      if audience.blamed.isEmpty { audience.blamed = ContiguousArray(repeating: 0, count: structure.nodeCount) }
      for successor in arrays.successors(of: node) { audience.blamed[Int(successor)] = node }
    }
    for successor in arrays.successors(of: node) {
      counts[Int(successor)].bitwiseOr(Self.predecessorFailed, ordering: .relaxed)
    }
  }

  /// Nodes without successors have finished.
  /// - Parameters:
  ///   - queue: nil if it is being deinitialised.
  ///   - isOnWorker: on the thread that has run the last of them. What the nodes captured is released there, and is no body. It goes in the
  ///     background if the last was cancelled: whoever cancels may be anybody.
  func sinksDidFinish(_ count: Int, on queue: QueueCore?, isOnWorker: Bool = false) {
    guard unfinishedSinks.subtract(count, ordering: .acquiringAndReleasing).newValue == 0 else { return }
    if isOnWorker || Mutation.capturesOfNodesGoWithTheCanceller.isOn {
      ThreadSlot.blockingObserver.object(BlockingObserver.self)?.bodyDidEnd(of: self)
      bodies = nil
    } else if let bodies = bodies.take() {
      DeferredReleases.add(consume bodies)
    }
    queue?.forget(self)
    lifetimes[0].with { $0.leave(self) }
    var (waiters, actions): ([Waiter], [@Sendable (GraphRun) -> Void]) = ([], [])
    audience.withLock { audience in
      hasFinished.store(true, ordering: .releasing)
      swap(&waiters, &audience.waiters)
      swap(&actions, &audience.finishActions)
    }
    for waiter in waiters { waiter.resume() }
    perform(actions)
  }

  /// The graph's owner has ended.
  func lifetimeDidEnd() { cancel(.graphOwnerEnded) }
}
