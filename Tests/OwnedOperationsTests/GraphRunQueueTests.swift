import Foundation
import Testing

@testable import OwnedOperations

/// The rules of the queue hold for the nodes of runs.
@Suite struct GraphRunQueueTests {
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
}
