import Foundation
import Testing

@testable import OwnedOperations

/// What is over leaves nothing behind, even in a queue that does not get to it.
@Suite struct QueueMemoryTests {
  private func itemCount(in queue: OwnerScopedQueue) -> Int {
    queue.owners.reduce(0) { $0 + $1.items }
  }

  private static let kinds = ["of the queue", "of one owner", "of an owner each", "of another priority"]

  @Test(arguments: kinds, [OwnerFairness.firstComeFirstServed, .roundRobin])
  func cancelledOperationsDoNotPileUpInASuspendedQueue(kind: String, fairness: OwnerFairness) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.ownerFairness = fairness
    queue.isSuspended = true
    let journal = Journal<Int>()
    let common = OwnerLifetime()
    var owners: [OwnerLifetime] = []
    let thousands = Sanitizer.many(10)
    for number in 0..<thousands * 1_000 {
      let lifetime = kind == "of the queue" ? .forTests : kind == "of an owner each" ? OwnerLifetime() : common
      owners.append(lifetime)
      let operation = OwnedBlockOperation(lifetime: lifetime) { journal.write(number) }
      queue.addOperation(operation)
      if kind == "of another priority" {
        operation.queuePriority = .high
        operation.queuePriority = .normal
      }
      if number % 1_000 != 500 { operation.cancel() }
    }
    #expect(itemCount(in: queue) < 500)
    #expect(queue.operationCount == thousands)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == (0..<thousands).map { $0 * 1_000 + 500 })
    withExtendedLifetime(owners) {}
  }

  /// Of two owners, whose operations take turns; every third is cancelled.
  @Test(arguments: [false, true]) func orderAmongThoseThatAreLeftStays(isHeld: Bool) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owners = [OwnerLifetime(), OwnerLifetime(), OwnerLifetime()]
    let journal = Journal<Int>()
    let gate = Gate()
    queue.addOperation { gate.pass() }
    #expect(gate.hasBegun())
    if isHeld { queue.setSuspended(true, ownedBy: owners[1]) }
    var random = SplitMix(state: 7)
    var expected: [(number: Int, owner: Int)] = []
    for number in 0..<3_000 {
      let owner = random.below(3)
      let operation = queue.addOperation(lifetime: owners[owner]) { journal.write(number) }
      expected.append((number, owner))
      if random.below(3) > 0 {
        operation.cancel()
        expected.removeLast()
      }
      // Now and then all of an owner is taken out, which leaves its tickets behind.
      if number % 500 == 250 {
        queue.cancelOperations(ownedBy: owners[2])
        expected.removeAll { $0.owner == 2 }
      }
    }
    #expect(itemCount(in: queue) < 3 * expected.count)
    if isHeld { queue.setSuspended(false, ownedBy: owners[1]) }
    gate.open()
    #expect(queue.becomesIdle())
    let isInOrder = journal.entries == expected.map { $0.number }
    #expect(isInOrder)
  }

  /// What waited for a job that was handed over, and is given back, is not lost when the dead are swept.
  @Test func sweepingLeavesTheTurnsOfWhatIsGivenBack() {
    let (underlying, gate) = (DispatchQueue(label: "busy"), Gate())
    underlying.async { gate.pass() }
    #expect(gate.hasBegun())
    let (queue, lifetime, ran) = (OwnerScopedQueue(), OwnerLifetime(), Counter())
    queue.underlyingQueue = underlying
    queue.maxConcurrentOperationCountPerOwner = 1
    queue.async(lifetime: lifetime) { ran.add() }
    let operations = (0..<100).map { _ in queue.addOperation(lifetime: lifetime) { ran.add() } }
    // Others' work has the queue take the job back.
    queue.async(lifetime: .process) {}
    for operation in operations.suffix(64) { operation.cancel() }
    gate.open()
    #expect(queue.becomesIdle())
    #expect(ran.value == 37)
  }

  @Test func cancelledGraphsDoNotPileUpInASuspendedQueue() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let live = Counter()
    for _ in 0..<1_000 {
      let graph = OperationGraph(lifetime: .forTests)
      live.add()
      let deinitProbe = DeinitProbe { live.add(-1) }
      for _ in 0..<10 { _ = graph.node { deinitProbe.mustNotRun() } }
      try graph.run(on: queue).cancel()
    }
    DeferredReleases.waitUntilIdle()
    #expect(live.value == 0)
    #expect(itemCount(in: queue) < 500)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(queue.statistics.cancelled == 10_000)
  }

  /// Their turns would stay until the queue goes on.
  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin], [1, 3, 9])
  func ownersThatComeAndGoLeaveNothingInASuspendedQueue(fairness: OwnerFairness, jobs: Int) {
    let queue = OwnerScopedQueue()
    queue.ownerFairness = fairness
    queue.isSuspended = true
    let live = Counter()
    let priorities: [Operation.QueuePriority] = [.low, .normal, .high]
    for number in 0..<2_000 {
      let lifetime = OwnerLifetime()
      live.add()
      let probe = DeinitProbe { live.add(-1) }
      for job in 0..<jobs { queue.async(lifetime: lifetime, priority: priorities[(number + job) % 3]) { probe.mustNotRun() } }
      lifetime.end()
      if number % 100 == 99 { LifetimeReaper.waitUntilIdle() }
    }
    LifetimeReaper.waitUntilIdle()
    #expect(live.value == 0)
    #expect(queue.snapshot.turns <= 3 * 64)
    #expect(queue.snapshot.ownerQueues == 0)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 2_000 * jobs)
  }

  /// Each owner is suspended, all that it has is cancelled, and it goes on.
  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin])
  func suspendedOwnersWhoseOperationsAreCancelledLeaveNothing(fairness: OwnerFairness) {
    let queue = OwnerScopedQueue()
    queue.ownerFairness = fairness
    queue.isSuspended = true
    let owners = (0..<1_000).map { _ in OwnerLifetime() }
    for owner in owners {
      queue.setSuspended(true, ownedBy: owner)
      queue.addOperation(lifetime: owner) {}.cancel()
    }
    for owner in owners { queue.setSuspended(false, ownedBy: owner) }
    #expect(queue.snapshot.turns <= 2 * 64)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(queue.statistics.cancelled == 1_000)
  }

  /// In a queue that can't go on, beside barriers that stay.
  @Test(arguments: [1, 3, 40]) func barriersThatComeAndGoLeaveNothing(alive: Int) {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let (stays, ran) = (OwnerLifetime(), Counter())
    var tokens: [OwnerLifetime.Token] = []
    for number in 0..<5_000 {
      let token = OwnerLifetime.Token()
      queue.addBarrier(lifetime: token.lifetime) { Issue.record("it ran") }
      if number % 1_000 == 500 { queue.addBarrier(lifetime: stays) { ran.add() } }
      if number % 1_000 == 700 { queue.addBarrierBlock { ran.add() } }
      tokens.append(token)
      if tokens.count > alive { tokens.removeFirst().lifetime.end() }
      if number % 100 == 99 { LifetimeReaper.waitUntilIdle() }
    }
    for token in tokens { token.lifetime.end() }
    LifetimeReaper.waitUntilIdle()
    // No more than a hundred are told of at a time.
    #expect(queue.core.read { $0.phases.count } < 600)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == 10)
  }

  /// One owner's turn, with many jobs, is in front of the void ones, and the next owner's behind them.
  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin])
  func ownersThatComeAndGoBehindOneThatStaysLeaveNothing(fairness: OwnerFairness) {
    let queue = OwnerScopedQueue()
    queue.ownerFairness = fairness
    queue.isSuspended = true
    let (stays, ran) = (OwnerLifetime(), Counter())
    for _ in 0..<20_000 { queue.async(lifetime: stays) { ran.add() } }
    var former = OwnerLifetime.Token()
    for _ in 0..<10_000 {
      let next = OwnerLifetime.Token()
      queue.async(lifetime: next.lifetime) { ran.add() }
      former.lifetime.end()
      former = next
    }
    LifetimeReaper.waitUntilIdle()
    #expect(queue.snapshot.turns < 200)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == 20_001)
  }

  /// Their operations are swept as dead, which leaves the turns of their flows.
  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin])
  func ownersWhoseOperationsAreCancelledLeaveNoTurns(fairness: OwnerFairness) {
    let queue = OwnerScopedQueue()
    queue.ownerFairness = fairness
    queue.isSuspended = true
    let stays = OwnerLifetime()
    queue.async(lifetime: stays) {}
    for _ in 0..<40 {
      let lifetimes = (0..<64).map { _ in OwnerLifetime() }
      let operations = lifetimes.map { lifetime in queue.addOperation(lifetime: lifetime) {} }
      for operation in operations { operation.cancel() }
      for lifetime in lifetimes { lifetime.end() }
      let passing = OwnerLifetime.Token()
      queue.async(lifetime: passing.lifetime) {}
      passing.lifetime.end()
    }
    LifetimeReaper.waitUntilIdle()
    #expect(queue.snapshot.turns < 200)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
  }

  /// Others' turns are void in between, in front, and behind.
  @Test(arguments: [1, 2, 7]) func orderAmongOwnersThatStayIsThatOfAdding(jobs: Int) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.isSuspended = true
    let journal = Journal<Int>()
    var random = SplitMix(state: UInt64(jobs))
    var owners: [OwnerLifetime] = []
    var expected: [(number: Int, owner: OwnerID)] = []
    for number in 0..<3_000 {
      if owners.count < 50 { owners.append(OwnerLifetime()) }
      let owner = owners[random.below(owners.count)]
      for _ in 0..<jobs {
        queue.async(lifetime: owner) { journal.write(number) }
        expected.append((number, owner.id))
      }
      guard random.below(4) > 0 else { continue }
      let ended = owners.remove(at: random.below(owners.count))
      ended.end()
      expected.removeAll { $0.owner == ended.id }
      if random.below(10) == 0 {
        LifetimeReaper.waitUntilIdle()
        #expect(queue.snapshot.turns <= 2 * expected.count + 64)
      }
    }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    let isInOrder = journal.entries == expected.map { $0.number }
    #expect(isInOrder)
    withExtendedLifetime(owners) {}
  }

  /// They have some ten kilobytes each, and a queue may have had dozens while bodies blocked.
  @Test func aQueueThatIsIdleKeepsNoWorkers() {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCount = 20
    let begun = DispatchGroup()
    let mayEnd = DispatchSemaphore(value: 0)
    for _ in 0..<20 {
      begun.enter()
      queue.async(lifetime: .forTests) {
        begun.leave()
        mayEnd.wait()
      }
    }
    #expect(begun.wait(timeout: .now() + 30) == .success)
    queue.tidyUp()  // which leaves alone who is active
    #expect(queue.snapshot.activeWorkers >= 20)
    for _ in 0..<20 { mayEnd.signal() }
    #expect(queue.becomesIdle())
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    queue.tidyUp()
    #expect(queue.snapshot.restingWorkers == 0)
    let ran = Counter()
    queue.async(lifetime: .forTests) { ran.add() }
    #expect(queue.becomesIdle())
    #expect(ran.value == 1)
  }

  /// Nobody tells a queue that a lifetime which still is held will have no more work.
  @Test func ownerQueuesOfLifetimesWithoutWorkDoNotPileUp() {
    let queue = OwnerScopedQueue()
    var lifetimes: [OwnerLifetime] = []
    var most = 0
    for number in 0..<5_000 {
      let lifetime = OwnerLifetime()
      lifetimes.append(lifetime)
      queue.async(lifetime: lifetime) {}
      if number % 50 == 49 { #expect(queue.becomesIdle()) }
      most = max(most, queue.snapshot.ownerQueues)
    }
    #expect(most <= 256)
    withExtendedLifetime(lifetimes) {}
  }
}
