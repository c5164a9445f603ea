import Foundation
import Testing

@testable import OwnedOperations

/// A queue: those who add, workers that come, park and leave, owners that end, and those who wait.
@Suite(.serialized) struct QueueModelTests {
  @Test func twoAddToAnIdleQueue() {
    ModelExplorer("queue: async | async, wait").exploreQueue { run, scene in
      run.concurrently(
        ("one", { scene.add() }),
        (
          "two",
          {
            scene.add()
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func aHandedJobGivesWayToAMoreUrgentOneOfItsOwner() {
    ModelExplorer("queue: async, async urgent, limit per owner").exploreQueue(limit: 2) { run, scene in
      scene.queue.maxConcurrentOperationCountPerOwner = 1
      let order = ModelFlag()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + 1 }
            scene.queue.async(lifetime: scene.lifetime, priority: .high) { order.count = order.count * 10 + 2 }
            let hasBegun = scene.queue.shows { $0.batchHasBegun || order.count > 0 }
            scene.wait()
            run.expect(hasBegun ? order.count == 12 || order.count == 21 : order.count == 21, "\(order.count)")
          }
        ))
    } atEnd: { _, _ in
    }
  }

  @Test func aJobIsAddedWhileTheWorkerLeaves() {
    ModelExplorer("queue: async, wait, async, wait").exploreQueue { run, scene in
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<3 {
              scene.add()
              scene.wait()
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3)
    }
  }

  @Test func aJobIsAddedWhileTheParkedThreadGivesUp() {
    ModelExplorer("queue: async, wait, give up parking, async, wait", earlyTimeouts: 2).exploreQueue(preemptions: 1, deeper: nil) {
      run, scene in
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<2 {
              scene.add()
              scene.wait()
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func workersOfTwoQueuesAreDueAtOnce() {
    ModelExplorer("queue: async to one queue | to another, wait for both").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let other = QueueScene(limit: 1)
      run.concurrently(
        ("one", { scene.add() }),
        (
          "other",
          {
            other.add()
            other.wait()
          }
        ))
      scene.wait()
      other.expect(run, runs: 1)
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  /// Whoever takes the worker of the first queue must not leave that of the second to itself: the job of the first waits for that of the
  /// second.
  @Test func aJobWaitsForAJobOfAnotherQueue() {
    ModelExplorer("queue: async, which waits for the next; async to another queue").exploreQueue(preemptions: 1) { run, scene in
      let other = QueueScene(limit: 1)
      let isOver = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) { isOver.wait() }
            other.queue.async(lifetime: other.lifetime) { isOver.signal() }
          }
        ))
      other.wait()
    } atEnd: { _, _ in
    }
  }

  @Test func aJobOfAnotherQueueIsAddedWhileTheParkedThreadGivesUp() {
    ModelExplorer("queue: async, wait, give up parking, async to another queue, wait", earlyTimeouts: 2).exploreQueue(preemptions: 1) {
      run, scene in
      let other = QueueScene(limit: 1)
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.wait()
            other.add()
            other.wait()
          }
        ))
      other.expect(run, runs: 1)
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  @Test func aJobAndTheEndOfItsOwner() {
    ModelExplorer("queue: async, wait | end").exploreQueue(preemptions: 2, reduces: true) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.add()
            scene.wait()
          }
        ), ("end", { scene.end() }))
    } atEnd: { run, scene in
      // One worker: the start of one job may have been under way.
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
      scene.expectStatistics(run)
    }
  }

  private final class Sharing: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
  }

  /// Of two objects with one token, that to which the lifetime is not bound.
  @Test func aJobOfAnObjectThatSharesItsTokenAndTheEnd() {
    ModelExplorer("queue: async, async of a second object, wait | end").exploreQueue(preemptions: 1, reduces: true) { run, scene in
      let token = OwnerLifetime.Token()
      let (first, second) = (Sharing(token), Sharing(token))
      scene.queue.async(owner: first) { _ in scene.bodies.run() }
      scene.wait()
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<2 { scene.queue.async(owner: second) { _ in scene.bodies.run() } }
            scene.wait()
          }
        ),
        (
          "end",
          {
            token.lifetime.end()
            scene.bodies.hasEnded = true
          }
        ))
      withExtendedLifetime((first, second)) {}
    } atEnd: { run, scene in
      // One worker: the start of one job may have been under way.
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
      scene.expectStatistics(run)
    }
  }

  @Test func anOperationAndItsCancellation() {
    ModelExplorer("queue: addOperation, wait | cancel").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let operation = scene.operation()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            scene.wait()
          }
        ), ("cancel", { operation.cancel() }))
      scene.wait()
      run.expect(operation.isFinished, "it has not finished")
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs <= 1, "it ran \(scene.bodies.runs) times")
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) operations are left")
    }
  }

  @Test func ownersAreAwaitedWhileTheirLastWorkFinishes() {
    ModelExplorer("queue: async, wait for the owner | async of another").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let other = OwnerLifetime()
      run.concurrently(
        (
          "first",
          {
            scene.add()
            scene.queue.waitUntilFinished(ownedBy: scene.lifetime)
          }
        ), ("second", { scene.queue.async(lifetime: other) { scene.bodies.run() } }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  // MARK: Bad input

  /// Each of two adds one that the other adds, too, to a queue of its own: one has an error, and nothing of its list is in its queue.
  @Test func oneOperationIsAddedToTwoQueues() {
    ModelExplorer("queue: enqueue | enqueue to another queue").exploreQueue(preemptions: 1, reduces: true) { run, scene in
      let other = QueueScene()
      let (first, shared, last) = (scene.operation(), scene.operation(), scene.operation())
      shared.name = "shared"
      let refused = ModelFlag()
      let add: @Sendable ([Operation], Operation, QueueScene) -> Void = { operations, own, scene in
        do throws(OwnerScopedQueueError) {
          try scene.queue.enqueue(operations)
        } catch {
          refused.count += 1
          run.expect("\(error)".contains("\"shared\""), "\(error)")
          scene.queue.addOperation(own)
        }
      }
      run.concurrently(("one", { add([first, shared], first, scene) }), ("two", { add([shared, last], last, other) }))
      other.wait()
      scene.wait()
      run.expect(refused.count == 1, "\(refused.count) of two lists were refused")
      for operation in [first, shared, last] { run.expect(operation.isFinished, "an operation has not finished") }
    } atEnd: { run, scene in
      scene.expect(run, runs: 3)
    }
  }

  // MARK: Delays

  @Test func aDelayedJobAndTheEndOfItsOwner() {
    ModelExplorer("queue: asyncAfter, asyncAfter | end", earlyTimeouts: 2, timePasses: true).exploreQueue(preemptions: 1) { run, scene in
      let probe = Holder(ModelFlag())
      let released = WeakReference(probe.object!)
      for _ in 0..<2 {
        scene.queue.asyncAfter(.milliseconds(1), lifetime: scene.lifetime) { [flag = probe.object] in
          flag?.count += 1
          scene.bodies.run()
        }
      }
      probe.object = nil
      run.concurrently(("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      scene.wait()
      // A timer that has taken a body out before the end finds that it is too late, and lets go of it.
      run.wait("release") { released.object == nil }
    } atEnd: { run, scene in
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
    }
  }

  /// Whoever comes first. What comes after the end is not kept for an hour.
  @Test func whatIsDelayedIsReleasedAtTheEnd() {
    ModelExplorer("queue: asyncAfter in an hour | end", timePasses: true).exploreQueue { run, scene in
      let probe = Holder(ModelFlag())
      let released = WeakReference(probe.object!)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.asyncAfter(.seconds(3600), lifetime: scene.lifetime) { [flag = probe.object] in
              flag?.count += 1
              scene.bodies.run()
            }
            probe.object = nil
          }
        ), ("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      run.wait("release") { released.object == nil }
      run.expect(ModelRun.now < 3600 * 1_000_000_000, "what it captured went at its time")
    } atEnd: { run, scene in
      scene.expect(run, runs: 0)
    }
  }

  /// The timer may fire at any moment, before the lifetime is joined and after.
  @Test func aJobIsDelayedWhileItsOwnerEnds() {
    ModelExplorer("queue: asyncAfter | end", earlyTimeouts: 1, timePasses: true).exploreQueue { run, scene in
      let probe = Holder(ModelFlag())
      let released = WeakReference(probe.object!)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.asyncAfter(.milliseconds(1), lifetime: scene.lifetime) { [flag = probe.object] in
              flag?.count += 1
              scene.bodies.run()
            }
            probe.object = nil
          }
        ), ("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      scene.wait()
      run.wait("release") { released.object == nil }
    } atEnd: { run, scene in
      // Its start may have been under way.
      run.expect(scene.bodies.runs <= 1, "it ran \(scene.bodies.runs) times")
      scene.expectStatistics(run)
    }
  }

  @Test func aDelayedJobIsAddedWhileTheWorkerLeaves() {
    ModelExplorer("queue: asyncAfter | async, wait", earlyTimeouts: 1, timePasses: true).exploreQueue(preemptions: 1) { run, scene in
      scene.queue.asyncAfter(.milliseconds(1), lifetime: scene.lifetime) { scene.bodies.run() }
      run.concurrently(
        (
          "adder",
          {
            scene.add()
            scene.wait()
          }
        ))
      Platform.sleep(microseconds: 2000)
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  // MARK: Work that does not begin

  /// Its deinit waits for somebody else's job.
  final class BlockingOwner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    let gate = Semaphore()
    deinit { gate.wait() }
  }

  /// The worker has the last reference to the owner of a job that was held back. The deinit waits for a job that the worker is to take, so
  /// it has to run elsewhere.
  @Test func anOwnerBlocksTheWorkerThatLetsGoOfIt() {
    let name = "resume, wait | last body of an owner whose deinit waits"
    ModelExplorer("queue: \(name)", timePasses: true).exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let holder = Holder(BlockingOwner())
      let gate = holder.object!.gate
      let hold = OwnerHold.of(holder.object!)
      guard case .begins(let body) = hold.begin() else { return run.expect(false, "nobody holds the owner") }
      scene.queue.isSuspended = true
      scene.queue.async(owner: holder.object!) { _ in }
      scene.queue.async(lifetime: scene.lifetime) {
        scene.bodies.run()
        gate.signal()
      }
      holder.object = nil
      run.concurrently(
        (
          "resume",
          {
            scene.queue.isSuspended = false
            scene.wait()
          }
        ), ("body", { hold.end(body) }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  private final class BlockingCapture: Sendable {
    let gate = Semaphore()
    deinit { gate.wait() }
  }

  /// A job is put back, for only a body holds its owner, and is taken out of the queue when that ends. The worker has the last reference to
  /// what it has captured, and blocks, with no item and with the one permit.
  @Test func whatAJobThatWasHeldBackLeavesBlocksItsWorker() {
    let name = "resume, wait | end by hand, of a job whose captures block"
    ModelExplorer("queue: \(name)", timePasses: true).exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let token = OwnerLifetime.Token()
      let first = Sharing(token)
      let lifetime = token.lifetime
      let holder = Holder(Sharing(token))
      let hold = OwnerHold.of(holder.object!)
      guard case .begins(let body) = hold.begin() else { return run.expect(false, "nobody holds the owner") }
      scene.queue.isSuspended = true
      do {
        let capture = BlockingCapture()
        let gate = capture.gate
        scene.queue.async(owner: holder.object!) { [capture] _ in _ = capture }
        scene.queue.async(lifetime: scene.lifetime) {
          scene.bodies.run()
          gate.signal()
        }
      }
      holder.object = nil
      run.concurrently(
        (
          "resume",
          {
            scene.queue.isSuspended = false
            scene.wait()
          }
        ), ("end", { lifetime.end() }))
      hold.end(body)
      withExtendedLifetime(first) {}
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }
}
