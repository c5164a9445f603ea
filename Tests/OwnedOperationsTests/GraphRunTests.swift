import Foundation
import Testing

@testable import OwnedOperations

/// Waiting for runs, and what they keep.
@Suite struct GraphRunTests {
  // MARK: Waiting

  @Test func nodesAndJobsMayWaitForRunsOfTheSameQueue() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let inner = OperationGraph(lifetime: .forTests)
    let journal = Journal<String>()
    let nodes = (0..<10).map { _ in inner.node { journal.write("inner") } }
    for (first, second) in zip(nodes, nodes.dropFirst()) { first.precedes(second) }
    let outer = OperationGraph(lifetime: .forTests)
    let first = outer.node {
      try inner.run(on: queue).wait()
      journal.write("outer")
    }
    let second = outer.node { journal.write("second") }
    first.precedes(second)
    let run = try outer.run(on: queue)
    run.wait()
    #expect(journal.entries == Array(repeating: "inner", count: 10) + ["outer", "second"])
    #expect(run.nodeCounts.succeeded == 2)
  }

  @Test func nodeThatWaitsForItsOwnRunIsReported() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let reports = Reports(about: "self-waiter")
    let (holder, given) = (Mutexed<GraphRun?>(nil), DispatchSemaphore(value: 0))
    graph.node("the \"self-waiter\"") {
      given.wait()
      holder.value?.wait()
    }
    let run = try graph.run(on: OwnerScopedQueue())
    holder.value = run
    given.signal()
    run.wait()
    holder.value = nil
    #expect(reports.errors == [.waitingForItself("the \"self-waiter\"")])
  }

  @Test func valueReturnsOrThrows() async throws {
    let queue = OwnerScopedQueue()
    let fine = OperationGraph(lifetime: .forTests)
    fine.node {}
    try await fine.run(on: queue).value

    let failing = OperationGraph(lifetime: .forTests)
    for number in 0..<10 { failing.node { if number % 4 == 3 { throw NodeFailure(number: number) } } }
    let failed = try failing.run(on: queue)
    await #expect(throws: NodeFailure(number: 3)) { try await failed.value }

    queue.isSuspended = true
    let cancelled = try fine.run(on: queue)
    cancelled.cancel()
    await cancelled.finished()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
  }

  @Test func finishActionsRunOnceWheneverTheyAreAdded() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let gate = DispatchSemaphore(value: 0)
    graph.node { gate.wait() }
    let run = try graph.run(on: OwnerScopedQueue())
    let called = DispatchSemaphore(value: 0)
    let wrong = Counter()
    run.onFinish {
      if !$0.isFinished { wrong.add() }
      called.signal()
    }
    #expect(called.wait(timeout: .now()) == .timedOut)
    gate.signal()
    called.wait()
    run.onFinish { _ in called.signal() }
    called.wait()
    #expect(wrong.value == 0)
  }

  // MARK: Memory

  @Test func closuresGoWithTheGraphAndNotBefore() throws {
    var captured: TokenOwner?
    weak var seen: TokenOwner?
    var graph: OperationGraph? = OperationGraph(lifetime: .forTests)
    weak let seenGraph = graph
    do {
      let object = keep(&captured)
      seen = captured
      captured = nil
      graph?.node { [object] in _ = object }
    }
    let queue = OwnerScopedQueue()
    let run = try graph?.run(on: queue)
    run?.wait()
    #expect(seen != nil)
    graph = nil
    #expect(seenGraph == nil)
    // The run is still here.
    #expect(run?.isFinished == true)
    #expect(seen == nil)
  }

  @Test func aClosureMayCaptureNodesOfItsGraph() throws {
    var captured: TokenOwner?
    weak var seen: TokenOwner?
    do {
      let graph = OperationGraph(lifetime: .forTests)
      let first = graph.node {}
      let object = keep(&captured)
      seen = captured
      captured = nil
      graph.node { [object] in _ = (object, first) }
      try graph.run(on: OwnerScopedQueue()).wait()
    }
    #expect(seen == nil)
  }

  @Test func runOutlivesItsGraph() throws {
    let (gate, ran) = (DispatchSemaphore(value: 0), Counter())
    var graph: OperationGraph? = OperationGraph(lifetime: .forTests)
    let first = graph?.node { gate.wait() }
    let second = graph?.node { ran.add() }
    if let first, let second { first.precedes(second) }
    let run = try graph?.run(on: OwnerScopedQueue())
    graph = nil
    gate.signal()
    run?.wait()
    #expect(ran.value == 1)
    #expect(second.flatMap { run?.outcome(of: $0)?.kind } == "succeeded")
  }

  @Test func finishedRunsAreNotKept() throws {
    let queue = OwnerScopedQueue()
    let graph = OperationGraph(lifetime: .forTests)
    graph.node {}
    let seen = Weakly<GraphRun>()
    do {
      let run = try graph.run(on: queue)
      seen.object = run
      run.wait()
    }
    #expect(eventually { seen.object == nil })  // the worker may hold it a moment longer
  }

  @Test func suspendedQueueThatGoesTakesItsRunsAlong() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let (first, second) = (graph.node { ran.add() }, graph.node { ran.add() })
    first.precedes(second)
    var queue: OwnerScopedQueue? = OwnerScopedQueue()
    weak let seen = queue
    queue?.isSuspended = true
    let run = try queue.map { try graph.run(on: $0) }
    queue = nil
    #expect(seen == nil)
    #expect(run?.isFinished == true)
    #expect(run?.kinds == ["cancelled", "cancelled"])
    run?.cancel()
    #expect(ran.value == 0)
  }

  @Test func droppedQueueFinishesItsRuns() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let gate = DispatchSemaphore(value: 0)
    let first = graph.node { gate.wait() }
    let nodes = (0..<100).map { _ in graph.node {} }
    for node in nodes { first.precedes(node) }
    var queue: OwnerScopedQueue? = OwnerScopedQueue()
    let run = try queue.map { try graph.run(on: $0) }
    queue = nil
    gate.signal()
    run?.wait()
    #expect(run?.nodeCounts.succeeded == 101)
  }
}
