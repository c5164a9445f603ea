import Foundation
import Testing

@testable import OwnedOperations

#if !canImport(ObjectiveC)
  /// Who ends an owner sees to the little that it has in a queue, if the queue's lock is free; all else is left to the reaper.
  struct EndToldAtOnceTests {
    @Test func theJobOfOneThatEndsIsCancelledWhenTheEndHasReturned() {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let others = Counter()
      let stays = OwnerLifetime.Token()
      // The queue never runs out of work: nobody else takes its lock.
      queue.async(lifetime: stays.lifetime) { others.add() }
      for number in 0..<600 {
        let (token, gone) = (OwnerLifetime.Token(), Counter())
        let probe = DeinitProbe { gone.add() }
        queue.async(lifetime: token.lifetime) { probe.mustNotRun() }
        if number % 10 == 0 { queue.async(lifetime: stays.lifetime) { others.add() } }
        token.lifetime.end()
        #expect(queue.snapshot(of: token.lifetime) == nil)
        #expect(queue.statistics.skippedForEndedOwners == number + 1)
        #expect(queue.snapshot.turns <= 2 * (number / 10 + 2) + 64)
      }
      queue.isSuspended = false
      #expect(queue.becomesIdle())
      #expect(others.value == 61)
      #expect(queue.statistics.cancelled == 600)
    }

    @Test func whatItHasCapturedGoesInTheBackground() {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let (begins, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let token = OwnerLifetime.Token()
      do {
        let probe = DeinitProbe {
          begins.signal()
          mayEnd.wait()
        }
        queue.async(lifetime: token.lifetime) { probe.mustNotRun() }
      }
      #expect(returns { token.lifetime.end() })
      #expect(begins.waitUntilSignalled())
      mayEnd.signal()
      LifetimeReaper.waitUntilIdle()
    }

    /// A hundred thousand turns are void behind the first and before the last. Who ends the first drops a few of them.
    @Test func anEndTakesConstantTimeHoweverManyTurnsAreVoid() {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let (first, last) = (OwnerLifetime.Token(), OwnerLifetime())
      let others = (0..<2).map { _ in OwnerLifetime() }
      queue.async(lifetime: first.lifetime) {}
      let each = Sanitizer.many(50_000)
      for _ in 0..<each { for other in others { queue.async(lifetime: other) {} } }
      for _ in 0..<each { for lifetime in [last, OwnerLifetime.forTests] { queue.async(lifetime: lifetime) {} } }
      others[0].end()
      LifetimeReaper.waitUntilIdle()
      let before = queue.snapshot.turns
      first.lifetime.end()
      #expect(queue.snapshot(of: first.lifetime) == nil)
      #expect(queue.snapshot.turns >= before - 9)
      others[1].end()
      LifetimeReaper.waitUntilIdle()
      #expect(queue.snapshot.turns < 3 * each)
      last.end()
      LifetimeReaper.waitUntilIdle()
      queue.isSuspended = false
      #expect(queue.becomesIdle())
      #expect(queue.statistics.succeeded == each)
    }

    /// The queue is told all the same, and adds up.
    @Test(arguments: Case.allCases) func whatIsMoreThanAJobIsLeftToTheReaper(_ kind: Case) {
      let queue = OwnerScopedQueue()
      let token = OwnerLifetime.Token()
      let gate = Gate()
      let live = Counter()
      func add() {
        live.add()
        let probe = DeinitProbe { live.add(-1) }
        queue.async(lifetime: token.lifetime) { probe.mustNotRun() }
      }
      kind.prepare(queue, token.lifetime, gate)
      queue.isSuspended = true
      add()
      if kind == .twoJobs { add() }
      if kind == .otherPriority {
        live.add()
        let probe = DeinitProbe { live.add(-1) }
        queue.async(lifetime: token.lifetime, priority: .high) { probe.mustNotRun() }
      }
      token.lifetime.end()
      LifetimeReaper.waitUntilIdle()
      #expect(live.value == 0)
      #expect(kind == .barrier || kind == .running || queue.snapshot(of: token.lifetime) == nil)
      queue.isSuspended = false
      if kind == .running { gate.open() }
      #expect(queue.becomesIdle())
      let statistics = queue.statistics
      #expect(statistics.enqueued == statistics.started + statistics.cancelled)
    }

    enum Case: CaseIterable {
      case twoJobs, otherPriority, ownerLimit, barrier, running, progress, operation, roundRobin, suspendedOwner

      fileprivate func prepare(_ queue: OwnerScopedQueue, _ lifetime: OwnerLifetime, _ gate: Gate) {
        switch self {
        case .twoJobs, .otherPriority: break
        case .ownerLimit: queue.maxConcurrentOperationCountPerOwner = 1
        case .barrier: queue.addBarrierBlock {}
        case .running:
          queue.async(lifetime: lifetime) { gate.pass() }
          #expect(gate.hasBegun())
        case .progress: _ = queue.progress
        case .operation:
          let last = OwnedBlockOperation(lifetime: lifetime) {}
          last.addDependency(OwnedBlockOperation(lifetime: .forTests) {})
          queue.addOperation(last)
        case .roundRobin: queue.ownerFairness = .roundRobin
        case .suspendedOwner: queue.setSuspended(true, ownedBy: lifetime)
        }
      }
    }

    /// Owners outlive queues, and queues go while owners end.
    @Test func theQueueHasGone() {
      for round in 0..<200 {
        let tokens = (0..<4).map { _ in OwnerLifetime.Token() }
        var queue: OwnerScopedQueue? = OwnerScopedQueue()
        let facade = queue!.operationQueue
        queue?.isSuspended = round % 2 == 0
        for token in tokens { queue?.async(lifetime: token.lifetime) {} }
        let threads = DispatchGroup()
        for token in tokens {
          threads.enter()
          Thread.detachNewThread {
            token.lifetime.end()
            threads.leave()
          }
        }
        queue = nil
        #expect(threads.wait(timeout: .now() + 30) == .success)
        facade.isSuspended = false
        facade.waitUntilAllOperationsAreFinished()
      }
    }

    /// An end under the queue's lock can't be told there, and waits for nobody.
    @Test func theLockIsTaken() {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let token = OwnerLifetime.Token()
      queue.async(lifetime: token.lifetime) {}
      queue.whileLocked { _ in token.lifetime.end() }
      LifetimeReaper.waitUntilIdle()
      #expect(queue.snapshot(of: token.lifetime) == nil)
      #expect(queue.statistics.skippedForEndedOwners == 1)
      queue.isSuspended = false
      #expect(queue.becomesIdle())
    }
  }
#endif
