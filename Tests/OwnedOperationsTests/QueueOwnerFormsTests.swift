import Foundation
import Testing

@testable import OwnedOperations

/// `addBarrier(owner:)`, `sync(owner:)`, jobs that throw, and `get()`.
@Suite struct QueueOwnerFormsTests {
  private struct Failure: Error, Equatable { let number: Int }
  private final class Plain: Sendable {}

  // MARK: Barriers

  @Test(arguments: [-1, 1, 3]) func barriersOfOwnersRunAlone(limit: Int) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
    let owner = TokenOwner()
    let plain = Plain()
    let running = Counter()
    let journal = Journal<Int>()
    for round in 0..<20 {
      for _ in 0..<5 {
        queue.async(owner: owner) { _ in
          running.add()
          sched_yield()
          running.add(-1)
        }
      }
      queue.addBarrier(owner: owner) { _ in
        #expect(running.value == 0)
        journal.write(round)
      }
      queue.addBarrier(owner: plain) { _ in #expect(running.value == 0) }
      queue.addBarrier(lifetime: owner.lifetime) { #expect(running.value == 0) }
    }
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0..<20))
    #expect(queue.statistics.succeeded == 20 * 8)
    withExtendedLifetime((owner, plain)) {}
  }

  @Test func aBarrierOfAnOwnerThatEndsNeverRunsAndHoldsUpNobody() {
    let queue = OwnerScopedQueue()
    let other = TokenOwner()
    let live = LiveCount()
    let journal = Journal<String>()
    let gate = Gate()
    queue.async(owner: other) { _ in
      gate.pass()
      journal.write("before")
    }
    #expect(gate.hasBegun())
    do {
      let owner = TokenOwner()
      let captured = live.makeMember()
      queue.addBarrier(owner: owner) { _ in captured.mustNotRun() }
      #expect(queue.operationCount(ownedBy: owner.lifetime) == 1)
    }
    queue.async(owner: other) { _ in journal.write("behind") }
    // Released though the barrier's turn can't have come.
    #expect(live.becomesZero())
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["before", "behind"])
    #expect(queue.statistics.skippedForEndedOwners == 1)
    withExtendedLifetime(other) {}
  }

  @Test func aBarrierAddedForAnEndedOwnerIsSkipped() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    lifetime.end()
    queue.addBarrier(lifetime: lifetime) { Issue.record("has run") }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 1)
    #expect(queue.statistics.enqueued == 1)
  }

  @Test func cancellingAnOwnersWorkTakesItsBarrierAlong() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    queue.isSuspended = true
    queue.addBarrier(owner: owner) { _ in Issue.record("has run") }
    queue.cancelOperations(ownedBy: owner.lifetime)
    queue.isSuspended = false
    #expect(returns { queue.waitUntilFinished(ownedBy: owner.lifetime) })
    #expect(queue.becomesIdle())
    #expect(queue.statistics.cancelled == 1)
  }

  /// A cancelled operation's turn is still there, and is none of a barrier.
  @Test(arguments: [Operation.QueuePriority.normal, .high]) func whatASuspendedOwnerHasLeftBehindHoldsUpNoBarrier(
    priority: Operation.QueuePriority
  ) {
    let queue = OwnerScopedQueue()
    let (suspended, owner) = (OwnerLifetime(), OwnerLifetime())
    let hasRun = DispatchSemaphore(value: 0)
    queue.isSuspended = true
    let operation = OwnedBlockOperation(lifetime: suspended) { Issue.record("has run") }
    operation.queuePriority = priority
    queue.addOperation(operation)
    queue.setSuspended(true, ownedBy: suspended)
    operation.cancel()
    queue.addBarrier(lifetime: owner) { hasRun.signal() }
    queue.isSuspended = false
    #expect(hasRun.waitUntilSignalled())
    #expect(queue.becomesIdle())
  }

  /// A lifetime that only its barrier keeps ends with it, but not on the thread that cancels: that may have locks which the hook wants.
  @Test func aLifetimeThatIsCancelledAwayEndsInTheBackground() {
    let queue = OwnerScopedQueue()
    let others = (0..<2000).map { _ in OwnerLifetime() }
    let ended = DispatchSemaphore(value: 0)
    let isHere = Mutexed(false)
    let here = pthread_self()
    queue.isSuspended = true
    for number in 0..<20 {
      do {
        let lifetime = OwnerLifetime()
        lifetime.onEnd { _ in
          if pthread_equal(here, pthread_self()) != 0 { isHere.value = true }
          ended.signal()
        }
        queue.addBarrier(lifetime: lifetime) { Issue.record("has run") }
      }
      for other in others[number * 100..<(number + 1) * 100] { queue.async(lifetime: other) { Issue.record("has run") } }
    }
    queue.cancelAllOperations()
    for _ in 0..<20 { #expect(ended.waitUntilSignalled()) }
    #expect(!isHere.value)
    withExtendedLifetime(others) {}
  }

  @Test func waitingForAnOwnerIncludesItsBarrier() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    let gate = Gate()
    let hasRun = Counter()
    queue.async(lifetime: .process) { gate.pass() }
    queue.addBarrier(owner: owner) { _ in hasRun.add() }
    #expect(gate.hasBegun())
    gate.open()
    #expect(returns { queue.waitUntilFinished(ownedBy: owner.lifetime) })
    #expect(hasRun.value == 1)
    withExtendedLifetime(owner) {}
  }

  /// Guarantee 5: while another queue's body alone holds the owner, its barrier doesn't begin.
  @Test func aBarrierWhoseOwnerOnlyABodyHoldsNeverBegins() {
    let queue = OwnerScopedQueue()
    let elsewhere = OwnerScopedQueue()
    let gate = Gate()
    let gone = DispatchSemaphore(value: 0)
    do {
      let owner = TokenOwner()
      owner.lifetime.onEnd { _ in gone.signal() }
      elsewhere.async(owner: owner) { _ in gate.pass() }
      #expect(gate.hasBegun())
      queue.isSuspended = true
      queue.addBarrier(owner: owner) { _ in Issue.record("has begun") }
    }
    queue.isSuspended = false
    #expect(!becomesIdle(queue, within: .milliseconds(30)))
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(queue.becomesIdle())
  }

  private func becomesIdle(_ queue: OwnerScopedQueue, within time: DispatchTimeInterval) -> Bool {
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      queue.waitUntilAllOperationsAreFinished()
      done.signal()
    }
    return done.wait(timeout: .now() + time) == .success
  }

  // MARK: Sync

  @Test func syncReturnsWhatTheBodyReturnsAndThrowsWhatItThrows() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    let plain = Plain()
    #expect(queue.sync(owner: owner) { $0 === owner } == true)
    #expect(queue.sync(owner: plain) { $0 === plain } == true)
    #expect(queue.sync(lifetime: owner.lifetime) { OwnerScopedQueue.current === queue } == true)
    do throws(Failure) {
      try queue.sync(owner: owner) { (_) throws(Failure) in throw Failure(number: 3) }
    } catch {
      #expect(error.number == 3)
    }
    #expect(throws: Failure.self) { try queue.sync(lifetime: owner.lifetime) { throw Failure(number: 1) } }
  }

  @Test func syncForAnEndedOwnerIsNil() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    owner.lifetime.end()
    #expect(queue.sync(owner: owner) { _ in 1 } == nil)
    #expect(queue.sync(lifetime: owner.lifetime) { 1 } == nil)
  }

  @Test func syncIsNilWhenTheOwnerEndsBeforeItsTurn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = TokenOwner()
    let gate = Gate()
    queue.async(lifetime: .process) { gate.pass() }
    #expect(gate.hasBegun())
    let answer = Mutexed<Int??>(.none)
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      answer.value = .some(queue.sync(owner: owner) { _ in 1 })
      done.signal()
    }
    while queue.operationCount(ownedBy: owner.lifetime) == 0 { sched_yield() }
    owner.lifetime.end()
    #expect(done.waitUntilSignalled())  // though the queue is busy
    #expect(answer.value == .some(.none))
    gate.open()
  }

  @Test(arguments: [1, 2, -1]) func syncInsideABodyOfTheSameQueueRunsAtOnce(limit: Int) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
    let owner = TokenOwner()
    let hasReturned = returns {
      let value = queue.sync(owner: owner) { owner in
        queue.addBarrierBlock {}  // behind which nothing of the queue could begin
        return queue.sync(owner: owner) { _ in 7 }
      }
      #expect(value == 7)
    }
    #expect(hasReturned)
    #expect(queue.becomesIdle())
  }

  @Test func syncBetweenTwoQueuesThatEachAllowOne() {
    let first = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let second = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = TokenOwner()
    let hasReturned = returns {
      let value = first.sync(owner: owner) { owner in second.sync(owner: owner) { _ in 1 } }
      #expect(value == 1)
    }
    #expect(hasReturned)
    withExtendedLifetime(owner) {}
  }

  @Test func syncInADeinitOnAWorkerWaitsForItsTurn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let seen = DispatchSemaphore(value: 0)
    queue.async(lifetime: lifetime) {
      [deinitProbe = DeinitProbe { if queue.sync(lifetime: .process, execute: { true }) == true { seen.signal() } }] in
      _ = deinitProbe
    }
    #expect(seen.waitUntilSignalled())
  }

  @Test func syncFromABodyThatAloneHoldsItsOwner() {
    let queue = OwnerScopedQueue()
    let elsewhere = OwnerScopedQueue()
    let gate = Gate()
    let answer = Mutexed<Int?>(nil)
    let gone = DispatchSemaphore(value: 0)
    do {
      let owner = TokenOwner()
      owner.lifetime.onEnd { _ in gone.signal() }
      elsewhere.async(owner: owner) { owner in
        gate.pass()
        answer.value = queue.sync(owner: owner) { _ in 5 }
      }
      #expect(gate.hasBegun())
    }
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(answer.value == 5)
  }

  @Test @MainActor func syncToTheMainQueueFromTheMainThreadRunsAtOnce() {
    let owner = TokenOwner()
    #expect(mainSync(OwnerScopedQueue.main, owner) == 1)
    #expect(mainSync(OwnerScopedQueue(underlyingQueue: .main), owner) == 1)
  }

  private nonisolated func mainSync(_ queue: OwnerScopedQueue, _ owner: TokenOwner) -> Int? { queue.sync(owner: owner) { _ in 1 } }

  // MARK: Errors of jobs

  @Test func errorsOfJobsGoToTheQueuesHandlerWithTheirOwner() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    let plain = Plain()
    let journal = Journal<String>()
    queue.onError = { id, error in journal.write("\(id) \((error as? Failure)?.number ?? 0) \(OwnerScopedQueue.current == nil)") }
    #expect(queue.onError != nil)
    // The handler is called in the background, where nothing orders one call after the other.
    queue.async(owner: owner) { _ in throw Failure(number: 1) }
    #expect(queue.becomesIdle())
    DeferredCalls.waitUntilIdle()
    queue.async(owner: plain) { _ in throw Failure(number: 2) }
    #expect(queue.becomesIdle())
    DeferredCalls.waitUntilIdle()
    queue.async(lifetime: owner.lifetime) { throw Failure(number: 3) }
    queue.async(owner: owner) { _ in throw CancellationError() }
    queue.addOperation(owner: owner) { _ in throw Failure(number: 4) }
    #expect(queue.becomesIdle())
    DeferredCalls.waitUntilIdle()
    #expect(journal.entries == ["\(owner.ownerID) 1 true", "\(OwnerLifetime.of(plain).id) 2 true", "\(owner.ownerID) 3 true"])
    withExtendedLifetime((owner, plain)) {}
  }

  @Test func theHandlerHoldsNoPlaceInTheQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    queue.onError = { _, _ in gate.pass() }
    queue.async(lifetime: .process) { throw Failure(number: 1) }
    #expect(gate.hasBegun())
    let hasReturned = returns {
      let value = queue.sync(lifetime: .process) { 1 }
      #expect(value == 1)
    }
    #expect(hasReturned)
    gate.open()
  }

  @Test func jobsThatMayThrowDoNotKeepASuspendedQueue() {
    weak let observed: OwnerScopedQueue?
    let live = LiveCount()
    do {
      let queue = OwnerScopedQueue()
      observed = queue
      queue.isSuspended = true
      let captured = live.makeMember()
      queue.async(lifetime: .process) {
        captured.mustNotRun()
        throw Failure(number: 1)
      }
    }
    #expect(observed == nil)
    #expect(live.becomesZero())
  }

  @Test func bodiesThatMayThrowDoNotCountAsSomebodyElsesReference() {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let gone = DispatchSemaphore(value: 0)
    queue.maxConcurrentOperationCount = 1
    do {
      let owner = TokenOwner()
      owner.lifetime.onEnd { _ in gone.signal() }
      queue.async(owner: owner) { _ in
        gate.pass()
        throw CancellationError()
      }
      queue.async(owner: owner) { _ in
        Issue.record("has begun")
        throw CancellationError()
      }
      #expect(gate.hasBegun())
    }
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(queue.becomesIdle())
  }

  @Test func withoutAHandlerErrorsAreReported() async {
    let child = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let queue = OwnerScopedQueue()
      queue.async(lifetime: .process) { throw Failure(number: 1) }
      await queue.finished()
      DeferredCalls.waitUntilIdle()
    }
    let text = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("Failure(number: 1)") && text.contains("onError"))
  }

  // MARK: get

  @Test func getWaitsAndReturnsOrThrows() throws {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let value = OwnedResultOperation(lifetime: lifetime) { 3 }
    let failing = OwnedResultOperation<Int>(lifetime: lifetime) { throw Failure(number: 1) }
    let cancelled = OwnedResultOperation(lifetime: lifetime) { 3 }
    let task = OwnedResultOperation(lifetime: lifetime) { () async throws -> Int in
      await Task.yield()
      return 4
    }
    for operation in [value, failing, cancelled, task] as [Operation] { queue.addOperation(operation) }
    cancelled.cancel()
    #expect(try value.get() == 3)
    #expect(try task.get() == 4)
    #expect(throws: Failure(number: 1)) { try failing.get() }
    let isCancelledOrDone = Result { try cancelled.get() }
    if case .failure(let error) = isCancelledOrDone { #expect(error is CancellationError) }
    withExtendedLifetime(lifetime) {}
  }

  @Test func getOnAWorkerYieldsItsPermit() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let hasReturned = returns {
      let outer = OwnedResultOperation(lifetime: lifetime) { () throws -> Int in
        let inner = OwnedResultOperation(lifetime: lifetime) { 3 }
        queue.addOperation(inner)
        return try inner.get() + 1
      }
      queue.addOperation(outer)
      #expect((try? outer.get()) == 4)
    }
    #expect(hasReturned)
  }

  @Test func getInsideTheOperationsOwnBodyIsAnError() {
    let lifetime = OwnerLifetime()
    let own = Mutexed<OwnedResultOperation<Int>?>(nil)
    let operation = OwnedResultOperation(lifetime: lifetime) { () throws -> Int in try own.value?.get() ?? 0 }
    own.value = operation
    operation.name = "own"
    operation.start()
    own.value = nil
    guard case .failed(let error)? = operation.outcome else {
      Issue.record("no error")
      return
    }
    #expect("\(error)".contains("\"own\""))
  }
}
