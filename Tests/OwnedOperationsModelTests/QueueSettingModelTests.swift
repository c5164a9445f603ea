import Foundation
import Testing

@testable import OwnedOperations

/// A queue whose settings change, that is idle, or goes, while others add to it.
@Suite(.serialized) struct QueueSettingModelTests {
  private static func explorer(_ name: String) -> ModelExplorer { ModelExplorer("queue: \(name)") }

  private static func addTwoAndWait(_ scene: QueueScene) -> (name: String, body: @Sendable () -> Void) {
    (
      "adder",
      {
        scene.addOneThatStays()
        scene.addOneThatStays()
        scene.wait()
      }
    )
  }

  @Test func theLimitSinks() {
    Self.explorer("async, async, wait | limit 1, limit 2").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      run.concurrently(
        Self.addTwoAndWait(scene),
        (
          "limit",
          {
            scene.queue.maxConcurrentOperationCount = 1
            scene.queue.maxConcurrentOperationCount = 2
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 2)
    }
  }

  @Test func theLimitRises() {
    Self.explorer("async, async, wait | limit 2").exploreQueue(preemptions: 1) { run, scene in
      run.concurrently(Self.addTwoAndWait(scene), ("limit", { scene.queue.maxConcurrentOperationCount = 2 }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 2)
    }
  }

  @Test func anIdleQueueIsTidiedWhileSomebodyAdds() {
    Self.explorer("async, wait | tidy up").exploreQueue { run, scene in
      scene.add()
      scene.wait()
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.wait()
          }
        ), ("tidy up", { scene.queue.core.tidyUp() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// Also while the worker that had the work before is still about to leave: what a barrier leaves to be released comes first.
  @Test func whatIsAddedAfterTheUnderlyingQueueWasSetRunsThere() {
    Self.explorer("async, barrier, wait, underlyingQueue, async, wait").exploreQueue { run, scene in
      let generations = Generations()
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.queue.addBarrierBlock { generations.first = Worker.current?.generation }
            scene.wait()
            scene.queue.underlyingQueue = DispatchQueue(label: "other")
            scene.queue.async(lifetime: scene.lifetime) { generations.second = Worker.current?.generation }
            scene.wait()
          }
        ))
      run.expect(generations.second ?? 0 > generations.first ?? .max, "the second job ran on a worker of the former underlying queue")
    } atEnd: { _, _ in
    }
  }

  private final class Generations: @unchecked Sendable {  // the baton holder's
    var first: Int?
    var second: Int?
  }

  @Test func aQueueIsSuspendedAndResumed() {
    Self.explorer("async, wait | suspend, resume").exploreQueue { run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.wait()
          }
        ),
        (
          "suspend",
          {
            scene.queue.isSuspended = true
            scene.queue.isSuspended = false
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  @Test func fairnessAndTheOwnersLimitAreChanged() {
    Self.explorer("async, async, wait | round robin, limit per owner").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.add()
            scene.wait()
          }
        ),
        (
          "settings",
          {
            scene.queue.ownerFairness = .roundRobin
            scene.queue.maxConcurrentOperationCountPerOwner = 1
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// Two who hold a queue that nobody else holds.
  private static func held() -> (Holder<OwnerScopedQueue>, Holder<OwnerScopedQueue>, WeakReference<OwnerScopedQueue>) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    return (Holder(queue), Holder(queue), WeakReference(queue))
  }

  /// What was added runs, and then the queue goes, whoever lets go of it last.
  @Test func theQueueIsLetGoOfWhileItHasWork() {
    Self.explorer("async, let go | let go").expectNothing(preemptions: 2) { run in
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
