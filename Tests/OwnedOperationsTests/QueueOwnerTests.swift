import Foundation
import Testing

@testable import OwnedOperations

/// A class without a token.
private final class PlainOwner: Sendable {}

/// Work by owner: every call for token owners, any object, and bare lifetimes.
@Suite struct QueueOwnerTests {
  @Test func everyCallTakesTokenOwnersObjectsAndLifetimes() async throws {
    let queue = OwnerScopedQueue()
    let (owner, object, lifetime) = (TokenOwner(), PlainOwner(), OwnerLifetime())
    let ran = Counter()
    queue.async(owner: owner) { if $0 === owner { ran.add() } }
    queue.async(owner: object) { if $0 === object { ran.add() } }
    queue.async(lifetime: lifetime) { ran.add() }
    queue.addOperation(owner: owner) { if $0 === owner { ran.add() } }
    queue.addOperation(owner: object) { if $0 === object { ran.add() } }
    queue.addOperation(lifetime: lifetime) { ran.add() }
    let delayed = DispatchSemaphore(value: 0)
    queue.asyncAfter(.milliseconds(1), owner: owner) { if $0 === owner { delayed.signal() } }
    queue.asyncAfter(.milliseconds(1), owner: object) { if $0 === object { delayed.signal() } }
    queue.asyncAfter(.milliseconds(1), lifetime: lifetime) { delayed.signal() }
    #expect(try await queue.run(owner: owner) { $0 === owner })
    #expect(try await queue.run(owner: object) { $0 === object })
    #expect(try await queue.run(lifetime: lifetime) { 7 } == 7)
    await queue.finished(ownedBy: owner.lifetime)
    await queue.finished(ownedBy: OwnerLifetime.of(object as AnyObject))
    await queue.finished()
    #expect(returns { for _ in 0..<3 { _ = delayed.waitUntilSignalled() } })
    #expect(ran.value == 6)
  }

  @Test func workOfAnyKindEndsWithItsOwner() async {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    var (owner, object): (TokenOwner?, PlainOwner?) = (TokenOwner(), PlainOwner())
    let (ownerSeen, objectSeen) = (Weakly<TokenOwner>(), Weakly<PlainOwner>())
    (ownerSeen.object, objectSeen.object) = (owner, object)
    let kept = LiveCount()
    for _ in 0..<10 {
      let (first, second) = (kept.makeMember(), kept.makeMember())
      queue.async(owner: owner!) { _ in first.mustNotRun() }
      queue.addOperation(owner: object!) { _ in second.mustNotRun() }
    }
    queue.asyncAfter(.seconds(600), owner: owner!) { _ in Issue.record("has run") }
    (owner, object) = (nil, nil)
    #expect(ownerSeen.object == nil && objectSeen.object == nil)
    #expect(kept.becomesZero())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 20)
  }

  @Test func ownerIsHeldStronglyWhileItsWorkRuns() {
    let queue = OwnerScopedQueue()
    var owner: TokenOwner? = TokenOwner()
    let seen = Weakly<TokenOwner>()
    seen.object = owner
    let gone = goodbye(of: owner!)
    let gate = Gate()
    queue.async(owner: owner!) { _ in gate.pass() }
    #expect(gate.hasBegun())
    owner = nil
    #expect(seen.object != nil)
    gate.open()
    #expect(gone.waitUntilSignalled())
  }

  @Test func ownerMayHaveWorkInManyQueues() {
    let queues = (0..<10).map { _ in OwnerScopedQueue() }
    let lifetime = OwnerLifetime()
    for queue in queues {
      queue.isSuspended = true
      for _ in 0..<100 { queue.async(lifetime: lifetime) { Issue.record("has run") } }
    }
    lifetime.end()
    for queue in queues {
      #expect(queue.becomesIdle())
      #expect(queue.statistics.skippedForEndedOwners == 100)
    }
  }

  @Test func suspendedOwnerWaitsWhileOthersGoOn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (held, other) = (OwnerLifetime(), OwnerLifetime())
    let journal = Journal<String>()
    queue.setSuspended(true, ownedBy: held)
    for number in 0..<10 {
      queue.async(lifetime: held) { journal.write("held \(number)") }
      queue.addOperation(lifetime: other) { journal.write("other \(number)") }
    }
    #expect(returns { queue.waitUntilFinished(ownedBy: other) })
    #expect(journal.entries == (0..<10).map { "other \($0)" })
    #expect(queue.operationCount(ownedBy: held) == 10)
    queue.setSuspended(false, ownedBy: held)
    #expect(queue.becomesIdle())
    #expect(journal.entries.suffix(10) == (0..<10).map { "held \($0)" })
    queue.setSuspended(true, ownedBy: held)
    queue.async(lifetime: held) { Issue.record("has run") }
    held.end()
    #expect(queue.becomesIdle())
  }

  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin]) func limitForEachOwnerIsKept(fairness: OwnerFairness) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 8)
    queue.ownerFairness = fairness
    queue.maxConcurrentOperationCountPerOwner = 1
    let owners = (0..<4).map { _ in OwnerLifetime() }
    let tooMany = Counter()
    let total = Counter()
    for owner in owners {
      let running = Counter()
      for number in 0..<200 {
        let body: @Sendable () -> Void = {
          running.add()
          if running.value > 1 { tooMany.add() }
          Pause.spin(20)
          if running.value > 1 { tooMany.add() }
          running.add(-1)
          total.add()
        }
        if number % 2 == 0 { queue.async(lifetime: owner, execute: body) } else { queue.addOperation(lifetime: owner, body) }
      }
    }
    #expect(queue.becomesIdle())
    #expect(tooMany.value == 0)
    #expect(total.value == 800)
  }

  @Test func roundRobinDelaysASingleJobByAtMostOneJobOfEachOwnerAndWorker() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.ownerFairness = .roundRobin
    let busy = (0..<5).map { _ in OwnerLifetime() }
    let single = OwnerLifetime()
    let journal = Journal<Int>()
    let gate = Gate()
    queue.addOperation { gate.pass() }
    #expect(gate.hasBegun())
    for _ in 0..<1_000 {
      for (number, owner) in busy.enumerated() { queue.async(lifetime: owner) { journal.write(number) } }
    }
    queue.async(lifetime: single) { journal.write(-1) }
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries.firstIndex(of: -1) ?? .max <= busy.count)
    #expect(journal.entries.count == 5_001)
  }

  @Test func roundRobinHoldsForJobsThatComeLaterInTheMiddleOfTheRush() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.ownerFairness = .roundRobin
    let busy = (0..<5).map { _ in OwnerLifetime() }
    let single = OwnerLifetime()
    let journal = Journal<Int>()
    let gate = Gate()
    queue.isSuspended = true
    for round in 0..<2_000 {
      for (number, owner) in busy.enumerated() {
        queue.async(lifetime: owner) {
          journal.write(number)
          if round == 1_000, number == 2 { gate.pass() }
        }
      }
    }
    queue.isSuspended = false
    #expect(gate.hasBegun())
    let before = journal.entries.count
    queue.async(lifetime: single) { journal.write(-1) }
    gate.open()
    #expect(queue.becomesIdle())
    #expect((journal.entries.firstIndex(of: -1) ?? .max) - before <= busy.count)
  }

  @Test func statisticsAddUpAtAnyTime() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    struct Failure: Error {}
    let lifetime = OwnerLifetime()
    let gate = Gate()
    queue.addOperation(lifetime: lifetime) { throw Failure() }
    queue.async(lifetime: lifetime) { gate.pass() }
    queue.addBarrierBlock { gate.pass() }
    queue.async(lifetime: lifetime) {}
    #expect(gate.hasBegun())
    var seen = queue.statistics
    #expect(seen == expected(enqueued: 4, started: 2, failed: 1, pending: 2, executing: 1))
    gate.open()
    #expect(gate.hasBegun())
    seen = queue.statistics
    #expect(seen == expected(enqueued: 4, started: 3, succeeded: 1, failed: 1, pending: 1, executing: 1))
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    gate.open()
    #expect(queue.becomesIdle())
    seen = queue.statistics
    #expect(seen == expected(enqueued: 4, started: 3, succeeded: 2, failed: 1, cancelled: 1, skipped: 1))
  }

  private func expected(
    enqueued: Int, started: Int, succeeded: Int = 0, failed: Int = 0, cancelled: Int = 0, skipped: Int = 0, pending: Int = 0,
    executing: Int = 0
  ) -> OwnerScopedQueue.Statistics {
    var statistics = OwnerScopedQueue.Statistics()
    statistics.enqueued = enqueued
    statistics.started = started
    statistics.succeeded = succeeded
    statistics.failed = failed
    statistics.cancelled = cancelled
    statistics.skippedForEndedOwners = skipped
    statistics.pending = pending
    statistics.executing = executing
    return statistics
  }

  @Test func barrierRunsThoughOwnersEndWhileItWaits() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (doomed, other) = (OwnerLifetime(), OwnerLifetime())
    let journal = Journal<String>()
    let gate = Gate()
    queue.async(lifetime: other) { gate.pass() }
    #expect(gate.hasBegun())
    for _ in 0..<10 { queue.async(lifetime: doomed) { journal.write("doomed") } }
    queue.addOperation(lifetime: doomed) { journal.write("doomed") }
    queue.addBarrierBlock { journal.write("barrier") }
    queue.async(lifetime: doomed, priority: .veryHigh) { journal.write("doomed") }
    queue.async(lifetime: other, priority: .veryLow) { journal.write("low") }
    queue.async(lifetime: other, priority: .veryHigh) { journal.write("high") }
    doomed.end()
    LifetimeReaper.waitUntilIdle()
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["barrier", "high", "low"])
  }
}
