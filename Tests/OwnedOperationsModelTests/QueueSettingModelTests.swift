import Foundation
import Testing

@testable import OwnedOperations

/// A queue whose settings change, that is idle, or goes, while others add to it.
@Suite(.serialized) struct QueueSettingModelTests {
  /// Bodies that take time, and a setting after which they should be alone. One may have been under way.
  private static func exploreLimit(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ set: @escaping @Sendable (OwnerScopedQueue) -> Void
  ) {
    ModelExplorer("queue: \(name)").exploreQueue(limit: 2, preemptions: 1, reduces: true, location) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<3 { scene.addOneThatStays() }
            scene.wait()
          }
        ),
        (
          "limit",
          {
            set(scene.queue)
            scene.bodies.areOneAtATime = true
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 2)
      run.expect(scene.bodies.startsBesideOthers <= 1, "\(scene.bodies.startsBesideOthers) began beside others under the new limit")
    }
  }

  @Test func theLimitSinks() {
    Self.exploreLimit("async, async, async, wait | limit 1") { $0.maxConcurrentOperationCount = 1 }
  }

  @Test func theOwnersLimitSinks() {
    Self.exploreLimit("async, async, async, wait | round robin, limit 1 per owner") { queue in
      queue.ownerFairness = .roundRobin
      queue.maxConcurrentOperationCountPerOwner = 1
    }
  }

  @Test func theLimitSinksAndRises() {
    ModelExplorer("queue: async, async, wait | limit 1, limit 2").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.addOneThatStays()
            scene.addOneThatStays()
            scene.wait()
          }
        ),
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

  /// The first body waits, in a way that the queue does not know of, for the second, which only the new limit lets begin.
  @Test func theLimitRises() {
    ModelExplorer("queue: async, which waits for the next, async, wait | limit 2").exploreQueue(preemptions: 1) { run, scene in
      let isOver = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              isOver.wait()
              scene.bodies.run()
            }
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              isOver.signal()
            }
            scene.wait()
          }
        ), ("limit", { scene.queue.maxConcurrentOperationCount = 2 }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func anIdleQueueIsTidiedWhileSomebodyAdds() {
    ModelExplorer("queue: async, wait | tidy up").exploreQueue { run, scene in
      scene.add()
      scene.wait()
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.wait()
          }
        ), ("tidy up", { scene.queue.tidyUp() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// A lifetime that the look misses, because it has work, is found by the next: of that somebody else is in charge then.
  @Test func aQueueThatIsIdleAgainIsTidiedUpAgain() {
    ModelExplorer("queue: async of a lifetime, wait, claim | tidy up").exploreQueue(reduces: true) { run, scene in
      scene.addAndWait(1)
      guard let reference = scene.queue.reference, reference.claimTidyUp() else { return run.expect(false, "somebody else tidies up") }
      let (lifetime, isClaimed) = (Holder(OwnerLifetime()), ModelFlag())
      let isThere = WeakReference(lifetime.object!)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: lifetime.object!) { scene.bodies.run() }
            scene.wait()
            isClaimed.isSet = reference.claimTidyUp()  // as the worker does that leaves last
            lifetime.object = nil
          }
        ), ("tidy up", { reference.tidyUp() }))
      if isClaimed.isSet { reference.tidyUp() }
      run.wait("the queue forgets the lifetime") { isThere.object == nil }
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// The idle queue may forget its owner at any moment, and not that it is suspended.
  @Test func anIdleQueueIsTidiedWhileAnOwnerIsSuspended() {
    ModelExplorer("queue: suspend the owner, async, resume it, wait | tidy up", timePasses: true).exploreQueue { run, scene in
      scene.addAndWait(1)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.setSuspended(true, ownedBy: scene.lifetime)
            scene.bodies.hasEnded = true
            scene.add()
            Platform.sleep(microseconds: 1)
            scene.bodies.hasEnded = false
            scene.queue.setSuspended(false, ownedBy: scene.lifetime)
            scene.wait()
          }
        ), ("tidy up", { scene.queue.tidyUp() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
      run.expect(scene.bodies.startsAfterEnd == 0, "it began while its owner was suspended")
    }
  }

  /// Also while the worker that had the work before is still about to leave: what a barrier leaves to be released comes first.
  @Test func whatIsAddedAfterTheUnderlyingQueueWasSetRunsThere() {
    ModelExplorer("queue: async, barrier, wait, underlyingQueue, async, wait").exploreQueue { run, scene in
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

  // MARK: Suspension

  private static func exploreSuspension(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation,
    _ suspend: @escaping @Sendable (QueueScene, Bool) -> Void
  ) {
    ModelExplorer("queue: \(name)", timePasses: true).exploreQueue(preemptions: preemptions, reduces: true, location) { run, scene in
      run.concurrently(
        ("adder", { scene.addAndWait(3) }),
        (
          "suspend",
          {
            scene.suspend {
              suspend(scene, true)
            } resume: {
              suspend(scene, false)
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3)
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) bodies began while it was suspended")
    }
  }

  @Test func aQueueIsSuspendedAndResumed() {
    Self.exploreSuspension("async, async, async, wait | suspend, resume") { $0.queue.isSuspended = $1 }
  }

  @Test func anOwnerIsSuspendedAndResumed() {
    Self.exploreSuspension("async, async, async, wait | suspend the owner, resume it") {
      $0.queue.setSuspended($1, ownedBy: $0.lifetime)
    }
  }

  // MARK: A batch in hand, and a thread that gives up parking

  /// A worker that has run something quick takes several jobs at once, and goes through them without the lock. One of them waits until
  /// the other has begun: what it does falls into the midst of a batch.
  private static func exploreBatch(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ other: @escaping @Sendable (QueueScene) -> Void
  ) {
    ModelExplorer("queue: \(name)").exploreQueue(preemptions: 1, reduces: true, location) { run, scene in
      let hasBegun = Semaphore()
      scene.queue.isSuspended = true
      for index in 0..<8 * Processors.count {
        scene.queue.async(lifetime: scene.lifetime) {
          if index == 4 { hasBegun.signal() }
          scene.bodies.runAndStay()
        }
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "other",
          {
            hasBegun.wait()
            scene.bodies.pass()
            other(scene)
          }
        ))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs of the batch began too late")
    }
  }

  @Test func aBatchInHandIsCancelled() {
    Self.exploreBatch("resume with a batch | cancel all") { scene in
      scene.queue.cancelAllOperations()
      scene.bodies.hasEnded = true
    }
  }

  @Test func theOwnerOfABatchInHandIsSuspended() {
    Self.exploreBatch("resume with a batch | suspend the owner, cancel its work, resume it") { scene in
      scene.queue.setSuspended(true, ownedBy: scene.lifetime)
      scene.bodies.hasEnded = true
      scene.queue.cancelOperations(ownedBy: scene.lifetime)
      scene.queue.setSuspended(false, ownedBy: scene.lifetime)
    }
  }

  @Test func theOwnerOfABatchInHandEnds() {
    Self.exploreBatch("resume with a batch | end") { $0.end() }
  }

  /// Two workers have taken two each, and begun none. They give them back, or have them taken back, or both.
  @Test func twoBatchesComeBackInTheirOrder() {
    ModelExplorer("queue: two batches in hand: give back, give back | suspend the owner, resume it").exploreQueue { run, scene in
      let order = ModelFlag()
      scene.queue.isSuspended = true
      for number in 1...5 { scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + number } }
      let (first, second) = (scene.queue.take(2), scene.queue.take(2))
      run.expect(first.count == 2 && second.count == 2, "they have taken \(first.count) and \(second.count)")
      run.concurrently(
        (
          "workers",
          {
            // The younger ones first: each puts its own before what is there.
            scene.queue.giveBack(second)
            scene.queue.giveBack(first)
          }
        ),
        (
          "suspend",
          {
            scene.queue.setSuspended(true, ownedBy: scene.lifetime)
            scene.queue.setSuspended(false, ownedBy: scene.lifetime)
          }
        ))
      scene.queue.isSuspended = false
      scene.wait()
      run.expect(order.count == 12345, "they ran in the order \(order.count)")
    } atEnd: { _, _ in
    }
  }

  private static func exploreParking(
    _ name: String, preemptions: Int = 1, _ location: SourceLocation = #_sourceLocation,
    _ other: @escaping @Sendable (QueueScene) -> Void, atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void
  ) {
    ModelExplorer("queue: \(name)", earlyTimeouts: 2).exploreQueue(preemptions: preemptions, reduces: true, location) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<2 { scene.addAndWait(1) }
          }
        ), ("other", { other(scene) }))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
      look(run, scene)
    }
  }

  @Test func theOwnerEndsWhileTheParkedThreadGivesUp() {
    Self.exploreParking("async, wait, give up parking, async, wait | end") {
      $0.end()
    } atEnd: { run, scene in
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
    }
  }

  @Test func theQueueIsSuspendedWhileTheParkedThreadGivesUp() {
    Self.exploreParking("async, wait, give up parking, async, wait | suspend, resume") { scene in
      scene.queue.isSuspended = true
      scene.queue.isSuspended = false
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func theLimitIsSetWhileTheParkedThreadGivesUp() {
    Self.exploreParking("async, wait, give up parking, async, wait | limit 2, limit 1") { scene in
      scene.queue.maxConcurrentOperationCount = 2
      scene.queue.maxConcurrentOperationCount = 1
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }
}
