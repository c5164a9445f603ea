import Foundation
import Testing

@testable import OwnedOperations

/// A job that is added to an idle queue goes along with the worker that is sent for. Here that worker runs on a queue of GCD's that stands
/// still until the test lets it arrive.
@Suite struct QueueHandoverTests {
  private func makeThreads() -> DispatchQueue { DispatchQueue(label: "threads", attributes: [.concurrent, .initiallyInactive]) }

  @Test func jobIsHandedToTheWorkerOnItsWay() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    queue.async(lifetime: .forTests) {}
    #expect(queue.shows { $0.hasHandoff && $0.batchHasItems })
    #expect(queue.statistics.pending == 1)
    threads.activate()
    #expect(queue.becomesIdle())
    threads.sync(flags: .barrier) {}
    #expect(queue.shows { !$0.hasHandoff && $0.arrivingWorkers == 0 })
    #expect(queue.statistics.succeeded == 1)
  }

  @Test func higherPriorityComesBeforeAJobThatWasHandedOver() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1, underlyingQueue: threads)
    let journal = Journal<String>()
    queue.async(lifetime: .forTests) { journal.write("first") }
    queue.async(lifetime: .forTests) { journal.write("second") }
    queue.async(lifetime: .forTests, priority: .veryHigh) { journal.write("urgent") }
    threads.activate()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["urgent", "first", "second"])
  }

  /// Its owner is at its limit because of it.
  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin])
  func moreUrgentWorkOfOneOwnerComesBeforeAJobThatWasHandedOver(fairness: OwnerFairness) {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    queue.maxConcurrentOperationCountPerOwner = 1
    queue.ownerFairness = fairness
    let (lifetime, journal) = (OwnerLifetime(), Journal<String>())
    queue.async(lifetime: lifetime) { journal.write("handed") }
    #expect(queue.snapshot.hasHandoff)
    queue.async(lifetime: lifetime, priority: .low) { journal.write("low") }
    queue.async(lifetime: lifetime, priority: .veryHigh) { journal.write("urgent") }
    queue.addOperation(lifetime: lifetime, priority: .high) { journal.write("high") }
    threads.activate()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["urgent", "high", "handed", "low"])
  }

  @Test func ownerThatEndsTakesAJobBackThatWasHandedOver() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    let lifetime = OwnerLifetime()
    let isReleased = DispatchSemaphore(value: 0)
    let deinitProbe = DeinitProbe { isReleased.signal() }
    queue.async(lifetime: lifetime) { [deinitProbe = consume deinitProbe] in deinitProbe.mustNotRun() }
    lifetime.end()
    #expect(isReleased.waitUntilSignalled())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 1)
    // The worker finds nothing, and is none the worse.
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: .forTests) { ran.signal() }
    threads.activate()
    #expect(ran.waitUntilSignalled())
  }

  @Test func suspendingHoldsAJobThatWasHandedOver() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: .forTests) { ran.signal() }
    queue.isSuspended = true
    threads.activate()
    threads.sync(flags: .barrier) {}  // the worker has come and gone
    #expect(queue.statistics.pending == 1)
    queue.isSuspended = false
    #expect(ran.waitUntilSignalled())
  }

  @Test func suspendedOwnerHoldsAJobThatWasHandedOver() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    let lifetime = OwnerLifetime()
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: lifetime) { ran.signal() }
    queue.setSuspended(true, ownedBy: lifetime)
    threads.activate()
    threads.sync(flags: .barrier) {}
    #expect(queue.operationCount(ownedBy: lifetime) == 1)
    queue.setSuspended(false, ownedBy: lifetime)
    #expect(ran.waitUntilSignalled())
  }

  @Test func barrierWaitsForAJobThatWasHandedOver() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    let journal = Journal<String>()
    queue.async(lifetime: .forTests) { journal.write("job") }
    queue.addBarrierBlock { journal.write("barrier") }
    queue.async(lifetime: .forTests) { journal.write("next") }
    threads.activate()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["job", "barrier", "next"])
  }

  /// The worker runs the job without having taken the queue's lock; it counts as there all the same.
  @Test func workThatComesWhileAHandedJobRunsGetsAWorkerOfItsOwn() {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: .forTests) { gate.pass() }
    #expect(gate.hasBegun())
    queue.async(lifetime: .forTests) { ran.signal() }
    #expect(ran.waitUntilSignalled())
    gate.open()
    #expect(queue.becomesIdle())
  }

  /// The monitor takes nobody for blocked who has not come yet.
  @Test func workerOnItsWayIsNotTakenForBlocked() {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    queue.setItemTime(1_000)
    queue.async(lifetime: .forTests) {}
    queue.lookAtWorkers(times: 3)
    #expect(queue.shows { $0.blockedWorkers == 0 && $0.itemTime == 1_000 && $0.hasHandoff })
    threads.activate()
    #expect(queue.becomesIdle())
  }

  /// Where jobs take longer than a worker's way, the next worker doesn't wait for the one before to arrive and find that there is more.
  @Test(arguments: [(UInt64(20_000), Processors.count), (100, 1)])
  func workersSetOutTogetherForLongJobs(nanoseconds: UInt64, expected: Int) {
    let threads = makeThreads()
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    queue.setItemTime(nanoseconds)
    let ran = Counter()
    for _ in 0..<10 * Processors.count { queue.async(lifetime: .forTests) { ran.add() } }
    let arriving = queue.snapshot.arrivingWorkers
    // More are let in if nothing has moved for long.
    #expect(expected == 1 ? arriving == 1 : arriving >= expected)
    threads.activate()
    #expect(queue.becomesIdle())
    #expect(ran.value == 10 * Processors.count)
    #expect(eventually { queue.shows { $0.arrivingWorkers == 0 && $0.activeWorkers == 0 } })
  }

  @Test func limitHoldsWhileAHandedJobRuns() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    let journal = Journal<Int>()
    queue.async(lifetime: .forTests) {
      gate.pass()
      journal.write(0)
    }
    #expect(gate.hasBegun())
    for number in 1...100 { queue.async(lifetime: .forTests) { journal.write(number) } }
    let active = queue.snapshot.activeWorkers
    #expect(active == 1)
    gate.open()
    #expect(queue.becomesIdle())
    let isInOrder = journal.entries == Array(0...100)
    #expect(isInOrder)
  }

  @Test func jobsOfSeveralThreadsAddedToAnIdleQueueAllRunOnce() {
    let queue = OwnerScopedQueue()
    let ran = Counter()
    for _ in 0..<2_000 {
      DispatchQueue.concurrentPerform(iterations: 3) { _ in queue.async(lifetime: .forTests) { ran.add() } }
      guard queue.becomesIdle() else {
        Issue.record("a job was lost")
        return
      }
    }
    #expect(ran.value == 6_000)
    // A worker that took its time after the last was counted out by others.
    #expect(eventually { queue.shows { !$0.hasHandoff && $0.unfinished == 0 } })
  }
}
