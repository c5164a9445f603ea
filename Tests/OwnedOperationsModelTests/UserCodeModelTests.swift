import Foundation
import Testing

@testable import OwnedOperations

/// Code of the user's that the library calls or releases, and that comes back to the library or blocks: deinits, hooks, bodies that cancel.
@Suite(.serialized) struct UserCodeModelTests {
  /// Does something when it goes.
  private final class Leaving: Sendable {
    private let leave: @Sendable () -> Void
    init(_ leave: @escaping @Sendable () -> Void) { self.leave = leave }
    deinit { leave() }
  }

  private static func explore(
    _ name: String, limit: Int = 1, preemptions: Int = 1, _ location: SourceLocation = #_sourceLocation,
    _ threads: @escaping @Sendable (ModelRun, QueueScene) -> Void, atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void
  ) {
    ModelExplorer("code: \(name)").exploreQueue(limit: limit, preemptions: preemptions, reduces: true, location) { run, scene in
      threads(run, scene)
    } atEnd: { run, scene in
      LifetimeReaper.waitUntilIdle()
      scene.wait()
      scene.expectStatistics(run)
      look(run, scene)
    }
  }

  /// A job's captures go when it is over, and add another: whoever lets go of them, the worker, or the reaper of what never ran.
  @Test func whatAJobHasCapturedAddsAnotherWhenItGoes() {
    Self.explore("async, whose captures add when they go | end") { run, scene in
      let (other, added) = (OwnerLifetime(), ModelFlag())
      run.concurrently(
        (
          "adder",
          {
            let leaving = Leaving {
              added.count += 1
              scene.queue.async(lifetime: other) { scene.bodies.run() }
            }
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              withExtendedLifetime(leaving) {}
            }
          }
        ), ("end", { scene.lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("release") { added.count == 1 }
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs == 1 || scene.bodies.runs == 2, "\(scene.bodies.runs) bodies ran")
    }
  }

  /// A job's captures wait for the queue when they go, on the worker's thread, while others add to the serial queue.
  @Test func whatAJobHasCapturedWaitsForTheQueueWhenItGoes() {
    Self.explore("async, whose captures wait for the queue when they go | async, wait") { run, scene in
      run.concurrently(
        (
          "adder",
          {
            let leaving = Leaving { scene.wait() }
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.runAndStay()
              withExtendedLifetime(leaving) {}
            }
            scene.addOneThatStays()
          }
        ),
        (
          "other",
          {
            scene.addOneThatStays()
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  /// The body ends its owner, whose hook, on the body's thread, waits for the queue; the owner's other work goes, that of others runs.
  @Test func aHookWaitsForTheQueueInsideOfABody() {
    Self.explore("async, which ends its owner, whose hook waits for the queue | async of another owner") { run, scene in
      let other = OwnerLifetime()
      let calls = ModelFlag()
      scene.lifetime.onEnd { _ in
        scene.wait()
        calls.count += 1
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              scene.lifetime.end()
            }
            scene.queue.async(lifetime: scene.lifetime) { run.expect(false, "it began after the end") }
          }
        ), ("other", { scene.queue.async(lifetime: other) { scene.bodies.runAndStay() } }))
      scene.wait()
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// Two threads end one owner; its hook waits for a job of the other's, which may be the one that ends it, too.
  @Test func aHookWaitsForAJobThatEndsTheOwnerToo() {
    Self.explore("async, which ends the owner | end, whose hook waits for the queue") { run, scene in
      let owner = OwnerLifetime()
      let calls = ModelFlag()
      owner.onEnd { _ in
        scene.wait()
        calls.count += 1
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              owner.end()
            }
          }
        ), ("end", { owner.end() }))
      scene.wait()
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  /// Also what its worker has in hand, what it has kept of the body's own, and itself.
  @Test func aBodyCancelsAll() {
    Self.explore("async, which adds one, cancels all and adds one, async | async, wait") { run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              scene.add()
              scene.queue.cancelAllOperations()
              scene.add()
            }
            scene.add()
          }
        ),
        (
          "other",
          {
            scene.add()
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      // The body, if it has not been cancelled by nobody; what it adds last; and what came after, or had begun before.
      run.expect(scene.bodies.runs >= 2 && scene.bodies.runs <= 4, "\(scene.bodies.runs) bodies ran")
    }
  }
}
