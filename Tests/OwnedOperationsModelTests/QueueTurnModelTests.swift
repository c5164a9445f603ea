import Foundation
import Testing

@testable import OwnedOperations

/// Turns that are begun by whoever adds them.
@Suite(.serialized) struct QueueTurnModelTests {
  /// What the start of a turn does; the body is a part of the thread that adds it.
  private final class Turn: OwnedOperation, @unchecked Sendable {  // constant
    let came = Semaphore()

    override init(lifetime: OwnerLifetime) {
      super.init(lifetime: lifetime)
      setTellsOthers()
    }

    override var isAsynchronous: Bool { true }
    override var isUnknown: Bool { !wasGivenOut }
    override func perform() { came.signal() }
    override func resumeCancelled() { came.signal() }
  }

  private static func add(_ turn: Turn, to queue: OwnerScopedQueue) {
    if queue.claimsPermit(for: turn) { queue.begin(turn) }
  }

  private static func take(_ turn: Turn, of scene: QueueScene) {
    add(turn, to: scene.queue)
    turn.came.wait()
    // The look decides: what ends after it comes too late.
    let hadEnded = scene.bodies.hasEnded
    if turn.isExecuting, turn.mayBeginInTask {
      if hadEnded { scene.bodies.decisionsAfterEnd += 1 }
      scene.bodies.runAndStay()
    }
    turn.finish()
  }

  @Test func aTurnAndAJob() {
    ModelExplorer("queue: take a turn | async").exploreQueue { run, scene in
      let turn = Turn(lifetime: scene.lifetime)
      run.concurrently(("turn", { Self.take(turn, of: scene) }), ("adder", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  @Test func twoTurns() {
    ModelExplorer("queue: take a turn | take a turn").exploreQueue { run, scene in
      let (one, two) = (Turn(lifetime: scene.lifetime), Turn(lifetime: scene.lifetime))
      run.concurrently(("one", { Self.take(one, of: scene) }), ("two", { Self.take(two, of: scene) }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  @Test func aTurnAndItsCancellation() {
    ModelExplorer("queue: take a turn, async | cancel").exploreQueue { run, scene in
      let turn = Turn(lifetime: scene.lifetime)
      run.concurrently(
        (
          "turn",
          {
            Self.take(turn, of: scene)
            scene.add()
          }
        ), ("cancel", { turn.cancel() }))
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs >= 1 && scene.bodies.runs <= 2, "\(scene.bodies.runs) bodies ran")
      run.expect(scene.queue.shows { $0.detached == 0 }, "the turn's permit is lost")
    }
  }

  @Test func aTurnAndTheEndOfItsOwner() {
    ModelExplorer("queue: take a turn | end").exploreQueue { run, scene in
      let turn = Turn(lifetime: scene.lifetime)
      run.concurrently(("turn", { Self.take(turn, of: scene) }), ("end", { scene.end() }))
    } atEnd: { run, scene in
      run.expect(scene.bodies.decisionsAfterEnd == 0, "its body began after the end")
      run.expect(scene.queue.shows { $0.detached == 0 }, "the turn's permit is lost")
    }
  }

  /// A turn that nobody knows finishes unheard. The queue lists it for whoever asks.
  @Test func whatIsBehindATurnThatWasListedRuns() {
    ModelExplorer("queue: take a turn | depend on it, listed").exploreQueue { run, scene in
      let turn = Turn(lifetime: scene.lifetime)
      let plain = BlockOperation {}
      run.concurrently(
        ("turn", { Self.take(turn, of: scene) }),
        (
          "dependent",
          {
            guard let operation = scene.queue.operations.first else { return }
            turn.lock.withLock {}
            plain.addDependency(operation)
          }
        ))
      run.wait("what it depends on") { plain.isReady }
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }
}
