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

  /// The owner's only job is over, so that its end passes the queue by. What is added at that moment is released all the same.
  @Test func whatIsAddedWhileAnOwnerAtRestEndsIsReleased() {
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

  /// Two who hold a queue that nobody else holds.
  private static func held() -> (Holder<OwnerScopedQueue>, Holder<OwnerScopedQueue>, WeakReference<OwnerScopedQueue>) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    return (Holder(queue), Holder(queue), WeakReference(queue))
  }

  /// The thread that has run the queue's job parks, and gives up, while the queue goes and another sends for a thread.
  @Test func theQueueGoesWhileTheParkedThreadGivesUp() {
    ModelExplorer("queue: give up parking | let go | async to another queue", earlyTimeouts: 2).expectNothing(preemptions: 1) { run in
      let (one, other, queue) = Self.held()
      other.object = nil
      let (scene, bodies, lifetime) = (QueueScene(), Bodies(), OwnerLifetime())
      one.object?.async(lifetime: lifetime) { bodies.run() }
      one.object?.waitUntilAllOperationsAreFinished()
      run.concurrently(
        ("let go", { one.object = nil }),
        (
          "adder",
          {
            scene.add()
            scene.wait()
          }
        ))
      run.wait("the queue goes") { queue.object == nil }
      run.expect(bodies.runs == 1 && scene.bodies.runs == 1, "\(bodies.runs) and \(scene.bodies.runs) bodies ran")
    }
  }

  /// A queue that is suspended by its first job, and goes on its worker's thread, with a second one that never runs. What that has captured
  /// waits for a job of another queue.
  @Test func whatGoesWithAQueueBlocksTheWorkersThread() {
    let name = "queue: async, which suspends it, async, let go | async to another queue, for which what is left waits"
    ModelExplorer(name).expectNothing(preemptions: 1) { run in
      let (one, other, queue) = Self.held()
      let (scene, lifetime) = (QueueScene(), OwnerLifetime())
      let left = Holder(Waiting())
      guard let hasRun = left.object?.hasRun else { return }
      run.concurrently(
        (
          "adder",
          {
            one.object?.async(lifetime: lifetime) {
              other.object?.isSuspended = true
              other.object = nil
            }
            one.object?.async(lifetime: lifetime) { [waiting = left.object] in withExtendedLifetime(waiting) {} }
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
}
