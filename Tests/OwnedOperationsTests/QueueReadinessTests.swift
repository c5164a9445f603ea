import Foundation
import Testing

@testable import OwnedOperations

/// Operations that hold themselves back: each is started exactly when both its dependencies and its own `isReady` say so.
@Suite struct QueueReadinessTests {
  /// Not ready until it is open. One answer can be held up, and each tells whether a worker has asked.
  private final class Reluctant: OwnedOperation, @unchecked Sendable {  // stores constants only
    let isOpen = Mutexed(false)
    /// The answer that is to be held up, once.
    let heldUpAnswer = Mutexed<Bool?>(nil)
    let gate = Gate()
    let asked = DispatchSemaphore(value: 0)
    let askedByWorkers = Counter()
    let ran = Counter()

    override var isReady: Bool {
      let answer = super.isReady && isOpen.value
      if Worker.current != nil { askedByWorkers.add() }
      if heldUpAnswer.value == answer {
        heldUpAnswer.value = nil
        gate.pass()
      }
      asked.signal()
      return answer
    }

    override func perform() { ran.add() }
  }

  /// Doesn't ask `super`.
  private final class Headstrong: OwnedOperation, @unchecked Sendable {  // stores constants only
    let isOpen = Mutexed(false)
    let asked = DispatchSemaphore(value: 0)
    let ran = Counter()
    override var isReady: Bool {
      asked.signal()
      return isOpen.value
    }
    override func perform() { ran.add() }
  }

  @Test func dependencyAddedWhileTheOperationIsAskedIsWaitedFor() {
    let queue = OwnerScopedQueue()
    let operation = Reluctant(lifetime: .forTests)
    queue.addOperation(operation)
    for _ in 0..<3 { #expect(operation.asked.waitUntilSignalled()) }  // it is watched
    let dependency = OwnedBlockOperation(lifetime: .forTests) {}
    operation.heldUpAnswer.value = true
    operation.isOpen.value = true
    #expect(operation.gate.hasBegun())
    operation.addDependency(dependency)
    operation.gate.open()  // the answer is given: it may be that it is ready
    #expect(operation.asked.waitUntilSignalled())
    #expect(operation.ran.value == 0)
    queue.addOperation(dependency)
    #expect(queue.becomesIdle())
    #expect(operation.ran.value == 1)
  }

  @Test func operationThatDoesNotAskSuperWaitsForItsDependenciesAllTheSame() {
    let queue = OwnerScopedQueue()
    let operation = Headstrong(lifetime: .forTests)
    queue.addOperation(operation)
    for _ in 0..<3 { #expect(operation.asked.waitUntilSignalled()) }
    let dependency = OwnedBlockOperation(lifetime: .forTests) {}
    operation.addDependency(dependency)
    operation.isOpen.value = true
    queue.askWatched()
    #expect(operation.ran.value == 0)
    queue.addOperation(dependency)
    #expect(queue.becomesIdle())
    #expect(operation.ran.value == 1)
  }

  @Test func dependencyAddedWhenTheStartIsClaimedComesTooLate() {
    final class Late: OwnedOperation, @unchecked Sendable {  // stores constants only
      let ran = Counter()
      override func start() {
        addDependency(OwnedBlockOperation(lifetime: .forTests) {})
        super.start()
      }
      override func perform() { ran.add() }
    }
    let queue = OwnerScopedQueue()
    let operation = Late(lifetime: .forTests)
    queue.addOperation(operation)
    #expect(queue.becomesIdle())
    #expect(operation.ran.value == 1)
  }

  @Test func onlyTheWorkerThatIsToRunItAsks() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let operation = Reluctant(lifetime: .forTests)
    queue.addOperation(operation)
    for _ in 0..<3 {
      #expect(operation.asked.waitUntilSignalled())
      let hasRun = DispatchSemaphore(value: 0)
      queue.async(lifetime: .forTests) { hasRun.signal() }
      #expect(hasRun.waitUntilSignalled())
    }
    #expect(operation.askedByWorkers.value == 1)
    operation.isOpen.value = true
    #expect(queue.becomesIdle())
    #expect(operation.askedByWorkers.value == 2)
    #expect(operation.ran.value == 1)
  }

  @Test(arguments: [1, OwnerScopedQueue.defaultMaxConcurrentOperationCount])
  func answerThatBlocksHoldsUpNeitherJobsNorOtherQueues(limit: Int) {
    let (queue, other) = (OwnerScopedQueue(maxConcurrentOperationCount: limit), OwnerScopedQueue())
    let (slow, quick) = (Reluctant(lifetime: .forTests), Reluctant(lifetime: .forTests))
    queue.addOperation(slow)
    #expect(slow.asked.waitUntilSignalled())
    slow.heldUpAnswer.value = false
    #expect(slow.gate.hasBegun())
    for _ in 0..<2 {
      let hasRun = DispatchSemaphore(value: 0)
      queue.async(lifetime: .forTests) { hasRun.signal() }
      #expect(hasRun.waitUntilSignalled())
    }
    other.addOperation(quick)
    #expect(quick.asked.waitUntilSignalled())
    quick.isOpen.value = true
    #expect(other.becomesIdle())
    slow.isOpen.value = true
    slow.gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func answerMayCallBackIntoTheQueue() {
    final class Curious: OwnedOperation, @unchecked Sendable {  // stores constants only
      let queue: OwnerScopedQueue
      let isOpen = Mutexed(false)
      init(_ queue: OwnerScopedQueue) {
        self.queue = queue
        super.init(lifetime: .forTests)
      }
      override var isReady: Bool {
        queue.async(lifetime: .forTests) {}
        return super.isReady && isOpen.value && queue.operationCount > 0
      }
    }
    let queue = OwnerScopedQueue()
    let operation = Curious(queue)
    queue.addOperation(operation)
    operation.isOpen.value = true
    #expect(queue.becomesIdle())
  }

  @Test func announcedChangeReachesTheScheduler() {
    let scheduler = OperationSchedulerTests.Scheduler()
    let operation = Reluctant(lifetime: .forTests)
    _ = operation.attach(to: scheduler)
    #expect(!operation.answersReady)
    #expect(operation.holdBack())
    #expect(!operation.answersReady)  // the scheduler's own question is no news
    #expect(scheduler.journal.entries.isEmpty)
    operation.isOpen.value = true
    operation.didChangeValue(forKey: "isReady")
    #expect(scheduler.journal.entries == ["may be ready"])
    #expect(operation.announceAgain())
    #expect(!operation.announceAgain())
    #expect(operation.startIfReady())
    #expect(scheduler.journal.entries == ["may be ready", "finished true"])
  }

  @Test func heldBackOperationThatIsBlockedAgainIsAnnouncedByItsDependency() {
    let scheduler = OperationSchedulerTests.Scheduler()
    let operation = Reluctant(lifetime: .forTests)
    let (first, second) = (OwnedOperation(lifetime: .forTests), OwnedOperation(lifetime: .forTests))
    _ = operation.attach(to: scheduler)
    #expect(operation.holdBack())
    operation.addDependency(first)
    #expect(!operation.announceAgain())
    #expect(!operation.isWatched)
    first.start()
    #expect(scheduler.journal.entries == ["ready"])
    operation.addDependency(second)
    #expect(!operation.holdBack())  // blocked: nothing to ask
    second.start()
    #expect(scheduler.journal.entries == ["ready", "ready"])
  }

  @Test func nobodyIsWatchedOnceAllHaveRun() {
    let seen = Weakly<OwnerScopedQueue>()
    let gone: DispatchSemaphore
    do {
      let queue = OwnerScopedQueue()
      seen.object = queue
      gone = goodbye(of: queue)
      let gate = BlockOperation {}
      let operations = (0..<300).map { _ in BlockOperation {} }
      for operation in operations {
        operation.addDependency(gate)
        queue.addOperation(operation)
      }
      #expect(queue.snapshot.blockedWatched == 300)
      operations[7].cancel()
      while !operations[7].isFinished { queue.askWatched() }
      gate.start()
      #expect(queue.becomesIdle())
      #expect(operations.allSatisfy { $0.isFinished })
      #expect(queue.snapshot.watched == 0)
    }
    #expect(gone.waitUntilSignalled())
    #expect(seen.object == nil)
  }

  @Test func thoseWhoAreManyAreAskedByTurns() {
    var watched = WatchedOperations()
    let operations = (0..<10).map { _ in OwnedOperation(lifetime: .forTests) }
    for (place, operation) in operations.enumerated() {
      #expect(watched.insert(Borrowed(operation), in: .held) == Int32(place))
    }
    #expect(watched.next(4, of: .held) == Array(operations[0..<4]))
    #expect(watched.next(4, of: .held) == Array(operations[4..<8]))
    #expect(watched.next(4, of: .held) == Array(operations[8...] + operations[..<2]))
    #expect(watched.remove(at: 3, of: .held)?.object === operations[9])
    #expect(watched.remove(at: 8, of: .held) == nil)
    #expect(watched.next(20, of: .held).count == 8)
    #expect(watched.next(1, of: .blocked).isEmpty)
    withExtendedLifetime(operations) {}  // the list does not hold them, and optimised code lets them go after their last use
  }

  @Test func questionsBecomeRarerWhenNothingChanges() {
    #expect(ReadinessPace.interval(sinceLastChange: 0, lastRoundTook: 0) == 50_000_000)
    #expect(ReadinessPace.interval(sinceLastChange: 60_000_000_000, lastRoundTook: 1_000_000) == 50_000_000)
    #expect(ReadinessPace.interval(sinceLastChange: 60_000_000_001, lastRoundTook: 0) == 1_000_000_000)
    #expect(ReadinessPace.interval(sinceLastChange: 0, lastRoundTook: 10_000_000) == 200_000_000)  // 5 % of a core at most
    #expect(ReadinessPace.interval(sinceLastChange: 0, lastRoundTook: 3_600_000_000_000) == 1_000_000_000)
    #expect(ReadinessPace.share(sinceLastChange: 0) == ReadinessPace.Share(turns: 500, time: 200_000))
    #expect(ReadinessPace.share(sinceLastChange: 61_000_000_000) == ReadinessPace.Share(turns: 10_000, time: 4_000_000))
  }

  /// The last plain operation of a chain hears of each finish before it is told that it is ready.
  @Test func chainOfPlainOperationsRunsInOrder() {
    let queue = OwnerScopedQueue()
    let journal = Journal<Int>()
    let operations = (0..<200).map { number in BlockOperation { journal.write(number) } }
    for (first, second) in zip(operations, operations.dropFirst()) { second.addDependency(first) }
    queue.addOperations(operations.reversed(), waitUntilFinished: false)
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0..<200))
  }
}
