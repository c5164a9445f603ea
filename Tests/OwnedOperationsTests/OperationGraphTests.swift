import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// When each node of a graph ran: a clock that ticks at the beginning and the end of each body, and keeps nothing else.
private final class Order: Sendable {
  private let clock = Atomic<Int>(0)
  private let lock = Lock()
  // Each place is written by the one node that it belongs to, and read after the run.
  nonisolated(unsafe) private let begun: UnsafeMutablePointer<Int>
  nonisolated(unsafe) private let ended: UnsafeMutablePointer<Int>
  let count: Int

  init(count: Int) {
    self.count = count
    begun = .allocate(capacity: count)
    begun.initialize(repeating: 0, count: count)
    ended = .allocate(capacity: count)
    ended.initialize(repeating: 0, count: count)
  }

  deinit {
    begun.deallocate()
    ended.deallocate()
  }

  func body(_ node: Int) -> @Sendable () -> Void {
    { [self] in
      begun[node] += clock.add(1, ordering: .relaxed).newValue
      ended[node] += clock.add(1, ordering: .relaxed).newValue
    }
  }

  /// All ran once, and each after those that it depends on.
  func holds(_ edges: [(Int, Int)]) -> Bool {
    clock.load(ordering: .acquiring) == 2 * count && edges.allSatisfy { ended[$0.0] < begun[$0.1] }
      && (0..<count).allSatisfy { begun[$0] > 0 }
  }
}

@Suite struct OperationGraphTests {
  /// Builds and runs a graph of these edges, and asks whether all nodes ran once and in an order that the edges allow.
  private func runsInOrder(_ count: Int, _ edges: [(Int, Int)], on queue: OwnerScopedQueue = OwnerScopedQueue()) throws -> Bool {
    let graph = OperationGraph(lifetime: .forTests)
    let order = Order(count: count)
    let nodes = (0..<count).map { graph.node(nil, order.body($0)) }
    for (first, second) in edges { nodes[first].precedes(nodes[second]) }
    let run = try graph.run(on: queue)
    run.wait()
    let statistics = queue.statistics
    #expect(run.nodeCounts == GraphRun.Counts(nodes: count, succeeded: count))
    #expect(statistics.succeeded == count)
    #expect(statistics.started == count)
    #expect(statistics.enqueued == count)
    #expect(queue.operationCount == 0)
    queue.waitUntilAllOperationsAreFinished()
    return order.holds(edges)
  }

  private func grid(_ side: Int) -> [(Int, Int)] {
    (0..<side * side).flatMap { node -> [(Int, Int)] in
      (node % side + 1 < side ? [(node, node + 1)] : []) + (node / side + 1 < side ? [(node, node + side)] : [])
    }
  }

  // MARK: Order

  @Test func chainRunsInOrder() throws {
    #expect(try runsInOrder(20_000, (1..<20_000).map { ($0 - 1, $0) }))
  }

  @Test func chainMadeBackwardsRunsInOrder() throws {
    #expect(try runsInOrder(20_000, (1..<20_000).map { ($0, $0 - 1) }))
  }

  @Test func gridRunsInOrder() throws {
    for _ in 0..<5 { #expect(try runsInOrder(10_000, grid(100))) }
  }

  @Test func treeRunsInOrder() throws {
    for _ in 0..<(Sanitizer.isActive ? 1 : 5) { #expect(try runsInOrder(20_000, (1..<20_000).map { (($0 - 1) / 2, $0) })) }
  }

  @Test func fanInAndFanOutRunInOrder() throws {
    #expect(try runsInOrder(20_001, (0..<20_000).map { ($0, 20_000) }))
    #expect(try runsInOrder(20_001, (1...20_000).map { (0, $0) }))
  }

  @Test func serialQueueRoundRobinAndOwnerLimitsKeepTheOrder() throws {
    let edges = grid(40)
    #expect(try runsInOrder(1_600, edges, on: OwnerScopedQueue(maxConcurrentOperationCount: 1)))
    let fair = OwnerScopedQueue()
    fair.ownerFairness = .roundRobin
    #expect(try runsInOrder(1_600, edges, on: fair))
    let limited = OwnerScopedQueue()
    limited.maxConcurrentOperationCountPerOwner = 1
    #expect(try runsInOrder(1_600, edges, on: limited))
  }

  @Test func connectingTwiceChangesNothing() throws {
    #expect(try runsInOrder(3, [(0, 1), (0, 1), (1, 2), (0, 1), (0, 2), (0, 2)]))
  }

  @Test func dependsIsPrecedesTheOtherWayRound() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<String>()
    let last = graph.node("last") { journal.write("last") }
    let first = graph.node("first") { journal.write("first") }
    let second = graph.node("second") { journal.write("second") }
    let third = graph.node("third") { journal.write("third") }
    last.depends(on: third, second)
    third.depends(on: second)
    second.depends(on: first)
    first.precedes(last, third)
    try graph.run(on: OwnerScopedQueue()).wait()
    #expect(journal.entries == ["first", "second", "third", "last"])
  }

  @Test func aMillionNodesBuildAndRun() throws {
    let count = Sanitizer.many(1_000_000)
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let body: @Sendable () -> Void = { ran.add() }
    var nodes: [OperationGraph.Node] = []
    nodes.reserveCapacity(count)
    for number in 0..<count {
      let node = graph.node(nil, body)
      if number > 0 { nodes[(number - 1) / 2].precedes(node) }
      if number > 1 { nodes[number - 1].precedes(node) }
      nodes.append(node)
    }
    let run = try graph.run(on: OwnerScopedQueue())
    run.wait()
    #expect(ran.value == count)
    #expect(run.nodeCounts.succeeded == count)
  }

  // MARK: Again, and at once

  @Test func finishedGraphRunsAgain() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<Int>()
    let first = graph.node { journal.write(1) }
    let second = graph.node { journal.write(2) }
    first.precedes(second)
    let queue = OwnerScopedQueue()
    for _ in 0..<3 { try graph.run(on: queue).wait() }
    #expect(journal.entries == [1, 2, 1, 2, 1, 2])
  }

  @Test func severalRunsAtOnceDoNotMixUp() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let nodes = (0..<1_000).map { _ in graph.node { ran.add() } }
    for number in 1..<1_000 { nodes[(number - 1) / 3].precedes(nodes[number]) }
    let queues = [OwnerScopedQueue(), OwnerScopedQueue(maxConcurrentOperationCount: 1)]
    let runs = Journal<GraphRun>()
    race(
      (0..<8).map { number in
        { for _ in 0..<5 { if let run = try? graph.run(on: queues[number % 2]) { runs.write(run) } } }
      })
    #expect(runs.entries.count == 40)
    for run in runs.entries {
      run.wait()
      #expect(run.nodeCounts.succeeded == 1_000)
    }
    #expect(ran.value == 40_000)
    #expect(queues.reduce(0) { $0 + $1.statistics.succeeded } == 40_000)
  }

  @Test func editingWhileRunningIsForLaterRuns() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let (ran, gate) = (Counter(), DispatchSemaphore(value: 0))
    let first = graph.node { gate.wait() }
    let second = graph.node { ran.add() }
    first.precedes(second)
    let queue = OwnerScopedQueue()
    let run = try graph.run(on: queue)
    for _ in 0..<1_000 { first.precedes(graph.node { ran.add() }) }
    second.precedes(first)
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["node 1", "node 2"])) { try graph.run(on: queue) }
    gate.signal()
    run.wait()
    #expect(ran.value == 1)
    #expect(run.outcomes.count == 2)
  }

  // MARK: Mistakes

  @Test func circleIsNamedNodeByNode() {
    let graph = OperationGraph(lifetime: .forTests)
    let nodes = (0..<8).map { graph.node($0 == 6 ? nil : "n\($0)") {} }
    nodes[0].precedes(nodes[1])
    nodes[1].precedes(nodes[4])
    nodes[4].precedes(nodes[6])
    nodes[6].precedes(nodes[3])
    nodes[3].precedes(nodes[1])
    nodes[3].precedes(nodes[5])
    nodes[5].precedes(nodes[7])
    // Each depends on the next.
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["n1", "n3", "node 7", "n4"])) { try graph.validate() }
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["n1", "n3", "node 7", "n4"])) { try graph.run(on: OwnerScopedQueue()) }
  }

  @Test func nodeThatDependsOnItselfIsACircle() {
    let graph = OperationGraph(lifetime: .forTests)
    let node = graph.node("ouroboros") {}
    node.precedes(node)
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["ouroboros"])) { try graph.validate() }
  }

  @Test func circleOfAMillionIsFoundWithoutRecursion() {
    let count = Sanitizer.many(1_000_000)
    let graph = OperationGraph(lifetime: .forTests)
    let nodes = (0..<count).map { _ in graph.node(nil) {} }
    for number in 0..<count { nodes[number].precedes(nodes[(number + 1) % count]) }
    do {
      try graph.validate()
      Issue.record("the circle was not found")
    } catch {
      guard case .dependencyCycle(let names) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(names.count == count)
      #expect(names.first == "node 1")
      #expect(names.last == "node 2")
    }
  }

  @Test func nodeOfAnotherGraphIsRefusedByBoth() {
    let (one, other) = (OperationGraph(lifetime: .forTests), OperationGraph(lifetime: .forTests))
    let mine = one.node("mine") {}
    let theirs = other.node("theirs") {}
    mine.precedes(theirs)
    #expect(throws: OwnerScopedQueueError.foreignNode("theirs")) { try one.validate() }
    #expect(throws: OwnerScopedQueueError.foreignNode("mine")) { try other.run(on: OwnerScopedQueue()) }
    mine.precedes(one.node {})
    #expect(throws: OwnerScopedQueueError.foreignNode("theirs")) { try one.run(on: OwnerScopedQueue()) }
  }

  @Test func nodeOfAGraphThatHasGoneIsRefusedToo() {
    let graph = OperationGraph(lifetime: .forTests)
    let node = graph.node {}
    var other: OperationGraph? = OperationGraph(lifetime: .forTests)
    let orphan = other?.node("orphan") {}
    other = nil
    if let orphan { node.depends(on: orphan) }
    #expect(throws: OwnerScopedQueueError.foreignNode("orphan")) { try graph.validate() }
  }

  @Test func graphOfAnEndedOwnerIsRefused() {
    let lifetime = OwnerLifetime()
    let graph = OperationGraph(lifetime: lifetime)
    graph.node {}
    lifetime.end()
    #expect(throws: OwnerScopedQueueError.ownerEnded(operation: "the graph", owner: lifetime.id)) { try graph.run(on: OwnerScopedQueue()) }
  }
}
