import Foundation
import Testing

@testable import OwnedOperations

/// Barriers in the scheduler by itself; see `SchedulerValueTests`.
@Suite struct SchedulerBarrierTests {
  private let one = OwnerLifetime(name: "one")
  private let other = OwnerLifetime(name: "other")

  @Test func aBarrierWaitsForWhatWasAddedBeforeAndHoldsWhatComesAfter() {
    let queue = ScheduledQueue()
    let worker = queue.add("before")
    #expect(worker?.begin() == "before")
    #expect(queue.change { scheduler, _ in scheduler.addBarrier {} }.worker == nil)
    #expect(queue.add("after") == nil)
    #expect(
      queue.text == "3 unfinished; 1 permits; 1 workers\n  1 unfinished, 1 executing; then a barrier\n"
        + "    no owner: 1 unfinished, 1 executing\n  1 unfinished, 0 executing, ready: 1, of normal\n    no owner: 1 unfinished, 0 executing"
    )
    worker?.end()
    #expect(queue.look(worker, after: .items) == .runs)
    #expect(worker?.barrier != nil)
    #expect(queue.text.hasPrefix("2 unfinished; 1 permits; 1 workers; a barrier runs\n"))
    worker?.barrier = nil
    #expect(queue.look(worker, after: .barrier) == .runs)
    #expect(worker?.begin() == "after")
  }

  // MARK: Those that have owners, in a row

  /// With what is added while it is suspended, in the order in which it is.
  private func queue(fairness: OwnerFairness = .firstComeFirstServed, _ add: (ScheduledQueue) -> Void) -> ScheduledQueue {
    let queue = ScheduledQueue()
    queue.scheduler.itemTime = 100
    queue.change { scheduler, _ in
      scheduler.setFairness(fairness)
      scheduler.setSuspended(true)
    }
    add(queue)
    return queue
  }

  private func resume(_ queue: ScheduledQueue) -> ScheduledQueue.Worker? {
    queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
  }

  private func setSuspended(_ isSuspended: Bool, _ owner: OwnerLifetime, in queue: ScheduledQueue) -> ScheduledQueue.Worker? {
    queue.change { scheduler, _ in scheduler.setSuspended(isSuspended, owner) }.worker
  }

  private func cancelAll(of owner: OwnerLifetime, in queue: ScheduledQueue) -> ScheduledQueue.Worker? {
    queue.change { scheduler, _ in
      for (ownerQueue, work) in scheduler.takeAll(of: owner).taken {
        scheduler.countCancelled(work.reduce(0) { $0 + $1.jobCount }, of: ownerQueue, forEndedOwner: false)
        for taken in work { taken.release() }
      }
    }.worker
  }

  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin]) func theyShareAPhaseAndRunOneAtATime(fairness: OwnerFairness) {
    let queue = queue(fairness: fairness) { queue in
      queue.add("before", of: one)
      for name in ["one 1", "one 2"] { queue.addAlone(name, of: one) }
      for name in ["other 1", "other 2"] { queue.addAlone(name, of: other) }
      queue.addAlone("one 3", of: one)
      queue.add("after", of: other)
    }
    #expect(queue.phases.count == 3)
    #expect(queue.text.contains("\n  5 unfinished, 0 executing, one at a time, ready: 5, of normal; then the next\n"))
    let worker = resume(queue)
    #expect(queue.look(worker) == .runs)
    #expect(worker?.begin() == "before")
    worker?.end()
    #expect(queue.look(worker, after: .items) == .runs)
    #expect(worker?.begin() == "one 1")
    // Nobody is sent for, and who comes all the same finds nothing.
    queue.scheduler.itemTime = Scheduler.unknownTime
    #expect(queue.change { scheduler, _ in scheduler.reclaimBatches() }.worker == nil)
    #expect(!queue.hasWork)
    worker?.end()
    #expect(queue.drain(worker, after: .items) == ["one 2", "other 1", "other 2", "one 3", "after"])
  }

  @Test func oneMoreComesToThoseThatRun() {
    let queue = queue { queue in
      queue.addAlone("one 1", of: one)
      queue.addAlone("one 2", of: one)
    }
    let worker = resume(queue)
    #expect(queue.look(worker) == .runs)
    #expect(worker?.begin() == "one 1")
    worker?.batchSize = 8
    worker?.end()
    #expect(queue.look(worker, after: .items) == .runs)
    #expect(worker?.begin() == "one 2")
    #expect(queue.addAlone("other", of: other) == nil)
    #expect(queue.phases.count == 2)
    // What was added since stands between the next and those before.
    queue.add("job", of: one)
    queue.addAlone("last", of: one)
    #expect(queue.phases.count == 4)
    worker?.end()
    #expect(queue.drain(worker, after: .items) == ["other", "job", "last"])
  }

  @Test func whatASuspendedOwnerHoldsUpStaysBehindIt() {
    let queue = queue { queue in
      queue.addAlone("one 1", of: one)
      queue.addAlone("other 1", of: other)
      queue.addAlone("one 2", of: one)
      queue.add("after", of: one)
    }
    _ = setSuspended(true, other, in: queue)
    #expect(queue.drain(resume(queue)) == ["one 1"])
    #expect(!queue.hasWork)
    #expect(queue.addAlone("one 3", of: one) == nil)
    let worker = setSuspended(false, other, in: queue)
    #expect(queue.drain(worker) == ["other 1", "one 2", "after", "one 3"])
  }

  @Test func whatASuspendedOwnerHeldUpGoesOnWhenThatIsCancelled() {
    let queue = queue { queue in
      queue.addAlone("one 1", of: one)
      queue.addAlone("other 1", of: other)
    }
    _ = setSuspended(true, one, in: queue)
    #expect(queue.drain(resume(queue)) == [])
    #expect(!queue.hasWork)
    #expect(queue.drain(cancelAll(of: one, in: queue)) == ["other 1"])
  }

  /// Its turn stays, void, and must not be taken for that of what it has added since.
  @Test func aCancelledOneHoldsUpNobody() {
    let queue = queue { queue in
      queue.addAlone("other 0", of: other)
      queue.addAlone("one 1", of: one)
      queue.addAlone("other 1", of: other)
      _ = cancelAll(of: one, in: queue)
      queue.addAlone("one 2", of: one)
    }
    _ = setSuspended(true, one, in: queue)
    #expect(queue.drain(resume(queue)) == ["other 0", "other 1"])
    let worker = setSuspended(false, one, in: queue)
    #expect(queue.drain(worker) == ["one 2"])
  }

  @Test func whatWasTakenInAdvanceGoesBackToItsPlace() {
    let queue = queue { queue in
      for number in 1...3 {
        queue.addAlone("one \(number)", of: one)
        queue.addAlone("other \(number)", of: other)
      }
    }
    let worker = resume(queue)
    worker?.batchSize = 8
    #expect(queue.look(worker) == .runs)
    #expect(worker?.batch.count == 6)
    #expect(worker?.begin() == "one 1")
    #expect(setSuspended(true, other, in: queue) == nil)
    #expect(worker?.begin() == nil)
    worker?.end()
    #expect(queue.look(worker, after: .items) == .leaves(isLast: true))
    let next = setSuspended(false, other, in: queue)
    #expect(queue.drain(next) == ["other 1", "one 2", "other 2", "one 3", "other 3"])
  }

  /// However they are to be taken from now on.
  @Test func theyTakeNoTurns() {
    let queue = queue { queue in
      for name in ["one 1", "one 2", "one 3"] { queue.addAlone(name, of: one) }
      for name in ["other 1", "other 2"] { queue.addAlone(name, of: other) }
    }
    queue.change { scheduler, _ in scheduler.setFairness(.roundRobin) }
    #expect(queue.drain(resume(queue)) == ["one 1", "one 2", "one 3", "other 1", "other 2"])
    #expect(queue.text == "0 unfinished; 0 permits\n  0 unfinished, 0 executing")
  }

  /// All of a phase's owner queues go in one hold of the lock.
  @Test func theyAreOfFewOwnersEach() {
    let owners = (0..<100).map { _ in OwnerLifetime() }
    let queue = queue { queue in for (number, owner) in owners.enumerated() { queue.addAlone("\(number)", of: owner) } }
    #expect(queue.phases == [64, 36, 0])
    #expect(queue.drain(resume(queue)) == (0..<100).map(String.init))
  }

  /// A worker has taken what comes before the one that is held up, and gives it back.
  @Test func whatIsGivenBackIsNotHeldUpByWhatComesBehindIt() {
    let queue = queue { queue in
      for name in ["one 1", "one 2"] { queue.addAlone(name, of: one) }
      queue.addAlone("other 1", of: other)
    }
    _ = setSuspended(true, other, in: queue)
    let worker = resume(queue)
    worker?.batchSize = 8
    #expect(queue.look(worker) == .runs)
    #expect(worker?.batch.count == 2)
    #expect(worker?.begin() == "one 1")
    queue.change { scheduler, _ in scheduler.reclaimBatches() }
    #expect(worker?.begin() == nil)
    worker?.end()
    #expect(queue.drain(worker, after: .items) == ["one 2"])
    #expect(queue.drain(setSuspended(false, other, in: queue)) == ["other 1"])
  }

  /// A second worker would find nothing.
  @Test func oneWorkerIsSentForHoweverManyThereAre() {
    let queue = ScheduledQueue()
    queue.scheduler.itemTime = 50_000
    let worker = queue.addAlone("1", of: one)
    #expect(worker != nil)
    for name in ["2", "3", "4"] { #expect(queue.addAlone(name, of: one) == nil) }
    #expect(queue.drain(worker) == ["1", "2", "3", "4"])
  }

  @Test(arguments: [OwnerFairness.firstComeFirstServed, .roundRobin]) func aPhaseWithoutWorkBecomesTheirs(fairness: OwnerFairness) {
    let queue = queue(fairness: fairness) { queue in
      queue.add("cancelled", of: one)
      _ = cancelAll(of: one, in: queue)
      queue.addAlone("1", of: other)
    }
    #expect(queue.phases.count == 2)
    #expect(queue.drain(resume(queue)) == ["1"])
  }

  /// In a phase that can't become theirs, and has nothing to do any more, they are not the second's to come.
  @Test func aWorkerIsSentForBesideOneThatIsOutsideOfItsBody() {
    let queue = queue(fairness: .roundRobin) { $0.add("job", of: one) }
    let first = resume(queue)
    #expect(queue.look(first) == .runs)
    #expect(first?.begin() == "job")
    first?.end()
    queue.change { scheduler, _ in if let first { scheduler.setOutside(first) } }
    queue.scheduler.itemTime = 50_000
    let second = queue.addAlone("barrier", of: other)
    #expect(second != nil)
    #expect(queue.drain(second) == ["barrier"])
  }

  /// The same for one without an owner.
  @Test func aWorkerIsSentForAClosureBesideOneThatIsOutsideOfItsBody() {
    let queue = ScheduledQueue()
    let first = queue.add("job", of: one)
    #expect(first?.begin() == "job")
    first?.end()
    queue.change { scheduler, _ in if let first { scheduler.setOutside(first) } }
    queue.scheduler.itemTime = 50_000
    #expect(queue.change { scheduler, _ in scheduler.addBarrier {} }.worker != nil)
  }

  /// Also while those behind it have to wait.
  @Test func aLifetimeThatIsDroppedGoesWhenItsBarrierIsOver() {
    var dropped: OwnerLifetime? = OwnerLifetime()
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in
      scheduler.setSuspended(true)
      scheduler.setSuspended(true, other)
    }
    if let dropped { queue.addAlone("dropped", of: dropped) }
    queue.addAlone("other", of: other)
    let worker = resume(queue)
    #expect(queue.look(worker) == .runs)
    #expect(worker?.begin() == "dropped")
    worker?.end()
    dropped = nil
    #expect(queue.drain(worker, after: .items) == [])
    #expect(queue.phases == [1, 0] && queue.departed == 1)
  }

  /// Its item is over, and what that leaves computes: the permit is the barrier's.
  @Test func aBarrierBeginsBesideWhatIsLeftOfAnItem() {
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setLimit(1, asSet: 1) }
    let owner = OwnerLifetime()
    let first = queue.add("first")
    #expect(first?.begin() == "first")
    queue.addAlone("barrier", of: owner)
    first?.end()
    var second: ScheduledQueue.Worker?
    for _ in 0..<3 where second == nil {
      first?.usedTime += 2_000_000
      second = queue.lookAtWorkers().worker
    }
    #expect(queue.drain(second) == ["barrier"])
    #expect(queue.look(first, after: .items) == .leaves(isLast: true))
  }
}
