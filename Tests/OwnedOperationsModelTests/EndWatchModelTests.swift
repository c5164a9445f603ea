import Dispatch
import Testing

@testable import OwnedOperations

/// Work is over before its captures go, which block until somebody has gone on who waits for its end. Nobody told the queue of that.
@Suite(.serialized) struct EndWatchModelTests {
  private static func explore(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ threads: @escaping @Sendable (ModelRun, QueueScene, Semaphore) -> Void
  ) {
    var explorer = ModelExplorer("ends: \(name)", timePasses: true)
    explorer.watchesEnds = true
    explorer.exploreQueue(limit: 2, preemptions: 1, location) { run, scene in
      threads(run, scene, Semaphore())
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  private static func add(_ scene: QueueScene, whoseCapturesWaitFor hasGoneOn: Semaphore) {
    let leaving = Leaving { hasGoneOn.wait() }
    scene.queue.async(lifetime: scene.lifetime) {
      scene.bodies.runAndStay()
      withExtendedLifetime(leaving) {}
    }
  }

  private static func exploreWait(_ name: String, _ wait: @escaping @Sendable (QueueScene) -> Void) {
    explore("async, whose captures block until \(name) is over | wait") { run, scene, hasGoneOn in
      add(scene, whoseCapturesWaitFor: hasGoneOn)
      run.concurrently(
        (
          "wait",
          {
            wait(scene)
            scene.bodies.runAndStay()
            hasGoneOn.signal()
          }
        ))
    }
  }

  @Test func aWaitEnds() { Self.exploreWait("the wait") { $0.queue.waitUntilAllOperationsAreFinished() } }

  @Test func aWaitForTheOwnerEnds() { Self.exploreWait("the wait for the owner") { $0.queue.waitUntilFinished(ownedBy: $0.lifetime) } }

  @Test func aBarrierBegins() {
    Self.explore("async, whose captures block until the barrier has run | addBarrier") { run, scene, hasGoneOn in
      Self.add(scene, whoseCapturesWaitFor: hasGoneOn)
      run.concurrently(
        (
          "barrier",
          {
            scene.queue.addBarrierBlock {
              scene.bodies.runAndStay()
              hasGoneOn.signal()
            }
          }
        ))
    }
  }

  /// The first look comes before the body is over.
  @Test func aBarrierBeginsAfterALongBody() {
    Self.explore("async, whose body takes long, and whose captures block until the barrier has run | addBarrier") { run, scene, hasGoneOn in
      let (leaving, mayEnd) = (Leaving { hasGoneOn.wait() }, Semaphore())
      scene.queue.async(lifetime: scene.lifetime) {
        mayEnd.wait()
        scene.bodies.runAndStay()
        withExtendedLifetime(leaving) {}
      }
      Uptime.call(after: .milliseconds(5), on: DispatchQueue(label: "long")) { mayEnd.signal() }
      run.concurrently(
        (
          "barrier",
          {
            scene.queue.addBarrierBlock {
              scene.bodies.runAndStay()
              hasGoneOn.signal()
            }
          }
        ))
    }
  }
}
