import Foundation
import Testing

@testable import OwnedOperations

private struct Failure: Error, Equatable { let number: Int }

extension GraphRun {
  fileprivate func reason(of node: OperationGraph.Node) -> CancellationReason? { outcome(of: node)?.reason }
  fileprivate var kinds: [String?] { outcomes.map { $0?.kind } }
}

extension OwnerScopedQueue.Statistics {
  /// Succeeded, failed, cancelled; and started.
  fileprivate var ends: [Int] { [succeeded, failed, cancelled, started] }
}

/// At any time.
private func addsUp(_ statistics: OwnerScopedQueue.Statistics) -> Bool {
  statistics.enqueued
    == statistics.pending + statistics.executing + statistics.succeeded + statistics.failed + statistics.cancelled
}

@Suite struct OperationGraphRunTests {
  // MARK: Failures

  @Test func errorIsTheOutcomeAndDependentsRunByDefault() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let ran = Counter()
    let failing = graph.node("failing") { throw Failure(number: 1) }
    let after = graph.node { ran.add() }
    failing.precedes(after)
    let queue = OwnerScopedQueue()
    let run = try graph.run(on: queue)
    run.wait()
    guard case .failed(let error)? = run.outcome(of: failing) else {
      Issue.record("no failure")
      return
    }
    #expect(error as? Failure == Failure(number: 1))
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
    let failing = graph.node("failing") { throw Failure(number: 1) }
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
    let nodes = (0..<100_000).map { number in graph.node { if number == 0 { throw Failure(number: 0) } } }
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
    // The records that it left behind stand in nobody's way.
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
        return graph.node(nil, lifetime: lifetime) { if number % 50 == 7 { throw Failure(number: number) } }
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

  // MARK: The queue's rules

  @Test func prioritiesOfNodesAreStrictOnASerialQueue() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<String>()
    let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
    let start = graph.node { journal.write("start") }
    for round in 0..<20 {
      for priority in priorities {
        let node = graph.node(nil, priority: priority) { journal.write("\(priority.rawValue)") }
        if round % 2 == 0 { start.precedes(node) }
      }
    }
    // Made ready by a node of the lowest priority, and yet before what is left of it.
    let late = graph.node(priority: .veryLow) { journal.write("late") }
    let urgent = graph.node(priority: .veryHigh) { journal.write("urgent") }
    let next = graph.node(priority: .veryLow) { journal.write("next") }
    late.precedes(next, urgent)
    start.precedes(late)
    queue.isSuspended = true
    let run = try graph.run(on: queue)
    queue.isSuspended = false
    run.wait()
    let entries = journal.entries
    let afterStart = entries.drop { $0 != "start" }.dropFirst().filter { Int($0) != nil }.compactMap { Int($0) }
    #expect(afterStart == afterStart.sorted(by: >))
    let beforeStart = entries.prefix { $0 != "start" }.compactMap { Int($0) }
    #expect(beforeStart == beforeStart.sorted(by: >))
    #expect(beforeStart.allSatisfy { $0 > 0 })
    #expect(entries.firstIndex(of: "urgent") == entries.firstIndex(of: "late").map { $0 + 1 })
    #expect(entries.count == 104)
  }

  @Test func moreUrgentWorkComesBetweenTheLinksOfAChain() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<String>()
    let first = graph.node {
      queue.async(lifetime: .forTests, priority: .high) { journal.write("urgent") }
      queue.async(lifetime: .forTests, priority: .low) { journal.write("low") }
      journal.write("first")
    }
    let second = graph.node { journal.write("second") }
    first.precedes(second)
    try graph.run(on: queue).wait()
    queue.waitUntilAllOperationsAreFinished()
    #expect(journal.entries == ["first", "urgent", "second", "low"])
  }

  @Test func aChainOfLongNodesLetsOthersOfItsPriorityIn() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let graph = OperationGraph(lifetime: .forTests)
    let (gate, journal) = (DispatchSemaphore(value: 0), Journal<Int>())
    var last = graph.node { gate.wait() }
    for number in 0..<200 {
      let node = graph.node {
        let start = DispatchTime.now().uptimeNanoseconds
        while DispatchTime.now().uptimeNanoseconds - start < 200_000 {}
        journal.write(number)
      }
      last.precedes(node)
      last = node
    }
    let run = try graph.run(on: queue)
    queue.async(lifetime: .forTests) { journal.write(-1) }
    gate.signal()
    run.wait()
    queue.waitUntilAllOperationsAreFinished()
    // Not after all of the chain.
    #expect(journal.entries.firstIndex(of: -1) ?? 200 < 100)
  }

  @Test func suspendingTheQueueOrTheOwnerStopsAChain() throws {
    for suspendsOwner in [false, true] {
      let queue = OwnerScopedQueue()
      let lifetime = OwnerLifetime()
      let graph = OperationGraph(lifetime: lifetime)
      let ran = Counter()
      let suspended = DispatchSemaphore(value: 0)
      let first = graph.node {
        if suspendsOwner { queue.setSuspended(true, ownedBy: lifetime) } else { queue.isSuspended = true }
        suspended.signal()
      }
      let second = graph.node { ran.add() }
      first.precedes(second)
      let run = try graph.run(on: queue)
      suspended.wait()
      if suspendsOwner {
        // Others go on; when one of them has run, the chain's worker has had its chance.
        let other = queue.addOperation(lifetime: .forTests) {}
        other.waitUntilFinished()
      }
      #expect(ran.value == 0)
      #expect(!run.isFinished)
      #expect(queue.operationCount(ownedBy: lifetime) >= 1)
      if suspendsOwner { queue.setSuspended(false, ownedBy: lifetime) } else { queue.isSuspended = false }
      run.wait()
      #expect(ran.value == 1)
    }
  }

  @Test func barrierWaitsForTheWholeRunAndLaterRunsForTheBarrier() throws {
    let queue = OwnerScopedQueue()
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<Int>()
    let nodes = (0..<100).map { number in graph.node { journal.write(0) } }
    for (first, second) in zip(nodes, nodes.dropFirst()) { first.precedes(second) }
    let first = try graph.run(on: queue)
    queue.addBarrierBlock { journal.write(1) }
    let second = try graph.run(on: queue)
    first.wait()
    second.wait()
    #expect(journal.entries == Array(repeating: 0, count: 100) + [1] + Array(repeating: 0, count: 100))
  }

  @Test func limitIsKeptAndStatisticsAddUpWhileNodesRun() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let graph = OperationGraph(lifetime: .forTests)
    let (running, most, wrong) = (Counter(), Mutexed(0), Counter())
    let nodes = (0..<300).map { number in
      graph.node {
        running.add()
        most.value = max(most.value, running.value)
        if number % 10 == 0 {
          let statistics = queue.statistics
          if !addsUp(statistics) || statistics.executing < 1 { wrong.add() }
          if queue.operationCount < 1 { wrong.add() }
        }
        running.add(-1)
      }
    }
    for number in 1..<300 { nodes[number].depends(on: nodes[(number - 1) / 2]) }
    let run = try graph.run(on: queue)
    run.wait()
    #expect(most.value <= 2)
    #expect(wrong.value == 0)
    #expect(queue.operationCount == 0)
  }

  @Test func countsInsideAChainAreExact() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<Int>()
    let nodes = (0..<100).map { _ in graph.node { journal.write(queue.operationCount) } }
    for (first, second) in zip(nodes, nodes.dropFirst()) { first.precedes(second) }
    try graph.run(on: queue).wait()
    #expect(journal.entries == Array((1...100).reversed()))
  }

  // MARK: What a worker keeps for itself

  @Test func aBlockedNodeHoldsNoReadyNodesBack() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let (arrived, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let start = graph.node {}
    for _ in 0..<40 {
      start.precedes(
        graph.node {
          arrived.signal()
          gate.wait()
        })
    }
    let run = try graph.run(on: OwnerScopedQueue())
    for _ in 0..<40 { #expect(arrived.wait(timeout: .now() + 60) == .success) }
    for _ in 0..<40 { gate.signal() }
    run.wait()
    #expect(run.nodeCounts.succeeded == 41)
  }

  /// After a node of a serial queue, or among many roots, one blocks; the rest is with its worker.
  private func restIsCancelledWhileOneBlocks(hasStart: Bool, by end: (GraphRun, OwnerLifetime) -> Void) throws -> Bool {
    let lifetime = OwnerLifetime()
    let graph = OperationGraph(lifetime: lifetime)
    let (begun, gate, ran) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), Counter())
    let nodes = (0..<3_000).map { number in
      graph.node {
        ran.add()
        guard number == 0 else { return }
        begun.signal()
        gate.wait()
      }
    }
    if hasStart {
      let start = graph.node {}
      for node in nodes { start.precedes(node) }
    }
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let run = try graph.run(on: queue)
    begun.wait()
    end(run, lifetime)
    let restIsOver = nodes.dropFirst().allSatisfy { run.outcome(of: $0)?.kind == "cancelled" }
    let blockedIsNot = run.outcome(of: nodes[0]) == nil
    gate.signal()
    run.wait()
    return restIsOver && blockedIsNot && ran.value == 1 && addsUp(queue.statistics) && queue.operationCount == 0
  }

  @Test func endAndCancelReachReadyNodesOfABlockedWorker() throws {
    for hasStart in [true, false] {
      #expect(
        try restIsCancelledWhileOneBlocks(hasStart: hasStart) { _, lifetime in
          lifetime.end()
          LifetimeReaper.waitUntilIdle()
        })
      #expect(try restIsCancelledWhileOneBlocks(hasStart: hasStart) { run, _ in run.cancel() })
    }
  }

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
    for number in 0..<10 { failing.node { if number % 4 == 3 { throw Failure(number: number) } } }
    let failed = try failing.run(on: queue)
    await #expect(throws: Failure(number: 3)) { try await failed.value }

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
    weak var seen: GraphRun?
    do {
      let run = try graph.run(on: queue)
      seen = run
      run.wait()
    }
    // The worker may hold it a moment longer; a barrier runs when it has let go.
    let done = DispatchSemaphore(value: 0)
    queue.addBarrierBlock { done.signal() }
    done.wait()
    #expect(seen == nil)
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
