import Foundation
import Testing

@testable import OwnedOperations

/// Threads, and Swift concurrency.
@Suite(.serialized) struct QueueConcurrencyTests {
  @Test func tenThousandShortJobsDoNotStartSixtyThreads() {
    let queue = OwnerScopedQueue()
    let threads = Journal<UInt>()
    for _ in 0..<Sanitizer.many(10_000) {
      queue.async(lifetime: .forTests) {
        // Without a lock for each: whoever loses its processor in one makes all others block, for whom more threads are let in.
        guard Thread.current.threadDictionary["is known"] == nil else { return }
        Thread.current.threadDictionary["is known"] = true
        threads.write(UInt(pthread_self()))
      }
    }
    #expect(queue.becomesIdle())
    #expect(Set(threads.entries).count < 60)
  }

  @Test func noWorkerIsKeptWhenTheQueueIsIdle() {
    let threads = DispatchQueue(label: "threads", attributes: .concurrent)
    let queue = OwnerScopedQueue(underlyingQueue: threads)
    for _ in 0..<1_000 { queue.async(lifetime: .forTests) {} }
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.activeWorkers == 0 && $0.arrivingWorkers == 0 } })
    // The monitor looks for the last time.
    #expect(eventually { !queue.snapshot.isMonitored })
    #expect(queue.shows { $0.waitingWorkers == 0 && $0.blockedWorkers == 0 && $0.detached == 0 })
  }

  @Test func waitingWorkersAreNotCountedTwice() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    let key = OwnedBlockOperation(lifetime: .forTests) {}
    let inner = OwnedBlockOperation(lifetime: .forTests) { gate.pass() }
    inner.addDependency(key)
    queue.addOperation(inner)
    for _ in 0..<4 { queue.addOperation { inner.waitUntilFinished() } }
    let allWait = DispatchSemaphore(value: 0)
    queue.addOperation { allWait.signal() }  // has its turn when each of the others has left its place
    #expect(allWait.waitUntilSignalled())
    #expect(queue.snapshot.waitingWorkers == 4)
    // Who has signalled would count, if it were a while about to leave.
    #expect(eventually { queue.snapshot.activeWorkers == 4 })
    queue.maxConcurrentOperationCount = OwnerScopedQueue.defaultMaxConcurrentOperationCount
    key.start()
    #expect(gate.hasBegun())
    #expect(queue.snapshot.blockedWorkers <= 1)
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func runPassesErrorsPriorityAndTaskLocalValuesOn() async throws {
    enum Local { @TaskLocal static var value = 0 }
    struct Failure: Error {}
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = TokenOwner()
    let seen = try await Local.$value.withValue(42) {
      try await queue.run(owner: owner) { _ in Local.value }
    }
    #expect(seen == 42)
    let priority = try await Task(priority: .low) { try await queue.run(owner: owner) { _ in Task.currentPriority } }.value
    #expect(priority >= .low && priority <= .high)
    await #expect(throws: Failure.self) { try await queue.run(owner: owner) { _ in throw Failure() } }
    #expect(try await queue.run(owner: owner) { _ in OwnerScopedQueue.current } == queue)
    #expect(queue.statistics.failed == 1)
  }

  @Test(arguments: [false, true]) func whatABodyGaveIsReturnedThoughItsOwnerGoesWithIt(fails: Bool) async {
    struct Failure: Error {}
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = Mutexed<TokenOwner?>(TokenOwner())
    let gone = WeakReference(owner.value.unsafelyUnwrapped)
    let gate = AsyncStream<Void>.makeStream()
    let result = await withTaskGroup(of: Result<Int, any Error>.self) { group in
      group.addTask {
        do {
          return .success(
            try await queue.run(owner: owner.value.unsafelyUnwrapped) { _ in
              owner.value = nil  // from now on the body alone holds its owner
              for await _ in gate.stream { break }
              if fails { throw Failure() }
              return 42
            })
        } catch {
          return .failure(error)
        }
      }
      gate.continuation.yield()
      return await group.next()
    }
    switch result {
    case .success(let value): #expect(value == 42 && !fails)
    case .failure(let error): #expect(error is Failure && fails)
    case nil: Issue.record("no result")
    }
    #expect(gone.object == nil)
    #expect(queue.becomesIdle())
    #expect(queue.statistics.succeeded == (fails ? 0 : 1) && queue.statistics.failed == (fails ? 1 : 0))
  }

  @Test func runWaitsForItsTurnByPriority() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let journal = Journal<String>()
    let gate = Gate()
    queue.addOperation { gate.pass() }
    await Task.detached { _ = gate.hasBegun() }.value
    async let low: Void = queue.run(lifetime: .forTests, priority: .low) { journal.write("low") }
    while queue.operationCount < 2 { await Task.yield() }
    async let high: Void = queue.run(lifetime: .forTests, priority: .high) { journal.write("high") }
    while queue.operationCount < 3 { await Task.yield() }
    gate.open()
    _ = try await (low, high)
    #expect(journal.entries == ["high", "low"])
  }

  @Test func runIsCancelledWithItsOwnerBeforeItsTurn() async {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    let task = Task { try await queue.run(lifetime: lifetime) { Issue.record("has run") } }
    while queue.operationCount == 0 { await Task.yield() }
    lifetime.end()
    await #expect(throws: CancellationError.self) { try await task.value }
    let other = Task { try await queue.run(lifetime: .forTests) { Issue.record("has run") } }
    while queue.operationCount == 0 { await Task.yield() }
    other.cancel()
    await #expect(throws: CancellationError.self) { try await other.value }
    #expect(queue.operationCount == 0)
  }

  /// The turn has come, but the first step of the body has not been made when the owner ends.
  @Test func bodyOfARunDoesNotStartAfterTheEnd() async {
    let underlying = DispatchQueue(label: "underlying")
    let queue = OwnerScopedQueue(underlyingQueue: underlying)
    let lifetime = OwnerLifetime()
    let gate = Gate()
    underlying.async { gate.pass() }
    let task = Task { try await queue.run(lifetime: lifetime) { Issue.record("has run") } }
    while queue.operations.first?.isExecuting != true { await Task.yield() }
    lifetime.end()
    gate.open()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  /// The turn takes the only permit; what the task itself has to do must not need it.
  @Test func taskThatPrefersASerialQueueMayTakeATurnThere() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let done = DispatchSemaphore(value: 0)
    Task(executorPreference: queue) {
      _ = try? await queue.run(lifetime: .forTests) { await Task.yield() }
      done.signal()
    }
    #expect(await Task.detached { done.waitUntilSignalled() }.value)
    await queue.finished()
  }

  @Test func tasksPreferTheQueueAndEndThere() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let task = Task(executorPreference: queue) {
      var seen: [OwnerScopedQueue?] = []
      for _ in 0..<10 {
        seen.append(OwnerScopedQueue.current)
        await Task.yield()
      }
      return seen
    }
    #expect(await task.value == Array(repeating: queue, count: 10))
    #expect(await withTaskExecutorPreference(queue) { OwnerScopedQueue.current } == queue)
    await queue.finished()
  }
}
