import Foundation
import Testing

@testable import OwnedOperations

/// Tasks that belong to an owner.
@Suite struct OwnerTaskTests {
  @Test func aTaskReturnsAndThrowsWhatItsBodyDoes() async throws {
    struct Failure: Error {}
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue()
    for queue in [nil, queue] {
      #expect(try await lifetime.task(on: queue) { 7 }.value == 7)
      await #expect(throws: Failure.self) { try await lifetime.task(on: queue) { throw Failure() }.value }
    }
    #expect(queue.statistics.enqueued == 2 && lifetime.isAlive)
  }

  @Test func theOwnersEndCancelsItsTasks() async {
    let queue = OwnerScopedQueue()
    for queue in [nil, queue] {
      let lifetime = OwnerLifetime()
      let begun = Event()
      let task = lifetime.task(on: queue) {
        begun.happen()
        try await Task.sleep(for: .seconds(600))
      }
      await begun.awaited()
      lifetime.end()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
  }

  @Test func aBodyThatHasNotBegunNeverBegins() async {
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let pending = lifetime.task(on: queue) { Issue.record("has begun") }
    lifetime.end()
    await #expect(throws: CancellationError.self) { try await pending.value }
    for queue in [nil, queue] {
      let late = lifetime.task(on: queue) { Issue.record("has begun") }
      await #expect(throws: CancellationError.self) { try await late.value }
    }
    queue.isSuspended = false
  }

  @Test func aTaskIsWorkOfItsQueueFromTheBeginning() {
    let (lifetime, queue) = (OwnerLifetime(), OwnerScopedQueue())
    queue.isSuspended = true
    // What is to run tasks is busy.
    let gates = (0..<2 * ProcessInfo.processInfo.activeProcessorCount).map { _ in Gate() }  // this test has one of their threads
    for gate in gates { Task.detached { gate.pass() } }
    #expect(gates.prefix(ProcessInfo.processInfo.activeProcessorCount - 1).allSatisfy { $0.hasBegun() })
    lifetime.task(on: queue) {}
    #expect(queue.operationCount(ownedBy: lifetime) == 1)
    for gate in gates { gate.open() }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(queue.statistics.succeeded == 1)
  }

  @Test func aTasksPlaceDoesNotWaitForAThreadOfThePool() {
    let (lifetime, queue) = (OwnerLifetime(), OwnerScopedQueue(maxConcurrentOperationCount: 1))
    let processors = ProcessInfo.processInfo.activeProcessorCount
    let gates = (0..<2 * processors).map { _ in Gate() }
    for gate in gates { Task.detached { gate.pass() } }
    #expect(gates.prefix(processors - 1).allSatisfy { $0.hasBegun() })  // this test has one of the threads
    lifetime.task(on: queue) {}
    let next = Event()
    queue.async(lifetime: .forTests) { next.happen() }
    #expect(next.happens())
    for gate in gates { gate.open() }
    #expect(queue.becomesIdle())
  }

  @Test func aTaskHasThePriorityOfItsCallerInTheQueue() async {
    let (lifetime, queue) = (OwnerLifetime(), OwnerScopedQueue())
    queue.isSuspended = true
    let isAdded = Event()
    Task(priority: .low) {
      lifetime.task(on: queue) {}
      isAdded.happen()
    }
    await isAdded.awaited()  // and not the task, which would get the priority of this one
    lifetime.task(priority: .high, on: queue) {}
    #expect(queue.operations(ownedBy: lifetime).map(\.queuePriority.rawValue).sorted() == [-4, 4])
    queue.isSuspended = false
    #expect(queue.becomesIdle())
  }

  /// - Parameter byHand: the task is cancelled, not its owner ended.
  @Test(arguments: [false, true]) func aTaskThatIsCancelledInAWaitNeedsNoPermitToEnd(byHand: Bool) async {
    let (lifetime, queue) = (OwnerLifetime(), OwnerScopedQueue(maxConcurrentOperationCount: 1))
    let gate = Gate()
    let work = OwnedBlockOperation(lifetime: .forTests) { gate.pass() }
    let isOver = Event()
    let task = lifetime.task(on: queue) {
      queue.addOperation(work)
      defer { isOver.happen() }
      try await work.finishedUnlessCancelled()
    }
    #expect(gate.hasBegun())  // with the permit that the task has left to it
    if byHand { task.cancel() } else { lifetime.end() }
    #expect(isOver.happens())
    await #expect(throws: CancellationError.self) { try await task.value }
    gate.open()
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.yielded == 0 && $0.detached == 0 } })
  }

  @Test func aTaskThatIsCancelledWhileItAsksForItsPermitBackGoesOn() async {
    let (lifetime, queue) = (OwnerLifetime(), OwnerScopedQueue(maxConcurrentOperationCount: 1))
    let (first, second) = (OwnedBlockOperation(lifetime: .forTests) {}, Gate())
    let isOver = Event()
    queue.isSuspended = true
    let task = lifetime.task(on: queue) {
      queue.addOperation(first)
      queue.async(lifetime: .forTests) { second.pass() }
      await first.finished()
      isOver.happen()
    }
    queue.isSuspended = false
    #expect(second.hasBegun())
    first.finish()
    #expect(eventually { queue.snapshot.somebodyReturns || isOver.isPast })
    lifetime.end()
    #expect(isOver.happens())
    second.open()
    _ = try? await task.value
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.yielded == 0 && $0.detached == 0 } })
  }

  @Test func aTaskTakesOnePermitForItsLife() async throws {
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (begun, mayEnd) = (Event(), Event())
    let journal = Journal<String>()
    let task = lifetime.task(on: queue) {
      begun.happen()
      await mayEnd.awaited()
      journal.write("task")
    }
    await begun.awaited()
    queue.async(lifetime: lifetime) { journal.write("job") }
    mayEnd.happen()
    try await task.value
    await queue.finished()
    #expect(journal.entries == ["task", "job"])
  }

  @Test func aCancelledTaskComesToItsEndThoughTheQueueIsSuspended() async {
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let begun = Event()
    let steps = Counter()
    let task = lifetime.task(on: queue) {
      begun.happen()
      try? await Task.sleep(for: .seconds(600))
      for _ in 0..<10 {
        await Task.yield()
        steps.add()
      }
    }
    await begun.awaited()
    queue.isSuspended = true
    lifetime.end()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(steps.value == 10)
    queue.isSuspended = false
  }

  @Test func aTaskIsReleasedWithWhatItCaptured() async throws {
    let lifetime = OwnerLifetime()
    weak var captured: TokenOwner?
    do {
      let object = TokenOwner()
      captured = object
      _ = try await lifetime.task { withExtendedLifetime(object) { 1 } }.value
    }
    let gone = Weakly<TokenOwner>()
    gone.object = captured
    #expect(await Task.detached { goesLater(gone) }.value)
    #expect(lifetime.memberCapacity <= 64)
  }

  // MARK: Scopes

  @Test func aScopeEndsItsLifetimeWhicheverWayItIsLeft() async {
    struct Failure: Error, Equatable {}
    let lifetime = await withOwnerLifetime(name: "scope") { lifetime in
      #expect(lifetime.isAlive && lifetime.name == "scope")
      return lifetime
    }
    #expect(!lifetime.isAlive)
    let seen = Mutexed<OwnerLifetime?>(nil)
    do throws(Failure) {
      try await withOwnerLifetime { lifetime async throws(Failure) in
        seen.value = lifetime
        throw Failure()
      }
      Issue.record("no error")
    } catch {
      #expect(error == Failure())
    }
    #expect(seen.value?.isAlive == false)
  }

  @Test func aScopeEndsWhenItsTaskIsCancelledOrItsParentEnds() async {
    let begun = Event()
    let task = Task {
      await withOwnerLifetime { lifetime in
        let ended = Event()
        lifetime.onEnd { _ in ended.happen() }
        begun.happen()
        await ended.awaited()
      }
    }
    await begun.awaited()
    task.cancel()
    await task.value
    let parent = OwnerLifetime()
    await withOwnerLifetime(parent: parent) { lifetime in
      parent.end()
      #expect(!lifetime.isAlive)
    }
  }

  @Test @MainActor func aScopeRunsWhereItsCallerDoes() async {
    var count = 0
    await withOwnerLifetime { _ in
      MainActor.assertIsolated()
      count += 1
    }
    #expect(count == 1)
  }
}

private func goesLater(_ reference: Weakly<TokenOwner>) -> Bool { eventually { reference.object == nil } }
