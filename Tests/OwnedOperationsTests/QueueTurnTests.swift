import Foundation
import Testing

@testable import OwnedOperations

/// Turns that come at once, and bodies whose first step runs on their caller's thread.
@Suite struct QueueTurnTests {
  @Test func aTurnThatNobodyIsBeforeNeedsNoWorker() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let workers = try await queue.run(lifetime: .forTests) { queue.snapshot.activeWorkers }
    #expect(workers == 0)
    #expect(queue.operationCount == 0 && queue.statistics.succeeded == 1)
  }

  @Test func aTurnDoesNotOvertakeWhatIsReady() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let journal = Journal<String>()
    let (first, second) = (Gate(), Gate())
    queue.addOperation { first.pass() }
    queue.addOperation { second.pass() }
    await Task.detached { _ = (first.hasBegun(), second.hasBegun()) }.value
    queue.addOperation { journal.write("job") }
    async let turn: Void = queue.run(lifetime: .forTests) { journal.write("turn") }
    while queue.operationCount < 4 { await Task.yield() }
    first.open()
    try await turn
    second.open()
    await queue.finished()
    #expect(journal.entries == ["job", "turn"])
  }

  /// The permit is the turn's from the moment at which it was added.
  @Test func aTurnThatCameAtOnceKeepsOthersOut() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let journal = Journal<String>()
    try await queue.run(lifetime: .forTests) {
      queue.addOperation { journal.write("job") }
      for _ in 0..<100 { await Task.yield() }
      journal.write("turn")
    }
    await queue.finished()
    #expect(journal.entries == ["turn", "job"])
  }

  @Test func aTurnWaitsForItsOwnersLimitThoughTheQueueIsFree() async throws {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCountPerOwner = 1
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let journal = Journal<String>()
    let gate = Gate()
    queue.async(lifetime: lifetime) { gate.pass() }
    await Task.detached { _ = gate.hasBegun() }.value
    async let own: Void = queue.run(lifetime: lifetime) { journal.write("same owner") }
    while queue.operationCount < 2 { await Task.yield() }
    try await queue.run(lifetime: other) { journal.write("other owner") }
    gate.open()
    try await own
    #expect(journal.entries == ["other owner", "same owner"])
  }

  /// The first step is a loop that nothing suspends.
  @Test func theOwnersEndCancelsAFirstStep() async {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let begun = DispatchSemaphore(value: 0)
    let task = Task.detached {
      try await queue.run(lifetime: lifetime) {
        begun.signal()
        while !Task.isCancelled {}
      }
    }
    #expect(await Task.detached { begun.waitUntilSignalled() }.value)
    lifetime.end()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(!task.isCancelled)
  }

  @Test func theCallersCancellationReachesAFirstStep() async throws {
    let queue = OwnerScopedQueue()
    let begun = DispatchSemaphore(value: 0)
    let task = Task.detached {
      try await queue.run(lifetime: .forTests) {
        begun.signal()
        while !Task.isCancelled {}
        return "over"
      }
    }
    #expect(await Task.detached { begun.waitUntilSignalled() }.value)
    task.cancel()
    #expect(try await task.value == "over")
  }

  /// Though nobody is before it.
  @Test func noBodyBeginsForACallerThatHasBeenCancelled() async {
    final class Owner: OperationOwner, Sendable { let lifetimeToken = OwnerLifetime.Token() }
    let queue = OwnerScopedQueue()
    let (owner, ran) = (Owner(), Counter())
    let task = Task.detached {
      withUnsafeCurrentTask { $0?.cancel() }
      await #expect(throws: CancellationError.self) { try await queue.run(lifetime: .forTests) { ran.add() } }
      await #expect(throws: CancellationError.self) { try await queue.run(owner: owner) { _ in ran.add() } }
      await #expect(throws: CancellationError.self) { try await queue.run(weaklyFor: owner) { _ in ran.add() } }
    }
    await task.value
    #expect(ran.value == 0 && queue.operationCount == 0)
  }

  /// A body that goes on waiting in a handler of its own cancellation: the task is there as long as it is being cancelled.
  @Test func aTaskOutlivesWhatCancelsIt() async {
    let queue = OwnerScopedQueue()
    for _ in 0..<200 {
      let lifetime = OwnerLifetime()
      let begun = DispatchSemaphore(value: 0)
      let task = Task.detached {
        try await queue.run(lifetime: lifetime) {
          begun.signal()
          while lifetime.isAlive {}
        }
      }
      #expect(await Task.detached { begun.waitUntilSignalled() }.value)
      lifetime.end()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(await Task.detached { queue.becomesIdle() }.value)
  }

  @MainActor @Test func aBodyOfTheMainActorsIsNotOnTheMainThread() async throws {
    #expect(try await OwnerScopedQueue().run(lifetime: .forTests) { !Thread.isMainThread })
  }

  /// Each in the body of the one before. What ran on the stack of its caller would need a deep one.
  @Test func manyTurnsNest() async throws {
    let queue = OwnerScopedQueue()
    @Sendable func nest(_ depth: Int) async throws -> Int {
      depth == 0 ? 0 : try await queue.run(lifetime: .forTests) { try await nest(depth - 1) + 1 }
    }
    #expect(try await nest(500) == 500)
  }

  @Test func aBodyKnowsItsQueueInAllItsSteps() async throws {
    let queue = OwnerScopedQueue()
    let seen = try await queue.run(lifetime: .forTests) {
      let first = OwnerScopedQueue.current
      await Task.yield()
      return [first, OwnerScopedQueue.current]
    }
    #expect(seen == [queue, queue])
    #expect(OwnerScopedQueue.current == nil)
  }

  /// Somebody blocks it again, whom `operations` has shown it to, between its permit and its start.
  @Test func aTurnThatDoesNotBeginGivesItsPermitBack() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let turn = QueueTurn(lifetime: .forTests, nil)
    #expect(queue.claimsPermit(for: turn))
    let blocker = OwnedBlockOperation(lifetime: .forTests) {}
    turn.addDependency(blocker)
    queue.begin(turn)
    #expect(!turn.isExecuting && queue.snapshot.detached == 0)
    let done = DispatchSemaphore(value: 0)
    queue.addOperation { done.signal() }
    #expect(done.waitUntilSignalled())
    queue.addOperation(blocker)
    #expect(eventually { turn.isExecuting })
    turn.giveUp()
    #expect(queue.becomesIdle())
  }

  /// It executes, but its start has not taken the owner yet.
  @Test func aBodyDoesNotBeginWhileTheStartIsUnderWay() async throws {
    let queue = OwnerScopedQueue()
    let turn = QueueTurn(lifetime: .forTests, nil)
    let begun = DispatchSemaphore(value: 0)
    let caller = Mutexed<Task<Void, any Error>?>(nil)
    let observation = turn.observe(\.isExecuting) { [unowned turn] _, change in
      guard change.newValue == true else { return }
      caller.value = Task.detached { try await queue.run(turn) { _ = begun.signal() } }
      // Nothing tells that it waits.
      #expect(begun.wait(timeout: .now() + .milliseconds(100)) == .timedOut)
    }
    queue.addTurn(turn)
    try await caller.value?.value
    #expect(await Task.detached { begun.waitUntilSignalled() }.value)
    withExtendedLifetime(observation) {}
  }
}
