import Foundation
import Testing

@testable import OwnedOperations

/// A queue that goes, and owners that end, with work that nobody comes to.
@Suite(.serialized) struct QueueEndModelTests {
  /// Of a job, an operation and its completion block, though nobody comes to them.
  @Test func whatIsSuspendedIsReleasedAtTheEnd() {
    ModelExplorer("queue: async, addOperation, suspended | end").exploreQueue(preemptions: 2, reduces: true) { run, scene in
      let probes = (0..<3).map { _ in Holder(ModelFlag()) }
      let released = probes.map { WeakReference($0.object!) }
      let operation = OwnedBlockOperation(lifetime: scene.lifetime) { [flag = probes[0].object] in flag?.count += 1 }
      operation.completionBlock = { [flag = probes[1].object] in flag?.count += 1 }
      scene.queue.isSuspended = true
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) { [flag = probes[2].object] in flag?.count += 1 }
            try? scene.queue.enqueue([operation])
            for probe in probes { probe.object = nil }
          }
        ), ("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("release of all three") { released.allSatisfy { $0.object == nil } }
      withExtendedLifetime(operation) {}
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
    }
  }

  /// What a queue knew of an owner that has gone becomes another's, with nothing of what it was.
  @Test func whatWasAnOwnersIsAnothersThen() {
    ModelExplorer("queue: async, end, async of another").exploreQueue(preemptions: 2, reduces: true) { run, scene in
      let (first, second) = (OwnerLifetime.Token(), OwnerLifetime.Token())
      let ran = ModelFlag()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: first.lifetime) {}
            first.lifetime.end()
            scene.queue.async(lifetime: second.lifetime) { ran.isSet = true }
            scene.wait()
          }
        ))
      run.expect(ran.isSet, "the other's did not run")
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
    }
  }

  /// The reaper finds both, or one, and the queue hears of them together.
  @Test func ownersThatEndTogetherAreToldTogether() {
    ModelExplorer("queue: async of two, suspended | end | end").exploreQueue(preemptions: 2, reduces: true) { run, scene in
      scene.queue.isSuspended = true
      let owners = (0..<2).map { _ in OwnerLifetime.Token() }
      let probes = owners.map { _ in Probe() }
      for (owner, probe) in zip(owners, probes) {
        probe.give { flag in scene.queue.async(lifetime: owner.lifetime) { flag.count += 1 } }
      }
      run.concurrently(("one", { owners[0].lifetime.end() }), ("other", { owners[1].lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("release of what was captured") { probes.allSatisfy { $0.isGone } }
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
    }
  }

  /// The owner's only job is over, and the queue knows it still.
  @Test func whatIsAddedWhileAnIdleOwnerEndsIsReleased() {
    ModelExplorer("queue: async, wait, async, suspended | end").exploreQueue(preemptions: 3, reduces: true) { run, scene in
      scene.addAndWait(1)
      let probe = Holder(ModelFlag())
      let released = probe.object.map { WeakReference($0) }
      scene.queue.isSuspended = true
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) { [flag = probe.object] in flag?.count += 1 }
            probe.object = nil
          }
        ), ("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("release of what was captured") { released?.object == nil }
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
      scene.expectStatistics(run)
    }
  }

  /// The same with what tells the queue in any other build: nobody has haste, because the owner was at rest when it was asked.
  @Test func whatIsAddedWhileAnOwnerEndsAtRestIsReleased() {
    Self.exploreRest("async, wait, async, suspended | end at rest") { run, scene, probe in
      run.concurrently(("adder", { probe.give { scene.addHolding($0) } }), ("end", { scene.end() }))
      run.wait("release of what was captured") { probe.isGone }
    }
  }

  /// Who has added work is sure that the owner is not at rest.
  @Test func whatWasAddedBeforeTheEndIsReleasedAtOnce() {
    Self.exploreRest("async, wait, async, end, suspended | async") { run, scene, probe in
      run.concurrently(
        (
          "adder",
          {
            probe.give { scene.addHolding($0) }
            scene.end()
          }
        ), ("other", { scene.add() }))
      let start = ModelRun.now
      run.wait("release of what was captured") { probe.isGone }
      run.expect(ModelRun.now - start < 100_000_000, "it went when a timer had gone off")
    }
  }

  private static func exploreRest(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ threads: @escaping @Sendable (ModelRun, QueueScene, Probe) -> Void
  ) {
    var explorer = ModelExplorer("queue: \(name)", timePasses: true)
    explorer.gathers = true
    explorer.exploreQueue(preemptions: 2, reduces: true, location) { run, scene in
      scene.addAndWait(1)
      scene.queue.isSuspended = true
      threads(run, scene, Probe())
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
      scene.expectStatistics(run)
    }
  }

  @Test func anOwnerIsDrainedOrItsTimeIsUp() {
    ModelExplorer("queue: async, drain | time-out", earlyTimeouts: 1, timePasses: true).exploreQueue(preemptions: 1, reduces: true) {
      run, scene in
      let isDone = ModelFlag()
      scene.addOneThatStays()
      run.concurrently(
        (
          "drain",
          {
            let isOver = Semaphore()
            Task(executorPreference: ModelTaskExecutor()) {
              isDone.isSet = await scene.lifetime.drain(on: scene.queue, timeout: .seconds(1))
              isOver.signal()
            }
            isOver.wait()
            run.expect(!scene.lifetime.isAlive, "the owner that was drained is alive")
            run.expect(!isDone.isSet || scene.bodies.runs == 1 && scene.bodies.inside == 0, "it was drained, and its work is not over")
          }
        ))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
    }
  }

  /// Two who hold a queue that nobody else holds.
  private static func held() -> (Holder<OwnerScopedQueue>, Holder<OwnerScopedQueue>, WeakReference<OwnerScopedQueue>) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    return (Holder(queue), Holder(queue), WeakReference(queue))
  }

  /// The thread that has run the queue's job parks, and gives up, while the queue goes and another sends for a thread. That one goes, too,
  /// and neither when a thread gives up parking.
  @Test func theQueueGoesWhileTheParkedThreadGivesUp() {
    ModelExplorer("queue: give up parking | let go | async to another queue, let go", earlyTimeouts: 2).expectNothing(preemptions: 1) {
      run in
      let (one, spare, queue) = Self.held()
      let (another, otherSpare, otherQueue) = Self.held()
      (spare.object, otherSpare.object) = (nil, nil)
      let (bodies, lifetime) = (Bodies(), OwnerLifetime())
      let use: @Sendable (Holder<OwnerScopedQueue>) -> Void = { holder in
        holder.object?.async(lifetime: lifetime) { bodies.run() }
        holder.object?.waitUntilAllOperationsAreFinished()
      }
      use(one)
      run.concurrently(
        ("let go", { one.object = nil }),
        (
          "adder",
          {
            use(another)
            another.object = nil
          }
        ))
      let time = ModelRun.now
      run.wait("the queues go") { queue.object == nil && otherQueue.object == nil }
      run.expect(ModelRun.now == time, "one went when a thread gave up parking")
      run.expect(bodies.runs == 2, "\(bodies.runs) of 2 bodies ran")
    }
  }

  /// A queue that its job lets go of, and that goes on its worker's thread, perhaps. What goes with it waits for a job of another queue.
  private static func exploreWhatIsLeft(
    _ name: String, _ location: SourceLocation = #_sourceLocation,
    _ add: @escaping @Sendable (OwnerScopedQueue, OwnerLifetime, Holder<OwnerScopedQueue>, Waiting) -> Void
  ) {
    ModelExplorer("queue: \(name)").expectNothing(preemptions: 1, location) { run in
      let (one, other, queue) = Self.held()
      let (scene, lifetime) = (QueueScene(), OwnerLifetime())
      let left = Holder(Waiting())
      guard let hasRun = left.object?.hasRun else { return }
      run.concurrently(
        (
          "adder",
          {
            if let queue = one.object, let waiting = left.object { add(queue, lifetime, other, waiting) }
            (one.object, left.object) = (nil, nil)
          }
        ),
        (
          "other",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              hasRun.signal()
            }
            scene.wait()
          }
        ))
      run.wait("the queue goes") { queue.object == nil }
      scene.expect(run, runs: 1)
    }
  }

  /// A job that never runs: the first one suspends the queue.
  @Test func whatGoesWithAQueueBlocksTheWorkersThread() {
    Self.exploreWhatIsLeft("async, which suspends it, async, let go | async to another queue, for which what is left waits") {
      queue, lifetime, other, waiting in
      queue.async(lifetime: lifetime) {
        other.object?.isSuspended = true
        other.object = nil
      }
      queue.async(lifetime: lifetime) { withExtendedLifetime(waiting) {} }
    }
  }

  @Test func theErrorHandlerOfAQueueBlocksTheWorkersThread() {
    Self.exploreWhatIsLeft("onError, async, let go | async to another queue, for which the handler waits") {
      queue, lifetime, other, waiting in
      queue.onError = { _, _ in withExtendedLifetime(waiting) {} }
      queue.async(lifetime: lifetime) { other.object = nil }
    }
  }

  private final class Waiting: Sendable {
    let hasRun = Semaphore()
    deinit { hasRun.wait() }
  }

  /// What was added runs, and then the queue goes, whoever lets go of it last.
  @Test func theQueueIsLetGoOfWhileItHasWork() {
    ModelExplorer("queue: async, let go | let go").expectNothing(preemptions: 2) { run in
      let (one, other, queue) = Self.held()
      let (bodies, lifetime) = (Bodies(), OwnerLifetime())
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<2 { one.object?.async(lifetime: lifetime) { bodies.run() } }
            one.object = nil
          }
        ), ("other", { other.object = nil }))
      run.wait("bodies") { bodies.runs == 2 }
      run.wait("the queue goes") { queue.object == nil }
    }
  }

  // MARK: Heirs

  /// The facade outlives the queue. What is added through it runs, in the queue or in its heir.
  @Test func theQueueGoesWhileItsFacadeIsUsed() {
    ModelExplorer("queue: async, let go | add to its facade").expectNothing(preemptions: 2) { run in
      let (one, other, queue) = Self.held()
      let facade = one.object?.operationQueue
      other.object = nil
      let (bodies, lifetime) = (Bodies(), OwnerLifetime())
      run.concurrently(
        (
          "let go",
          {
            one.object?.async(lifetime: lifetime) { bodies.run() }
            one.object = nil
          }
        ), ("facade", { facade?.addOperation { bodies.run() } }))
      facade?.waitUntilAllOperationsAreFinished()
      run.wait("the queue goes") { queue.object == nil }
      run.expect(bodies.runs == 2, "\(bodies.runs) of 2 bodies ran")
    }
  }

  /// Of a suspended queue, whose heir hears of the end, whoever comes first.
  @Test func anOwnerEndsWhileItsWorkGoesToTheHeir() {
    ModelExplorer("queue: async, suspended, let go | end, reap").expectNothing(preemptions: 2) { run in
      let (one, other, queue) = Self.held()
      let facade = one.object?.operationQueue
      other.object = nil
      let (bodies, lifetime) = (Bodies(), OwnerLifetime())
      let captured = Holder(ModelFlag())
      let isCaptured = WeakReference(captured.object!)
      one.object?.isSuspended = true
      one.object?.async(lifetime: lifetime) { [flag = captured.object] in
        flag?.count += 1
        bodies.run()
      }
      captured.object = nil
      LifetimeReaper.hold(lifetime)
      run.concurrently(
        ("let go", { one.object = nil }),
        (
          "end",
          {
            lifetime.end()
            lifetime.tellMembers()
          }
        ))
      LifetimeReaper.resume(lifetime)
      LifetimeReaper.waitUntilIdle()
      run.expect(queue.object == nil, "the queue is still there")
      run.expect(isCaptured.object == nil, "what the job has captured is still there")
      facade?.isSuspended = false
      facade?.waitUntilAllOperationsAreFinished()
      run.expect(bodies.runs == 0, "it ran after the end")
    }
  }
}
