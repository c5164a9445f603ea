import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Testing

@Suite struct AsynchronousWorkTests {
  let time = VirtualTime()
  let log = Log()

  @Test func anAsynchronousBodyRunsStepByStep() async throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let screen = Screen(log)
    let task = Task(executorPreference: time) {
      try await queue.run(owner: screen) { [time] screen in
        screen.show("begin")
        try await time.sleep(for: .seconds(5))
        screen.show("end")
        return 42
      }
    }
    #expect(log.lines.isEmpty)
    time.runUntilIdle()
    #expect(log.lines == ["begin"])
    #expect(time.pending.map(\.reason) == [.delayed(until: .init(offset: .seconds(5)))])
    time.advance(by: .seconds(5))
    #expect(log.lines == ["begin", "end"])
    #expect(try await task.value == 42)
  }

  @Test func anOwnersEndCancelsItsTask() async {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    let task = owner.task(on: queue) { [time, log] in
      log.add("begin")
      do { try await time.sleep(for: .seconds(60)) } catch { log.add("cancelled at \(time.now)") }
      try Task.checkCancellation()
    }
    time.advance(by: .seconds(1))
    owner.end()
    time.runUntilIdle()
    #expect(log.lines == ["begin", "cancelled at +1.0 seconds"])
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(time.pending.isEmpty)
  }

  @Test func aTaskWhoseOwnerEndsBeforeItsTurnNeverBegins() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    owner.task(on: queue) { [log] in log.add("begin") }
    owner.end()
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    #expect(queue.operationCount == 0)
  }

  @Test func aTaskThatAwaitsWorkOfItsQueueMakesRoom() async throws {
    let queue = OwnerScopedQueue(virtualTime: time, maxConcurrentOperationCount: 1)
    let owner = OwnerLifetime()
    let task = owner.task(on: queue) { [log] in
      log.add("outer")
      try await queue.run(lifetime: owner) { log.add("inner") }
      log.add("outer again")
    }
    time.runUntilIdle()
    #expect(log.lines == ["outer", "inner", "outer again"])
    try await task.value
  }

  @Test func aTaskMakesRoomForAnOperationThatIsAddedLater() {
    let queue = OwnerScopedQueue(virtualTime: time, maxConcurrentOperationCount: 1)
    let owner = OwnerLifetime()
    let (far, near) = (OwnedBlockOperation(lifetime: owner) {}, OwnedBlockOperation(lifetime: owner) {})
    for awaited in [near, far] {
      owner.task(on: queue) { [log] in
        await awaited.finished()
        log.add("went on")
      }
    }
    near.addDependency(far)
    let elsewhere = OwnerScopedQueue(virtualTime: time)
    elsewhere.addOperation(near)
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    queue.addOperation(far)
    time.runUntilIdle()
    #expect(log.lines == ["went on", "went on"])
  }

  @Test func workIsHeldBackWhileOnlyItsOwnersBodyHoldsTheOwner() async throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    var screen: Screen? = Screen(log)
    weak let reference = screen
    let task = queue.task(for: try #require(screen), until: time)
    time.runUntilIdle()
    if let screen { queue.async(owner: screen) { screen in screen.show("job") } }
    screen = nil
    time.runUntilIdle()
    #expect(log.lines == ["begin"])
    #expect(time.pending.contains { $0.reason == .ownerHeldBack })
    let again = reference
    time.runUntilIdle()
    #expect(log.lines == ["begin", "job"])
    time.advance(by: .seconds(1))
    try await task.value
    withExtendedLifetime(again) {}
  }

  @Test func resultsComeThroughAsynchronousOperations() async throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let operation = OwnedResultOperation(lifetime: OwnerLifetime()) { [time] () async throws -> String in
      try await time.sleep(for: .seconds(1))
      return "result"
    }
    queue.addOperation(operation)
    time.advance(by: .seconds(1))
    #expect(operation.output == "result")
  }

  @Test func stepsOfAQueuesTasksAreItsWork() async {
    let queue = OwnerScopedQueue(virtualTime: time)
    let task = Task(executorPreference: queue) { [log] in
      log.add("\(OwnerScopedQueue.current === queue)")
      await Task.yield()
      log.add("again")
    }
    #expect(log.lines.isEmpty)
    time.runUntilIdle()
    #expect(log.lines == ["true", "again"])
    await task.value
  }

  @Test func whatWaitsElsewhereIsNamed() async throws {
    let queue = OwnerScopedQueue(virtualTime: time, name: "queue")
    let gate = Gate()
    let operation = Asynchronous(lifetime: OwnerLifetime(name: "owner")) { [log] in
      await gate.wait()
      log.add("went on")
    }
    operation.name = "download"
    queue.addOperation(operation)
    let outcome = time.runUntilIdle()
    #expect(outcome.isIdle)
    #expect(outcome.suspendedElsewhere.map(\.description) == ["Asynchronous \"download\" of \"owner\" in \"queue\": suspended elsewhere"])
    gate.open()
    #expect(time.runUntilIdle().suspendedElsewhere.isEmpty)
    #expect(log.lines == ["went on"])
  }

  /// On the real clock, and on another actor. It is real time that they would go on in, unless their owner ends.
  @Test func whatSleepsOnTheRealClockOrWaitsForAnActorIsSuspendedElsewhere() async {
    actor Elsewhere {
      func rest() async throws { try await Task.sleep(for: .seconds(3600)) }
    }
    let queue = OwnerScopedQueue(virtualTime: time, name: "queue")
    let (owner, elsewhere) = (OwnerLifetime(name: "owner"), Elsewhere())
    let operations = [
      Asynchronous(lifetime: owner) { try await Task.sleep(for: .seconds(3600)) },
      Asynchronous(lifetime: owner) { try await elsewhere.rest() },
    ]
    for (name, operation) in zip(["sleeper", "caller"], operations) {
      operation.name = name
      queue.addOperation(operation)
    }
    let suspended = time.runUntilIdle().suspendedElsewhere.map(\.description)
    #expect(Set(suspended) == Set(["sleeper", "caller"].map { "Asynchronous \"\($0)\" of \"owner\" in \"queue\": suspended elsewhere" }))
    owner.end()
    // They come back from the real clock's threads to this one, when the cancellation has reached them.
    while !operations.allSatisfy(\.isFinished) {
      time.runUntilIdle()
      await Task.yield()
    }
    #expect(time.runUntilIdle().suspendedElsewhere.isEmpty)
  }

  @Test func aSleepThatIsCancelledIsOver() async {
    let task = Task(executorPreference: time) { [time] in try await time.sleep(for: .seconds(1)) }
    time.runUntilIdle()
    #expect(time.pending.map(\.reason) == [.delayed(until: .init(offset: .seconds(1)))])
    task.cancel()
    time.runUntilIdle()
    #expect(time.pending.isEmpty)
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  /// Of a queue that has no virtual time.
  @Test func aSleeperElsewhereIsPending() async throws {
    let real = OwnerScopedQueue()
    let task = Task { try await real.run(lifetime: .process) { try await time.sleep(for: .seconds(60)) } }
    while time.pending.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
    #expect(time.pending.map(\.reason) == [.delayed(until: VirtualTime.Instant(offset: .seconds(60)))])
    time.advance(by: .seconds(60))
    try await task.value
    #expect(time.pending.isEmpty)
  }

  @Test func anOwnerIsDrainedOrItsTimeIsUp() async {
    let queue = OwnerScopedQueue(virtualTime: time)
    let (quick, slow) = (OwnerLifetime(), OwnerLifetime())
    queue.async(lifetime: quick) {}
    slow.task(on: queue) { [time] in try await time.sleep(for: .seconds(60)) }
    let tasks = [quick, slow].map { owner in
      Task(executorPreference: time) { await owner.drain(on: queue, timeout: .seconds(5)) }
    }
    time.advance(by: .seconds(5))
    #expect(await tasks[0].value)
    #expect(await !tasks[1].value)
    #expect(!slow.isAlive)
  }
}

extension OwnerScopedQueue {
  /// A body that holds the owner for a second, and whose caller doesn't.
  fileprivate func task(for screen: Screen, until time: VirtualTime) -> Task<Void, any Error> {
    let box = Box(screen)
    return Task(executorPreference: time) { [self] in
      try await run(owner: box.take()) { screen in
        screen.show("begin")
        try await time.sleep(for: .seconds(1))
      }
    }
  }
}
