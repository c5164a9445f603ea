import Foundation
import Testing

@testable import OwnedOperations

/// Owners whose ends are told by the thread that ends them, if nobody has the queue's lock just then, and else by the reaper.
@Suite(.serialized) struct EndAtOnceModelTests {
  private static func explore(
    _ name: String, _ location: SourceLocation = #_sourceLocation,
    _ threads: @escaping @Sendable (ModelRun, QueueScene, OwnerLifetime, Probe) -> Void
  ) {
    var explorer = ModelExplorer("end at once: \(name)")
    explorer.tellsAtOnce = true
    explorer.exploreQueue(preemptions: 2, reduces: true, location) { run, scene in
      let token = OwnerLifetime.Token()
      let probe = Probe()
      threads(run, scene, token.lifetime, probe)
      LifetimeReaper.waitUntilIdle()
      run.wait("release of what was captured") { probe.isGone }
      run.expect(!token.lifetime.isAlive, "the owner has not ended")
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) are left")
      let statistics = scene.queue.statistics
      run.expect(
        statistics.enqueued == statistics.started + statistics.cancelled, "\(statistics.enqueued) enqueued, and not as many are over")
    }
  }

  private static func add(_ probe: Probe, of lifetime: OwnerLifetime, to queue: OwnerScopedQueue) {
    probe.give { flag in queue.async(lifetime: lifetime) { flag.count += 1 } }
  }

  @Test func itsJobRunsOrIsCancelled() {
    Self.explore("async, suspended | end | resume") { run, scene, lifetime, probe in
      scene.queue.isSuspended = true
      Self.add(probe, of: lifetime, to: scene.queue)
      run.concurrently(("end", { lifetime.end() }), ("resume", { scene.queue.isSuspended = false }))
      scene.wait()
    }
  }

  @Test func itEndsBesideTheWorker() {
    Self.explore("async, wait | end") { run, scene, lifetime, probe in
      run.concurrently(
        (
          "adder",
          {
            Self.add(probe, of: lifetime, to: scene.queue)
            scene.wait()
          }
        ), ("end", { lifetime.end() }))
    }
  }

  @Test func itEndsAtRestWhileAnotherComes() {
    Self.explore("async, wait | end | async of another") { run, scene, lifetime, probe in
      Self.add(probe, of: lifetime, to: scene.queue)
      scene.wait()
      run.concurrently(("end", { lifetime.end() }), ("other", { scene.add() }))
      scene.wait()
    }
  }

  /// Whether somebody waits is asked under the lock: the wait's end is for a hold that follows up.
  @Test func somebodyWaitsForIt() {
    Self.explore("async, suspended | end | wait for the owner") { run, scene, lifetime, probe in
      scene.queue.isSuspended = true
      Self.add(probe, of: lifetime, to: scene.queue)
      run.concurrently(
        ("end", { lifetime.end() }), ("wait", { scene.queue.waitUntilFinished(ownedBy: lifetime) }))
    }
  }

  /// The owner is suspended, so that its end is what the barrier waits for.
  @Test func aBarrierWaitsForIt() {
    Self.explore("async, owner suspended | end | barrier") { run, scene, lifetime, probe in
      scene.queue.setSuspended(true, ownedBy: lifetime)
      Self.add(probe, of: lifetime, to: scene.queue)
      let hasRun = ModelFlag()
      run.concurrently(
        ("end", { lifetime.end() }),
        ("barrier", { scene.queue.addBarrierBlock { hasRun.isSet = true } }))
      run.wait("the barrier") { hasRun.isSet }
    }
  }

  @Test func allIsCancelled() {
    Self.explore("async, suspended | end | cancel all") { run, scene, lifetime, probe in
      scene.queue.isSuspended = true
      Self.add(probe, of: lifetime, to: scene.queue)
      run.concurrently(("end", { lifetime.end() }), ("cancel", { scene.queue.cancelAllOperations() }))
    }
  }

  // MARK: Queues that go

  private static func exploreGoing(
    _ name: String, _ location: SourceLocation = #_sourceLocation, keepsFacade: Bool
  ) {
    var explorer = ModelExplorer("end at once: \(name)")
    explorer.tellsAtOnce = true
    explorer.expectNothing(preemptions: 2, location) { run in
      let holder = Holder(OwnerScopedQueue(maxConcurrentOperationCount: 1))
      let queue = WeakReference(holder.object!)
      let facade = keepsFacade ? holder.object?.operationQueue : nil
      let (token, probe) = (OwnerLifetime.Token(), Probe())
      holder.object?.isSuspended = true
      if let queue = holder.object { add(probe, of: token.lifetime, to: queue) }
      run.concurrently(("let go", { holder.object = nil }), ("end", { token.lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("the queue goes") { queue.object == nil }
      run.wait("release of what was captured") { probe.isGone }
      facade?.isSuspended = false
      facade?.waitUntilAllOperationsAreFinished()
    }
  }

  /// Who ends the owner doesn't hold the queue.
  @Test func theQueueGoes() { Self.exploreGoing("async, suspended | let go | end", keepsFacade: false) }

  /// The heir has the job, and the queue's lock doesn't guard it any more.
  @Test func theQueueLeavesTheJobToItsHeir() { Self.exploreGoing("async, suspended | let go, to an heir | end", keepsFacade: true) }
}
