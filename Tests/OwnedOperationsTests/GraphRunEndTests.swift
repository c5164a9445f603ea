import Foundation
import Testing

@testable import OwnedOperations

/// How runs of graphs end other than by success: errors, cancelling, owners that end.
@Suite struct GraphRunEndTests {
  // MARK: Failures

  @Test func errorIsTheOutcomeAndDependentsRunByDefault() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let failing = graph.node("failing") { throw NodeFailure(number: 1) }
    let after = graph.node { ran.add() }
    failing.precedes(after)
    let queue = OwnerScopedQueue()
    let run = try graph.run(on: queue)
    run.wait()
    guard case .failed(let error)? = run.outcome(of: failing) else {
      Issue.record("no failure")
      return
    }
    #expect(error as? NodeFailure == NodeFailure(number: 1))
    #expect(run.outcome(of: after)?.kind == "succeeded")
    #expect(ran.value == 1)
    #expect(run.failures.map(\.node) == [failing])
    let statistics = queue.statistics
    #expect(statistics.ends == [1, 1, 0, 2])
  }

  @Test func withRequireSuccessDependentsOfAFailureAreCancelledAndOthersRun() throws {
    let graph = OperationGraph(lifetime: .forTests)
    graph.dependencyPolicy = .requireSuccess
    let ran = Counter()
    let failing = graph.node("failing") { throw NodeFailure(number: 1) }
    let fine = graph.node("fine") { ran.add() }
    let direct = graph.node("direct") { ran.add(100) }
    let indirect = graph.node("indirect") { ran.add(100) }
    let beside = graph.node("beside") { ran.add() }
    direct.depends(on: failing, fine)
    indirect.depends(on: direct, fine)
    beside.depends(on: fine)
    let queue = OwnerScopedQueue()
    let run = try graph.run(on: queue)
    run.wait()
    #expect(ran.value == 2)
    #expect(run.reason(of: direct) == .dependencyFailed("failing"))
    #expect(run.reason(of: indirect) == .dependencyFailed("direct"))
    #expect(run.kinds == ["failed", "succeeded", "cancelled", "cancelled", "succeeded"])
    let statistics = queue.statistics
    #expect(statistics.ends == [2, 1, 2, 3])
  }

  @Test func aLongChainAfterAFailureIsCancelledWithoutRecursion() throws {
    let graph = OperationGraph(lifetime: .forTests)
    graph.dependencyPolicy = .requireSuccess
    let nodes = (0..<100_000).map { number in graph.node { if number == 0 { throw NodeFailure(number: 0) } } }
    for (first, second) in zip(nodes, nodes.dropFirst()) { first.precedes(second) }
    let run = try graph.run(on: OwnerScopedQueue())
    run.wait()
    #expect(run.nodeCounts == GraphRun.Counts(nodes: 100_000, succeeded: 0, failed: 1, cancelled: 99_999))
    #expect(run.reason(of: nodes[99_999]) == .dependencyFailed("node 99999"))
  }

  // MARK: Cancelling

  @Test func cancelLetsWhatRunsFinishAndCancelsTheRest() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let (begun, gate, ran) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), Counter())
    let running = graph.node {
      begun.signal()
      gate.wait()
      ran.add()
    }
    let nodes = (0..<1_000).map { _ in graph.node { ran.add() } }
    for node in nodes { running.precedes(node) }
    let queue = OwnerScopedQueue()
    let run = try graph.run(on: queue)
    begun.wait()
    run.cancel()
    run.cancel()
    #expect(!run.isFinished)
    #expect(addsUp(queue.statistics))
    gate.signal()
    run.wait()
    #expect(ran.value == 1)
    #expect(run.outcome(of: running)?.kind == "succeeded")
    #expect(nodes.allSatisfy { run.reason(of: $0) == .requested })
    #expect(queue.statistics.cancelled == 1_000)
  }

  @Test func cancelFinishesARunOfASuspendedQueueAtOnce() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let nodes = (0..<1_000).map { _ in graph.node { ran.add() } }
    for number in 500..<1_000 { nodes[number - 500].precedes(nodes[number]) }
    let run = try graph.run(on: queue)
    #expect(queue.operationCount == 1_000)
    run.cancel()
    #expect(run.isFinished)
    #expect(queue.operationCount == 0)
    // The items that it left behind stand in nobody's way.
    let second = try graph.run(on: queue)
    queue.isSuspended = false
    second.wait()
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 1_000)
    #expect(addsUp(queue.statistics))
  }

  @Test func cancellingAllOperationsCancelsRuns() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let graph = OperationGraph(lifetime: .forTests)
    let (first, second) = (graph.node {}, graph.node {})
    first.precedes(second)
    let run = try graph.run(on: queue)
    queue.cancelAllOperations()
    #expect(run.isFinished)
    #expect(run.reason(of: first) == .requested)
    #expect(run.reason(of: second) == .requested)
    let statistics = queue.statistics
    #expect(statistics.ends == [0, 0, 2, 0])
    #expect(statistics.pending == 0)
    #expect(statistics.skippedForEndedOwners == 0)
  }

  @Test func cancellingTheOperationsOfANodesOwnerCancelsThatNode() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let own = OwnerLifetime()
    let graph = OperationGraph(lifetime: .forTests)
    let first = graph.node {}
    let second = graph.node(nil, lifetime: own) {}
    let third = graph.node {}
    first.precedes(second)
    second.precedes(third)
    let run = try graph.run(on: queue)
    #expect(queue.operationCount(ownedBy: own) == 1)
    queue.cancelOperations(ownedBy: own)
    queue.isSuspended = false
    run.wait()
    #expect(run.kinds == ["succeeded", "cancelled", "succeeded"])
    #expect(run.reason(of: second) == .requested)
    #expect(own.isAlive)
  }

  // MARK: Owners

  @Test func endOfTheGraphsOwnerFinishesTheRunEvenIfTheQueueIsSuspended() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let (lifetime, own) = (OwnerLifetime(), OwnerLifetime())
    let graph = OperationGraph(lifetime: lifetime)
    let ran = Counter()
    let nodes = (0..<100).map { graph.node(nil, lifetime: $0 % 3 == 0 ? own : lifetime) { ran.add() } }
    for number in 50..<100 { nodes[number].depends(on: nodes[number - 50], nodes[number - 49]) }
    let run = try graph.run(on: queue)
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(run.isFinished)
    #expect(nodes.allSatisfy { run.reason(of: $0) == .ownerEnded(lifetime.id) })
    let statistics = queue.statistics
    #expect(statistics.ends == [0, 0, 100, 0])
    #expect(statistics.skippedForEndedOwners == 100)
    #expect(statistics.pending == 0)
    #expect(ran.value == 0)
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 0)
  }

  @Test func endOfANodesOwnerCancelsTheNodeAndFreesItsDependents() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let own = OwnerLifetime()
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Journal<Int>()
    let listed = graph.node(nil, lifetime: own) { ran.write(0) }
    let freed = graph.node { ran.write(1) }
    let blocked = graph.node(nil, lifetime: own) { ran.write(2) }
    let last = graph.node { ran.write(3) }
    listed.precedes(freed)
    freed.precedes(blocked)
    blocked.precedes(last)
    let run = try graph.run(on: queue)
    own.end()
    LifetimeReaper.waitUntilIdle()
    #expect(run.reason(of: listed) == .ownerEnded(own.id))
    #expect(!run.isFinished)
    queue.isSuspended = false
    run.wait()
    #expect(ran.entries == [1, 3])
    #expect(run.reason(of: blocked) == .ownerEnded(own.id))
    #expect(queue.statistics.skippedForEndedOwners == 2)
  }

  @Test func withRequireSuccessTheEndOfANodesOwnerCancelsItsDependents() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let own = OwnerLifetime()
    let graph = OperationGraph(lifetime: .forTests)
    graph.dependencyPolicy = .requireSuccess
    let first = graph.node("first", lifetime: own) {}
    let second = graph.node {}
    first.precedes(second)
    let run = try graph.run(on: queue)
    own.end()
    LifetimeReaper.waitUntilIdle()
    #expect(run.isFinished)
    #expect(run.reason(of: second) == .dependencyFailed("first"))
  }

  @Test func nodesOfAnOwnerThatHadEndedAreCancelled() throws {
    let own = OwnerLifetime()
    own.end()
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let first = graph.node(nil, lifetime: own) { ran.add() }
    let second = graph.node { ran.add(10) }
    first.precedes(second)
    let run = try graph.run(on: OwnerScopedQueue())
    run.wait()
    #expect(ran.value == 10)
    #expect(run.reason(of: first) == .ownerEnded(own.id))
  }

  @Test func nodesGetTheirOwnerAndDoNotKeepIt() throws {
    let graph = OperationGraph(lifetime: .forTests)
    var owner: TokenOwner? = TokenOwner()
    weak let seen = owner
    let journal = Journal<ObjectIdentifier>()
    if let owner { graph.node(owner: owner) { journal.write(ObjectIdentifier($0)) } }
    let queue = OwnerScopedQueue()
    try graph.run(on: queue).wait()
    #expect(journal.entries == [owner.map { ObjectIdentifier($0) }])
    owner = nil
    DeferredReleases.waitUntilIdle()  // the worker's own reference goes there before the run is over
    #expect(seen == nil)
    let run = try graph.run(on: queue)
    run.wait()
    #expect(run.kinds == ["cancelled"])
    #expect(journal.entries.count == 1)
  }

  @Test func ownersEndingAtAnyTimeNeverLoseNodes() throws {
    for round in 0..<50 {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: round % 3 + 1)
      let lifetimes = (0..<4).map { _ in OwnerLifetime() }
      let graph = OperationGraph(lifetime: lifetimes[0])
      graph.dependencyPolicy = round % 2 == 0 ? .runAlways : .requireSuccess
      let nodes = (0..<400).map { number in
        let lifetime = lifetimes[number % 4]
        return graph.node(nil, lifetime: lifetime) { if number % 50 == 7 { throw NodeFailure(number: number) } }
      }
      for number in 1..<400 { nodes[number].depends(on: nodes[number / 2], nodes[number - 1 - (number - 1) % 7]) }
      let runs = Journal<GraphRun>()
      race([
        { if let run = try? graph.run(on: queue) { runs.write(run) } },
        { lifetimes[1].end() },
        { queue.cancelOperations(ownedBy: lifetimes[2]) },
        { if round % 5 == 0 { lifetimes[0].end() } },
        { if round % 7 == 0 { queue.cancelAllOperations() } },
      ])
      for run in runs.entries {
        run.wait()
        #expect(run.nodeCounts.unfinished == 0)
      }
      queue.waitUntilAllOperationsAreFinished()
      #expect(addsUp(queue.statistics))
      #expect(queue.operationCount == 0)
    }
  }
}
