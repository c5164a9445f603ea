import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Synchronization
import Testing

@Suite struct VirtualTimeTests {
  let time = VirtualTime(seed: 1)
  let log = Log()

  // MARK: Jobs and delays

  @Test func nothingRunsUntilItIsAskedFor() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    queue.async(lifetime: owner) { [log] in log.add("a") }
    queue.async(lifetime: owner) { [log] in log.add("b") }
    #expect(log.lines.isEmpty)
    #expect(time.runNext())
    #expect(log.lines == ["a"])
    #expect(time.runNext())
    #expect(!time.runNext())
    #expect(log.lines == ["a", "b"])
  }

  @Test func theScreenGoesBeforeItsAnswerComes() {
    let queue = OwnerScopedQueue(virtualTime: time)
    var screen: Screen? = Screen(log)
    if let screen { queue.asyncAfter(.seconds(60), owner: screen) { screen in screen.show("answer") } }
    screen = nil
    time.advance(by: .seconds(60))
    #expect(log.lines.isEmpty)
  }

  /// The queue forgets an owner that has nothing to do, and lets go of its lifetime in the background. That is waited for.
  @Test func aLifetimeThatIsOnlyDroppedEndsThere() {
    let queue = OwnerScopedQueue(virtualTime: time)
    var owner: OwnerLifetime? = OwnerLifetime()
    owner?.onEnd { [log] _ in log.add("end") }
    if let owner { queue.async(lifetime: owner) { [log] in log.add("job") } }
    time.runUntilIdle()
    owner = nil
    #expect(log.lines == ["job", "end"])
  }

  @Test func delaysAreDueInTheOrderOfTheirDeadlines() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    for seconds in [3, 1, 2, 1] {
      queue.asyncAfter(.seconds(seconds), lifetime: owner) { [log, time] in log.add("\(seconds) at \(time.now)") }
    }
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    time.advance(by: .seconds(2))
    #expect(log.lines == ["1 at +1.0 seconds", "1 at +1.0 seconds", "2 at +2.0 seconds"])
    #expect(time.now.offset == .seconds(2))
    time.advance(by: .milliseconds(999))
    #expect(log.lines.count == 3)
    time.advance(by: .milliseconds(1))
    #expect(log.lines.last == "3 at +3.0 seconds")
  }

  @Test func aDelayedJobLetsGoOfItsCapturesWhenItsOwnerEnds() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    queue.asyncAfter(.seconds(1), lifetime: owner) { [probe = Probe(log)] in withExtendedLifetime(probe) {} }
    #expect(log.lines.isEmpty)
    owner.end()
    #expect(time.pending.isEmpty)
    #expect(log.lines == ["gone"])
  }

  @Test func noJobStartsAfterItsOwnerEnds() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let (first, second) = (OwnerLifetime(), OwnerLifetime())
    queue.async(lifetime: first) { [log] in
      log.add("first")
      second.end()
    }
    for _ in 0..<10 { queue.async(lifetime: second) { [log] in log.add("second") } }
    let operation = queue.addOperation(lifetime: second) {}
    time.runUntilIdle()
    #expect(log.lines == ["first"])
    #expect(operation.isFinished && operation.isCancelled)
    #expect(queue.statistics.skippedForEndedOwners == 11)
    #expect(queue.operationCount == 0)
  }

  @Test func jobsRunByPriorityAndTheirOwnersTurns() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.ownerFairness = .roundRobin
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    for number in 1...2 { queue.async(lifetime: one) { [log] in log.add("one \(number)") } }
    queue.async(lifetime: other) { [log] in log.add("other") }
    queue.async(lifetime: other, priority: .veryHigh) { [log] in log.add("urgent") }
    time.runUntilIdle()
    #expect(log.lines == ["urgent", "one 1", "other", "one 2"])
  }

  /// Whose turn it would have been has it with what is behind the cancelled.
  @Test func whatWasCancelledTakesNoTurn() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.ownerFairness = .roundRobin
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    queue.async(lifetime: one) { [log] in log.add("one 1") }
    let cancelled = (1...3).map { _ in queue.addOperation(lifetime: other) { [log] in log.add("cancelled") } }
    queue.async(lifetime: one) { [log] in log.add("one 2") }
    for operation in cancelled { operation.cancel() }
    for number in 1...2 { queue.async(lifetime: other) { [log] in log.add("other \(number)") } }
    time.runUntilIdle()
    #expect(log.lines == ["one 1", "other 1", "one 2", "other 2"])
  }

  @Test func suspensionsOfQueueAndOwnerHold() {
    let queue = OwnerScopedQueue(virtualTime: time, name: "queue")
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    queue.async(lifetime: one) { [log] in log.add("one") }
    queue.async(lifetime: other) { [log] in log.add("other") }
    queue.isSuspended = true
    #expect(!time.runNext())
    #expect(time.pending.map(\.reason) == [.queueSuspended, .queueSuspended])
    queue.setSuspended(true, ownedBy: one)
    queue.isSuspended = false
    time.runUntilIdle()
    #expect(log.lines == ["other"])
    #expect(time.pending.map(\.reason) == [.ownerSuspended])
    queue.setSuspended(false, ownedBy: one)
    time.runUntilIdle()
    #expect(log.lines == ["other", "one"])
    #expect(time.pending.isEmpty)
  }

  @Test func whatMayRunIsReady() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.async(lifetime: .process) {}
    queue.addOperation(lifetime: .process) {}
    #expect(time.pending.map(\.reason) == [.ready, .ready])
  }

  @Test func whatHasBegunMayWaitForOtherWork() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.addOperation(lifetime: .process) { [time, log] in
      let other = queue.addOperation(lifetime: .process) {
        log.add("\(time.pending.count { $0.reason == .otherWork })")
      }
      other.waitUntilFinished()
    }
    time.runUntilIdle()
    #expect(log.lines == ["1"])
  }

  @Test func aBarrierRunsAlone() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    let operation = Asynchronous(lifetime: owner) { [time] in try await time.sleep(for: .seconds(1)) }
    queue.addOperation(operation)
    queue.addBarrierBlock { [log] in log.add("barrier") }
    queue.addBarrier(lifetime: owner) { [log] in log.add("owner's") }
    queue.async(lifetime: owner) { [log] in log.add("after") }
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    #expect(time.pending.count { $0.reason == .barrier } == 3)
    time.advance(by: .seconds(1))
    #expect(log.lines == ["barrier", "owner's", "after"])
  }

  @Test func queuesOfOneTimeTakeTurns() {
    let queues = [OwnerScopedQueue(virtualTime: time), OwnerScopedQueue(virtualTime: time)]
    let owner = OwnerLifetime()
    for (number, queue) in queues.enumerated() {
      for _ in 0..<2 { queue.async(lifetime: owner) { [log] in log.add("\(number)") } }
    }
    time.runUntilIdle()
    #expect(log.lines == ["0", "1", "0", "1"])
  }

  @Test func aQueueThatNobodyHoldsFinishesItsWork() {
    var queue: OwnerScopedQueue? = OwnerScopedQueue(virtualTime: time)
    weak let reference = queue
    queue?.async(lifetime: .process) { [log] in log.add("a") }
    queue?.async(lifetime: .process) { [log] in log.add("b") }
    queue = nil
    time.runUntilIdle()
    #expect(log.lines == ["a", "b"])
    #expect(reference == nil)
  }

  // MARK: Operations

  @Test func operationsWaitForTheirDependencies() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime(name: "owner")
    let first = OwnedBlockOperation(lifetime: owner) { [log] in log.add("first") }
    first.name = "the first"
    let plain = BlockOperation { [log] in log.add("plain") }
    let last = OwnedBlockOperation(lifetime: owner) { [log] in log.add("last") }
    plain.addDependency(first)
    last.addDependency(plain)
    last.completionBlock = { [log] in log.add("completed") }
    queue.addOperations([last, plain, first], waitUntilFinished: false)
    #expect(time.pending.contains { $0.reason == .dependencies(["the first"]) })
    time.runUntilIdle()
    #expect(log.lines == ["first", "plain", "last", "completed"])
    #expect(queue.operationCount == 0)
  }

  @Test func anOperationThatIsNotReadyIsAskedAgain() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let operation = HeldBack(log)
    queue.addOperation(operation)
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    #expect(time.pending.map(\.reason) == [.notReady])
    operation.isOpen.store(true, ordering: .releasing)
    time.runUntilIdle()
    #expect(log.lines == ["held back"])
  }

  @Test func limitsHoldForAsynchronousOperations() {
    let queue = OwnerScopedQueue(virtualTime: time, maxConcurrentOperationCount: 2)
    let owner = OwnerLifetime()
    for number in 1...3 {
      queue.addOperation(
        Asynchronous(lifetime: owner) { [log, time] in
          log.add("begin \(number)")
          try await time.sleep(for: .seconds(number))
          log.add("end \(number)")
        })
    }
    time.runUntilIdle()
    #expect(log.lines == ["begin 1", "begin 2"])
    #expect(time.pending.count { $0.reason == .limit } == 1)
    time.advance(by: .seconds(1))
    #expect(log.lines == ["begin 1", "begin 2", "end 1", "begin 3"])
    time.advance(by: .seconds(10))
    #expect(log.lines.suffix(2) == ["end 2", "end 3"])
  }

  @Test func limitsOfOwnersHold() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.maxConcurrentOperationCountPerOwner = 1
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    for owner in [one, one, other] {
      queue.addOperation(
        Asynchronous(lifetime: owner) { [log, time] in
          log.add(owner === one ? "one" : "other")
          try await time.sleep(for: .seconds(1))
        })
    }
    time.runUntilIdle()
    #expect(log.lines == ["one", "other"])
    #expect(time.pending.count { $0.reason == .limit } == 1)
    time.advance(by: .seconds(1))
    #expect(log.lines == ["one", "other", "one"])
    time.advance(by: .seconds(1))
  }

  @Test func timeoutsAreDueInVirtualTime() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    let operation = Asynchronous(lifetime: owner) { [time] in try await time.sleep(for: .seconds(60)) }
    operation.timeout = .seconds(5)
    queue.addOperation(operation)
    time.advance(by: .milliseconds(4999))
    #expect(operation.state == .executing)
    time.advance(by: .milliseconds(1))
    #expect(operation.isFinished)
    guard case .cancelled(.timedOut(.seconds(5)))? = operation.outcome else {
      Issue.record("\(String(describing: operation.outcome))")
      return
    }
    #expect(time.pending.isEmpty)
  }

  // MARK: Limits of steps

  @Test func workThatAddsItselfMeetsTheLimit() {
    let queue = OwnerScopedQueue(virtualTime: time, name: "busy")
    let owner = OwnerLifetime(name: "again and again")
    let again = Again(queue, owner)
    again.add()
    let outcome = time.runUntilIdle(limit: 100)
    #expect(!outcome.isIdle)
    #expect(outcome.steps == 100)
    #expect(outcome.rearming == ["work of \"again and again\" in \"busy\""])
    owner.end()
    #expect(time.runUntilIdle().isIdle)
  }

  @Test func aLimitThatIsJustEnoughIsNoneThatIsMet() {
    let queue = OwnerScopedQueue(virtualTime: time)
    for _ in 0..<5 { queue.async(lifetime: .process) {} }
    let outcome = time.runUntilIdle(limit: 5)
    #expect(outcome.isIdle)
    #expect(outcome.steps == 5)
  }

  @Test func theClockStaysWhereALimitIsMet() {
    let queue = OwnerScopedQueue(virtualTime: time)
    for second in 1...5 { queue.asyncAfter(.seconds(second), lifetime: .process) {} }
    let outcome = time.advance(by: .seconds(10), limit: 2)
    #expect(!outcome.isIdle && outcome.steps == 2)
    #expect(time.now.offset == .seconds(2))
    #expect(time.advance(by: .seconds(8), limit: 3).isIdle)
    #expect(time.now.offset == .seconds(10))
  }

  // MARK: Graphs and events

  @Test func aGraphRunsNodeByNode() throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let graph = OperationGraph(lifetime: OwnerLifetime())
    let first = graph.node("first") { [log] in log.add("first") }
    let middle = (1...3).map { number in graph.node("middle") { [log] in log.add("middle \(number)") } }
    let last = graph.node("last") { [log] in log.add("last") }
    for node in middle {
      first.precedes(node)
      node.precedes(last)
    }
    let run = try graph.run(on: queue)
    run.onFinish { [log] _ in log.add("finished") }
    #expect(time.runNext())
    #expect(log.lines == ["first"])
    #expect(time.pending.count { $0.kind == .graphNode } == 4)
    time.runUntilIdle()
    #expect(log.lines == ["first", "middle 1", "middle 2", "middle 3", "last", "finished"])
    #expect(run.isFinished)
  }

  @Test func deliveriesRunInVirtualTime() {
    let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
    let center = NotificationCenter()
    let name = Notification.Name("saved")
    let owner = OwnerLifetime()
    center.observe(name, lifetime: owner, on: queue) { [log] in log.add("\($0.userInfo?["number"] ?? "")") }
    for number in 1...5 { center.post(name: name, object: nil, userInfo: ["number": number]) }
    #expect(log.lines.isEmpty)
    time.runUntilIdle()
    #expect(log.lines == ["1", "2", "3", "4", "5"])
    center.post(name: name, object: nil, userInfo: ["number": 6])
    owner.end()
    time.runUntilIdle()
    #expect(log.lines.count == 5)
  }
}
