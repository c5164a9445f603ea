import Foundation
import Testing

@testable import OwnedOperations

/// Code of the user's that the library calls or releases, and that comes back to the library or blocks: deinits, hooks, bodies that cancel,
/// completion blocks.
@Suite(.serialized) struct UserCodeModelTests {
  private static func explore(
    _ name: String, limit: Int = 1, preemptions: Int = 1, deeper: Int? = ModelExplorer.someDeeper, countsBodies: Bool = true,
    timePasses: Bool = false,
    _ location: SourceLocation = #_sourceLocation, _ threads: @escaping @Sendable (ModelRun, QueueScene) -> Void,
    atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void = { _, _ in }
  ) {
    let explorer = ModelExplorer("code: \(name)", timePasses: timePasses)
    explorer.exploreQueue(limit: limit, preemptions: preemptions, reduces: true, deeper: deeper, location) { run, scene in
      threads(run, scene)
    } atEnd: { run, scene in
      LifetimeReaper.waitUntilIdle()
      scene.wait()
      if countsBodies { scene.expectStatistics(run) }
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

  /// What was cancelled is released by nobody who has the queue's lock.
  @Test func whatWasCancelledAddsAnotherJobWhenItGoes() {
    Self.explore("async, suspended, whose captures add when they go | async | cancel all") { run, scene in
      let (other, added) = (OwnerLifetime(), ModelFlag())
      scene.queue.isSuspended = true
      do {
        let leaving = Leaving {
          scene.queue.async(lifetime: other) { scene.bodies.run() }
          added.count += 1
        }
        scene.queue.async(lifetime: scene.lifetime) { withExtendedLifetime(leaving) {} }
      }
      run.concurrently(
        ("adder", { scene.queue.async(lifetime: other) { scene.bodies.run() } }), ("cancel", { scene.queue.cancelAllOperations() }))
      run.wait("release") { added.count == 1 }
      scene.queue.isSuspended = false
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

  /// A job is over before its captures go, which block until the next has run. Nobody told the queue of that: its monitor finds out.
  @Test func whatAJobHasCapturedBlocksUntilTheNextHasRun() {
    Self.explore("async, whose captures block until the next has run, async | async", timePasses: true) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            let hasRun = Semaphore()
            let leaving = Leaving { hasRun.wait() }
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.runAndStay()
              withExtendedLifetime(leaving) {}
            }
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.runAndStay()
              hasRun.signal()
            }
          }
        ), ("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  /// Of two jobs that never run the captures of each wait for the other's to go: nobody goes through both.
  @Test func whatTwoJobsHaveCapturedWaitsForTheOthers() {
    Self.explore("async, async, suspended, whose captures wait for each other's | end | cancel all", timePasses: true) { run, scene in
      let gone = ModelFlag()
      let semaphores = [Semaphore(), Semaphore()]
      scene.queue.isSuspended = true
      for number in 0..<2 {
        let leaving = Leaving {
          semaphores[number].signal()
          semaphores[1 - number].wait()
          gone.count += 1
        }
        scene.queue.async(lifetime: scene.lifetime) { withExtendedLifetime(leaving) {} }
      }
      run.concurrently(("end", { scene.lifetime.end() }), ("cancel", { scene.queue.cancelAllOperations() }))
      run.wait("release") { gone.count == 2 }
    }
  }

  /// As above, for the nodes of two graphs.
  @Test func whatTheNodesOfTwoGraphsHaveCapturedWaitsForTheOthers() {
    Self.explore("two graphs, suspended, whose captures wait for each other's | end | cancel both", timePasses: true) { run, scene in
      let gone = ModelFlag()
      let semaphores = [Semaphore(), Semaphore()]
      scene.queue.isSuspended = true
      let runs = (0..<2).compactMap { number -> GraphRun? in
        let leaving = Leaving {
          semaphores[number].signal()
          semaphores[1 - number].wait()
          gone.count += 1
        }
        let graph = OperationGraph(lifetime: scene.lifetime)
        graph.node { withExtendedLifetime(leaving) {} }
        return try? graph.run(on: scene.queue)
      }
      run.concurrently(("end", { scene.lifetime.end() }), ("cancel", { for graphRun in runs { graphRun.cancel() } }))
      run.wait("release") { gone.count == 2 }
      run.expect(runs.count == 2 && runs.allSatisfy(\.isFinished), "a run has not finished")
    }
  }

  /// The body ends its owner, whose hook, on the body's thread, waits for the queue; the owner's other work goes, that of others runs.
  @Test func aHookWaitsForTheQueueInsideOfABody() {
    Self.explore("async, which ends its owner, whose hook waits for the queue | async of another owner") { run, scene in
      let other = OwnerLifetime()
      let calls = ModelFlag()
      scene.lifetime.onEnd { _ in
        // It has ended: this one runs at once. Nobody has the lifetime's lock.
        scene.lifetime.onEnd { _ in calls.count += 1 }
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
      run.expect(calls.count == 2, "\(calls.count) of 2 hooks ran")
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
    Self.explore("async, which adds one, cancels all and adds one, async | async, wait", deeper: nil) { run, scene in
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

  /// An operation's body cancels all, itself among them: so it counts as cancelled, though it ran.
  @Test func anOperationCancelsAll() {
    Self.explore("addOperation, which cancels all, async | addOperation, wait", deeper: nil, countsBodies: false) { run, scene in
      let one = OwnedBlockOperation(lifetime: scene.lifetime) {
        scene.bodies.run()
        scene.queue.cancelAllOperations()
      }
      let two = scene.operation()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(one)
            scene.add()
          }
        ),
        (
          "other",
          {
            scene.queue.addOperation(two)
            scene.wait()
          }
        ))
      scene.wait()
      run.expect(one.isFinished && two.isFinished, "one of the operations has not finished")
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs >= 1 && scene.bodies.runs <= 3, "\(scene.bodies.runs) bodies ran")
    }
  }

  /// The completion block runs on a thread of its own, beside the owner's work.
  @Test func aCompletionBlockEndsTheOwner() {
    Self.explore("addOperation, whose completion block ends its owner, async, async, wait") { run, scene in
      let operation = scene.operation()
      let isOver = Semaphore()
      operation.completionBlock = {
        scene.end()
        isOver.signal()
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            for _ in 0..<2 { scene.add() }
            scene.wait()
          }
        ), ("completion", { isOver.wait() }))
    } atEnd: { run, scene in
      // The start of one may have been under way.
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
    }
  }

  /// The completion block of each waits for the other operation: it runs on no thread that is about to finish that.
  @Test func completionBlocksWaitForWhatIsCancelledWithTheirOwn() {
    Self.explore("addOperation, addOperation, suspended, whose completion blocks wait for the other | cancel all", countsBodies: false) {
      run, scene in
      let operations = [scene.operation(), scene.operation()]
      let calls = ModelFlag()
      for number in 0..<2 {
        operations[number].completionBlock = { [other = operations[1 - number]] in
          other.waitUntilFinished()
          calls.count += 1
        }
      }
      scene.queue.isSuspended = true
      try? scene.queue.enqueue(operations)
      run.concurrently(
        ("cancel", { scene.queue.cancelAllOperations() }), ("resume", { scene.queue.isSuspended = false }))
      run.wait("completion blocks") { calls.count == 2 }
    }
  }

  /// A completion block that comes late takes the place of the former, or of nothing: one of them runs at most.
  @Test func aCompletionBlockIsReplacedWhileTheOperationFinishes() {
    Self.exploreCompletionBlocks("start", least: 0) { operation, _ in operation.start() }
  }

  @Test func aCompletionBlockIsReplacedWhileTheOperationIsCancelled() {
    Self.exploreCompletionBlocks("cancel in a suspended queue", least: 1) { operation, scene in
      scene.queue.isSuspended = true
      try? scene.queue.enqueue([operation])
      operation.cancel()
      scene.queue.isSuspended = false
    }
  }

  private static func exploreCompletionBlocks(
    _ name: String, least: Int, _ location: SourceLocation = #_sourceLocation,
    _ finish: @escaping @Sendable (OwnedOperation, QueueScene) -> Void
  ) {
    explore("\(name) | completionBlock, completionBlock", preemptions: 2, countsBodies: false, timePasses: true, location) { run, scene in
      let operation = scene.operation()
      let calls = ModelFlag()
      run.concurrently(
        ("finish", { finish(operation, scene) }),
        (
          "setter",
          {
            for _ in 0..<2 { operation.completionBlock = { calls.count += 1 } }
          }
        ))
      run.expect(operation.isFinished, "it has not finished")
      Platform.sleep(microseconds: 1)  // everybody else goes on until nobody can
      run.expect(calls.count >= least && calls.count <= 1, "\(calls.count) completion blocks ran")
    }
  }

  /// Each is the only one that the other waits for, so neither could ever go on.
  @Test func twoBodiesWaitForEachOther() {
    Self.explore("a body that waits for an owner | a body of that owner that waits for the first's", limit: 2, preemptions: 0) {
      run, scene in
      let other = OwnerLifetime()
      run.concurrently(
        (
          "one",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.queue.waitUntilFinished(ownedBy: other)
              scene.bodies.run()
            }
          }
        ),
        (
          "two",
          {
            scene.queue.async(lifetime: other) {
              scene.queue.waitUntilFinished(ownedBy: scene.lifetime)
              scene.bodies.run()
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  private final class Adding: OwnedOperation, @unchecked Sendable {  // constants
    private let bodies: Bodies
    private let whenCancelled: @Sendable () -> Void

    init(_ scene: QueueScene, _ whenCancelled: @escaping @Sendable () -> Void) {
      (bodies, self.whenCancelled) = (scene.bodies, whenCancelled)
      super.init(lifetime: scene.lifetime)
    }

    override func perform() { bodies.run() }
    override func didCancel(_ reason: CancellationReason) {
      completionBlock = nil  // nobody has the operation's lock
      whenCancelled()
    }
  }

  /// `didCancel` adds to the queue that is being cancelled, or whose owner ends, and waits for it.
  @Test func whoIsToldOfACancellationAddsAndWaits() {
    Self.explore("addOperation, whose didCancel adds and waits | cancel all | end", preemptions: 0, countsBodies: false) { run, scene in
      let (other, told) = (OwnerLifetime(), ModelFlag())
      let operation = Adding(scene) {
        told.count += 1
        scene.queue.async(lifetime: other) { scene.bodies.run() }
        scene.wait()
      }
      scene.queue.isSuspended = true
      try? scene.queue.enqueue([operation])
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }), ("cancel", { scene.queue.cancelAllOperations() }),
        ("end", { scene.lifetime.end() }))
      scene.wait()  // a worker may be about to finish it
      LifetimeReaper.waitUntilIdle()
      run.expect(operation.isFinished, "it has not finished")
      run.expect(told.count <= 1, "it was told \(told.count) times")
    } atEnd: { _, _ in
    }
  }

  /// Each waits until the other has been told, too, though it is one reaper who comes to both.
  @Test func whoIsToldOfTheEndWaitsForAnother() {
    Self.explore("addOperation, addOperation, whose didCancel waits for the other's | end", countsBodies: false, timePasses: true) {
      run, scene in
      let told = ModelFlag()
      let semaphores = [Semaphore(), Semaphore()]
      let operations = (0..<2).map { number in
        Adding(scene) {
          semaphores[number].signal()
          semaphores[1 - number].wait()
          told.count += 1
        }
      }
      scene.queue.isSuspended = true
      try? scene.queue.enqueue(operations)
      run.concurrently(("end", { scene.lifetime.end() }), ("resume", { scene.queue.isSuspended = false }))
      let (one, two) = (operations[0], operations[1])
      one.waitUntilFinished()
      two.waitUntilFinished()
      let isCancelled = (one.isCancelled ? 1 : 0) + (two.isCancelled ? 1 : 0)
      run.expect(scene.bodies.runs + isCancelled >= 2, "\(scene.bodies.runs) ran, \(isCancelled) were cancelled")
      if isCancelled == 1 { for semaphore in semaphores { semaphore.signal() } }
      run.wait("didCancel") { told.count == isCancelled }
    }
  }

  /// An owner that its last body lets go of: its deinit, on the worker's thread, adds to the queue, and waits for that.
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let leave: @Sendable () -> Void
    init(_ leave: @escaping @Sendable () -> Void) { self.leave = leave }
    deinit { leave() }
  }

  @Test func anOwnersDeinitAddsAndWaits() {
    Self.explore("async of an owner whose deinit adds and waits | last reference") { run, scene in
      let other = OwnerLifetime()
      let gone = ModelFlag()
      let holder = Holder(
        Owner {
          scene.queue.async(lifetime: other) { scene.bodies.run() }
          scene.wait()
          gone.count += 1
        })
      scene.queue.isSuspended = true
      for _ in 0..<2 { scene.queue.async(owner: holder.object!) { _ in scene.bodies.runAndStay() } }
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("release", { holder.object = nil }))
      DeferredReleases.waitUntilIdle()
      run.wait("deinit") { gone.count == 1 }
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs >= 1 && scene.bodies.runs <= 3 && scene.bodies.mostInside <= 1, "\(scene.bodies.runs) bodies ran")
    }
  }

  /// A barrier of an owner whose end comes from what the barrier waits for.
  @Test func aBodyEndsTheOwnerOfTheBarrierThatWaitsForIt() {
    Self.explore("async, which ends the barrier's owner, addBarrier, async | suspend the owner, resume it", deeper: nil) { run, scene in
      let owner = OwnerLifetime()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              owner.end()
            }
            scene.queue.addBarrier(lifetime: owner) { run.expect(false, "the barrier has run") }
            scene.add()
            scene.wait()
          }
        ),
        (
          "suspend",
          {
            scene.queue.setSuspended(true, ownedBy: owner)
            scene.queue.setSuspended(false, ownedBy: owner)
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  /// A handed job, and a limit of nothing that comes and goes.
  @Test func theLimitSinksToNothing() {
    Self.explore("async, async, wait | limit 0, limit 1", deeper: nil) { run, scene in
      run.concurrently(
        ("adder", { scene.addAndWait(2) }),
        (
          "limit",
          {
            scene.queue.maxConcurrentOperationCount = 0
            scene.queue.maxConcurrentOperationCount = 1
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  /// A setting after which former workers take nothing more.
  @Test func theQueueIsNamedWhileItsWorkersAreOnTheirWay() {
    Self.explore("async, async, wait | name, qualityOfService", deeper: nil) { run, scene in
      run.concurrently(
        ("adder", { scene.addAndWait(2) }),
        (
          "name",
          {
            scene.queue.name = "another"
            scene.queue.qualityOfService = .default
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }
}
