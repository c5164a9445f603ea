import Foundation
import Synchronization

/// One run of an ``OperationGraph`` on a queue. The queue keeps it until it has finished.
///
/// All members may be used from any thread, also from inside nodes.
///
/// ## Protocol
///
/// - `counts[n]`: how many predecessors of node n are unfinished. Who finishes a node decrements those of its successors (acquiring and releasing); who brings one to
///   zero has the node in hand. (If there is only one predecessor, nobody counts.) The highest bit says that a predecessor did not succeed; it is set before the decrement.
/// - `states[n]`: `waiting` ──▶ outcome, for a node that is run, or cancelled, by the thread that has it in hand.
///   `waiting` ──▶ `listed` ──▶ `claimed` ──▶ outcome, for one that is put into the queue's ready lists. `listed` is stored under the
///   queue's lock; `claimed` by compare and exchange, which one of the worker, a canceller and the owner's end wins. The record in the ready list of a node claimed by others is found to be out of date when its turn comes.
/// - An outcome is stored (releasing), and counted by the queue, before the successors' counts are touched. Every node leads to a sink, so when the last sink has finished, nobody
///   touches a closure of the run any more, and the queue has counted all nodes.
/// - `cancellations[i]`: whether the nodes of lifetime i are cancelled, and why. Stored under the queue's lock, under which nodes are listed: whoever has
///   stored it sees all nodes that were listed before, and claims them; later ones are not listed. A worker reads it, and asks the
///   lifetimes, after it has the node in hand and before it runs it: that decides the start.
public final class GraphRun: Sendable, LifetimeMember {
  static let memberKind: MemberKind = MemberKindOf<GraphRun>()

  let structure: GraphStructure
  let policy: DependencyPolicy
  private let storage: GraphStorage
  nonisolated(unsafe) private(set) weak var queue: OwnerScopedQueue?  // written once, before the run is published

  // Pointers to atomics, and to what is written before the run is published.
  nonisolated(unsafe) let arrays: GraphArrays
  nonisolated(unsafe) let pieces: NodeBodyPieces
  nonisolated(unsafe) let counts: UnsafeMutablePointer<Atomic<UInt32>>
  nonisolated(unsafe) let states: UnsafeMutablePointer<Atomic<UInt8>>
  nonisolated(unsafe) let cancellations: UnsafeMutablePointer<Atomic<UInt8>>
  /// The structure keeps them. Named without counting references, because all workers would count the same ones.
  nonisolated(unsafe) let lifetimes: UnsafeMutablePointer<Unmanaged<OwnerLifetime>>
  /// The queue's record of each lifetime, retained. Written under the queue's lock, before the first node is listed.
  nonisolated(unsafe) let slots: UnsafeMutablePointer<Unmanaged<OwnerSlot>?>
  /// Until the run has finished; see the protocol.
  nonisolated(unsafe) private var bodies: NodeBodies?
  private let unfinishedSinks: Atomic<Int>
  private let hasFinished = Atomic<Bool>(false)

  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var thrown: [UInt32: any Error] = [:]
  /// For each node, which of its predecessors did not succeed; empty until one didn't.
  nonisolated(unsafe) private var blamed: ContiguousArray<UInt32> = []
  nonisolated(unsafe) private var waiters: [Waiter] = []
  nonisolated(unsafe) private var finishActions: [@Sendable (GraphRun) -> Void] = []

  nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock

  /// Of `counts`.
  static let predecessorFailed: UInt32 = 1 << 31

  enum NodeState: UInt8 {
    case waiting, listed, claimed
    // Outcomes.
    case succeeded, failed
    case cancelled, ownerEnded, graphOwnerEnded, dependencyFailed

    var isOutcome: Bool { rawValue >= NodeState.succeeded.rawValue }
    var isEndOfOwner: Bool { self == .ownerEnded || self == .graphOwnerEnded }
  }

  init(of storage: GraphStorage, _ structure: GraphStructure, _ bodies: NodeBodies, _ policy: DependencyPolicy, queue: OwnerScopedQueue) {
    self.storage = storage
    self.structure = structure
    self.bodies = bodies
    arrays = structure.arrays
    pieces = bodies.pieces
    self.policy = policy
    self.queue = queue
    let count = structure.nodeCount
    let countMemory = UnsafeMutableRawPointer.allocate(byteCount: count * 4, alignment: 16)
    // An atomic has the representation of its value.
    countMemory.copyMemory(from: structure.predecessorCounts, byteCount: count * 4)
    counts = countMemory.bindMemory(to: Atomic<UInt32>.self, capacity: count)
    states = Self.zeroes(count)
    let lifetimeCount = structure.lifetimes.count
    cancellations = Self.zeroes(lifetimeCount)
    lifetimes = .allocate(capacity: lifetimeCount)
    slots = .allocate(capacity: lifetimeCount)
    slots.initialize(repeating: nil, count: lifetimeCount)
    for (index, lifetime) in structure.lifetimes.enumerated() { (lifetimes + index).initialize(to: .passUnretained(lifetime)) }
    unfinishedSinks = Atomic(structure.sinkCount)
  }

  private static func zeroes(_ count: Int) -> UnsafeMutablePointer<Atomic<UInt8>> {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: count, alignment: 16)
    memory.initializeMemory(as: UInt8.self, repeating: 0, count: count)
    return memory.bindMemory(to: Atomic<UInt8>.self, capacity: count)
  }

  deinit {
    lifetimes[0]._withUnsafeGuaranteedRef { $0.leave(self) }
    for index in 0..<structure.lifetimes.count { slots[index]?.release() }
    slots.deallocate()
    lifetimes.deallocate()
    cancellations.deallocate()
    states.deallocate()
    counts.deallocate()
  }

  // MARK: State

  /// Whether all nodes have finished, one way or another.
  public var isFinished: Bool { hasFinished.load(ordering: .acquiring) }

  /// How the node ended; nil while it has not, and for nodes that are not part of this run.
  public func outcome(of node: OperationGraph.Node) -> OperationOutcome? {
    guard node.storage === storage, node.index < structure.nodeCount else { return nil }
    return outcome(of: node.index)
  }

  /// Of all nodes, in the order in which they were made; nil for those that have not finished. Linear.
  public var outcomes: [OperationOutcome?] { (0..<UInt32(structure.nodeCount)).map { outcome(of: $0) } }

  private func outcome(of node: UInt32) -> OperationOutcome? {
    guard let state = NodeState(rawValue: states[Int(node)].load(ordering: .acquiring)) else { return nil }
    switch state {
    case .waiting, .listed, .claimed: return nil
    case .succeeded: return .succeeded
    case .failed: return lock.withLock { thrown[node] }.map { .failed($0) }
    case .cancelled: return .cancelled(.requested)
    case .ownerEnded: return .cancelled(.ownerEnded(structure.lifetimes[arrays.attributes[Int(node)].lifetime].id))
    case .graphOwnerEnded: return .cancelled(.ownerEnded(structure.lifetimes[0].id))
    case .dependencyFailed: return .cancelled(.dependencyFailed(structure.name(of: lock.withLock { blamed[Int(node)] })))
    }
  }

  /// The nodes that threw, with what they threw, in the order in which the nodes were made.
  public var failures: [(node: OperationGraph.Node, error: any Error)] {
    var thrown: [UInt32: any Error] = [:]
    lock.withLock { thrown = self.thrown }
    return thrown.sorted { $0.key < $1.key }.map { (OperationGraph.Node(storage: storage, index: $0.key), $0.value) }
  }

  /// How many nodes there are, and how they ended.
  public struct Counts: Hashable, Sendable {
    public var nodes = 0
    public var succeeded = 0
    public var failed = 0
    public var cancelled = 0
    /// Not finished yet.
    public var unfinished: Int { nodes - succeeded - failed - cancelled }
  }

  /// Linear.
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

  /// Blocks until all nodes have finished. Inside work of the same queue, another thread takes the work over meanwhile.
  ///
  /// A node can't wait for its own run: that is reported on standard error, and returns at once.
  @available(*, noasync, message: "Use value or finished() instead")
  public func wait() {
    if let worker = Worker.current, let node = worker.graphNode(of: self) {
      OperationReport.report(.waitingForItself(structure.name(of: node)))
      return
    }
    let semaphore = DispatchSemaphore(value: 0)
    let isOver = lock.withLock {
      if !isFinished { waiters.append(.thread(semaphore)) }
      return isFinished
    }
    if !isOver { BlockingRegion.perform { semaphore.wait() } }
  }

  /// Returns when all nodes have finished.
  public func finished() async {
    await withCheckedContinuation { continuation in
      let isOver = lock.withLock {
        if !isFinished { waiters.append(.task(continuation)) }
        return isFinished
      }
      if isOver { continuation.resume() }
    }
  }

  /// Returns when all nodes have succeeded.
  /// - Throws: when all nodes have finished, what the first of those that failed threw, in the order in which the nodes were made; `CancellationError` if
  ///   none failed and some were cancelled.
  public var value: Void {
    get async throws {
      await finished()
      if let failure = failures.first { throw failure.error }
      if nodeCounts.cancelled > 0 { throw CancellationError() }
    }
  }

  /// Calls the closure once, on a thread of GCD's, when all nodes have finished; at once if they have.
  public func onFinish(_ body: @escaping @Sendable (GraphRun) -> Void) {
    let isOver = lock.withLock {
      if !isFinished { finishActions.append(body) }
      return isFinished
    }
    if isOver { perform([body]) }
  }

  private func perform(_ actions: [@Sendable (GraphRun) -> Void]) {
    guard !actions.isEmpty else { return }
    DispatchQueue.global().async { [self] in
      for action in actions { action(self) }
    }
  }

  // MARK: For those who run it

  func noteError(_ error: any Error, of node: UInt32) { lock.withLock { thrown[node] = error } }

  /// The node did not succeed, which its successors will not forgive.
  func blame(_ node: UInt32) {
    lock.lock()
    if blamed.isEmpty { blamed = ContiguousArray(repeating: 0, count: structure.nodeCount) }
    for successor in arrays.successors(of: node) { blamed[Int(successor)] = node }
    lock.unlock()
    for successor in arrays.successors(of: node) {
      counts[Int(successor)].bitwiseOr(Self.predecessorFailed, ordering: .relaxed)
    }
  }

  /// Nodes without successors have finished.
  /// - Parameter queue: nil if it is being deinitialised.
  func sinksDidFinish(_ count: Int, on queue: OwnerScopedQueue?) {
    guard unfinishedSinks.subtract(count, ordering: .acquiringAndReleasing).newValue == 0 else { return }
    bodies = nil
    queue?.forget(self)
    lifetimes[0]._withUnsafeGuaranteedRef { $0.leave(self) }
    var (waiters, actions): ([Waiter], [@Sendable (GraphRun) -> Void]) = ([], [])
    lock.withLock {
      hasFinished.store(true, ordering: .releasing)
      swap(&waiters, &self.waiters)
      swap(&actions, &finishActions)
    }
    for waiter in waiters { waiter.resume() }
    perform(actions)
  }

  /// The graph's owner has ended.
  func lifetimeDidEnd() { cancel(.graphOwnerEnded) }
}
