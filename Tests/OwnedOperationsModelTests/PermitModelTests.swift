import Foundation
import Testing

@testable import OwnedOperations

/// Who may run beside bodies that wait: limits of one and two, of a queue and of an owner, threads that are shared, and tasks.
@Suite(.serialized) struct PermitModelTests {
  /// A body that waits for work of its own queue.
  private static func addWaiter(for awaited: OwnedOperation, to scene: QueueScene) {
    scene.queue.async(lifetime: scene.lifetime) {
      scene.queue.addOperation(awaited)
      awaited.waitUntilFinished()
      scene.bodies.runAndStay()
    }
  }

  @Test func aBodyWaitsForWorkOfItsOwnSerialQueue() {
    ModelExplorer("permits: a body that waits | async").exploreQueue(preemptions: 1) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            Self.addWaiter(for: scene.operationThatStays(), to: scene)
            scene.wait()
          }
        ), ("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func aBodyWaitsBesideALimitOfTwo() {
    ModelExplorer("permits: a body that waits, limit 2 | async").exploreQueue(limit: 2, preemptions: 0, reduces: true, random: 5) {
      run, scene in
      Self.addWaiter(for: scene.operationThatStays(), to: scene)
      run.concurrently(("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 2)
    }
  }

  @Test func theLimitSinksWhileABodyWaits() {
    ModelExplorer("permits: a body that waits, async, limit 2 | limit 1").exploreQueue(limit: 2, preemptions: 0, reduces: true, random: 5) {
      run, scene in
      Self.addWaiter(for: scene.operationThatStays(), to: scene)
      scene.addOneThatStays()
      run.concurrently(
        (
          "limit",
          {
            scene.queue.maxConcurrentOperationCount = 1
            scene.bodies.areOneAtATime = true
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 2)
      run.expect(scene.bodies.startsBesideOthers <= 1, "\(scene.bodies.startsBesideOthers) began beside others")
    }
  }

  @Test func aBodyWaitsForWorkOfItsOwnOwner() {
    ModelExplorer("permits: a body that waits, limit 1 per owner | async").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      scene.queue.maxConcurrentOperationCountPerOwner = 1
      Self.addWaiter(for: scene.operationThatStays(), to: scene)
      run.concurrently(("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  /// That is no reason to let others go on: a serial queue stays serial.
  @Test func aBodyWaitsForWorkOfAnotherQueue() {
    ModelExplorer("permits: a body that waits for another queue, async").exploreQueue(preemptions: 1) { run, scene in
      let other = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      let awaited = scene.operation()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              scene.bodies.stay {
                other.addOperation(awaited)
                awaited.waitUntilFinished()
              }
            }
            scene.addOneThatStays()
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  /// The body and the worker that its wait sends for need one thread.
  @Test func aBodyWaitsOnTheOnlyThread() {
    let name = "a body that waits on the only thread | start of what it waits for | async"
    ModelExplorer("permits: \(name)").exploreQueue(preemptions: 1, deeper: nil, hasOneThread: true) { run, scene in
      let awaited = scene.operation()
      scene.queue.isSuspended = true
      scene.queue.async(lifetime: scene.lifetime) {
        awaited.waitUntilFinished()
        scene.bodies.runAndStay()
      }
      scene.queue.addOperation(awaited)
      scene.queue.isSuspended = false
      run.concurrently(("start", { awaited.start() }), ("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  // MARK: Asynchronous operations

  /// Its start returns, somebody else finishes it.
  private final class Asynchronous: OwnedOperation, @unchecked Sendable {  // constants
    private let bodies: Bodies
    private let hasBegun = Semaphore()

    init(_ scene: QueueScene) {
      bodies = scene.bodies
      super.init(lifetime: scene.lifetime)
    }

    override var isAsynchronous: Bool { true }

    override func perform() {
      bodies.run()
      bodies.enter()
      hasBegun.signal()
    }

    func finishWhenItHasBegun() {
      hasBegun.wait()
      bodies.leave()
      finish()
    }
  }

  @Test func anAsynchronousOperationIsOneAtATime() {
    ModelExplorer("permits: an asynchronous operation, async, resume | finish").exploreQueue(preemptions: 1) { run, scene in
      let operation = Asynchronous(scene)
      scene.queue.isSuspended = true
      scene.queue.addOperation(operation)
      scene.addOneThatStays()
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("finisher", { operation.finishWhenItHasBegun() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  /// A worker that has run something quick takes several items at once. What it has taken together with the operation does not begin.
  @Test func whatIsTakenTogetherWithAnAsynchronousOperationWaitsForIt() {
    ModelExplorer("permits: async, an asynchronous operation among others, resume | finish").exploreQueue(preemptions: 1) { run, scene in
      let operation = Asynchronous(scene)
      scene.queue.isSuspended = true
      scene.add()
      scene.queue.addOperation(operation)
      for _ in 0..<2 * Processors.count { scene.addOneThatStays() }
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("finisher", { operation.finishWhenItHasBegun() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2 + 2 * Processors.count, atOnce: 1)
    }
  }

  /// Its start returns when what comes behind it has run.
  private final class Starting: OwnedOperation, @unchecked Sendable {  // constants
    let (hasBegun, mayReturn) = (Semaphore(), Semaphore())
    private let bodies: Bodies

    init(_ scene: QueueScene) {
      bodies = scene.bodies
      super.init(lifetime: scene.lifetime)
    }

    override var isAsynchronous: Bool { true }

    override func perform() {
      bodies.run()
      hasBegun.signal()
      mayReturn.wait()
    }
  }

  @Test func anOperationIsFinishedWhileItsStartGoesOn() {
    let name = "an asynchronous operation, whose start waits for the next, async, resume | finish"
    ModelExplorer("permits: \(name)").exploreQueue(preemptions: 1, reduces: true, deeper: nil) { run, scene in
      let operation = Starting(scene)
      scene.queue.isSuspended = true
      scene.queue.addOperation(operation)
      scene.queue.async(lifetime: scene.lifetime) {
        scene.bodies.run()
        operation.mayReturn.signal()
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "finisher",
          {
            operation.hasBegun.wait()
            operation.finish()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  // MARK: Tasks

  /// Of an operation in a scheduler, with a wait of its task that others look at.
  @Test func aWaitOfATaskYieldsOnce() {
    ModelExplorer("permits: look | look | end").expectNothing(preemptions: 3) { run in
      let lifetime = OwnerLifetime()
      let scheduler = ModelScheduler()
      let operation = ModelTaskOperation(lifetime: lifetime) {}
      let awaited = OwnedBlockOperation(lifetime: lifetime) {}
      _ = operation.attach(to: scheduler)
      // What it waits for is in no scheduler yet: nothing is yielded.
      let started = OperationTask.$current.withValue(OperationTask(operation)) { OperationTask.beginWait(for: .operation(awaited)) }
      guard let wait = started else { return run.expect(false, "the task of an operation does not wait") }
      _ = awaited.attach(to: scheduler)
      run.concurrently(("one", { wait.look() }), ("two", { wait.look() }), ("end", { wait.endBlocking() }))
      run.expect(scheduler.begins <= 1, "the permit was yielded \(scheduler.begins) times")
      run.expect(scheduler.begins == scheduler.ends, "yielded \(scheduler.begins) times, taken back \(scheduler.ends) times")
      run.expect(!scheduler.endedBeforeItBegan, "taken back before it was yielded")
      operation.cancel()
    }
  }

  @Test func aTaskWaitsForWorkOfItsOwnSerialQueue() {
    ModelExplorer("permits: a task that waits | async").exploreQueue(preemptions: 1) { run, scene in
      let awaited = scene.operationThatStays()
      let operation = ModelTaskOperation(lifetime: scene.lifetime) {
        scene.queue.addOperation(awaited)
        await awaited.finished()
        scene.bodies.runAndStay()
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            scene.wait()
          }
        ), ("other", { scene.addOneThatStays() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  /// What it waits for is in another queue, and waits for work that comes to the task's own queue later. Of that nobody tells.
  @Test func aTaskLooksAgainAtWhatItWaitsFor() {
    ModelExplorer("permits: a task that waits for another queue | add what that waits for", timePasses: true).exploreQueue(preemptions: 0) {
      run, scene in
      let other = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      let (awaited, behind) = (scene.operation(), scene.operation())
      awaited.addDependency(behind)
      other.addOperation(awaited)
      let operation = ModelTaskOperation(lifetime: scene.lifetime) {
        await awaited.finished()
        scene.bodies.runAndStay()
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            Platform.sleep(microseconds: 60_000)  // it has looked, and looked again
            scene.queue.addOperation(behind)
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func twoPartsOfATaskWait() {
    ModelExplorer("permits: a task that waits twice").exploreQueue(preemptions: 1) { run, scene in
      let (first, second) = (scene.operationThatStays(), scene.operationThatStays())
      let operation = ModelTaskOperation(lifetime: scene.lifetime) {
        scene.queue.addOperation(first)
        scene.queue.addOperation(second)
        async let wait: Void = first.finished()
        await second.finished()
        await wait
        scene.bodies.runAndStay()
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            scene.wait()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func aTaskThatIsCancelledGoesOnWithoutAPermit() {
    // The job must begin before the task is back: in one of some 150 schedules.
    ModelExplorer("permits: a task whose wait is over | cancel").exploreQueue(preemptions: 1, deeper: nil, random: 5) { run, scene in
      let (hasBegun, isOver, mayEnd) = (Semaphore(), Semaphore(), Semaphore())
      let awaited = scene.operation()
      let operation = ModelTaskOperation(lifetime: scene.lifetime) {
        scene.queue.addOperation(awaited)
        scene.queue.async(lifetime: scene.lifetime) { mayEnd.wait() }  // has the permit until the task is over
        hasBegun.signal()
        await awaited.finished()
        isOver.signal()
      }
      run.concurrently(
        ("adder", { scene.queue.addOperation(operation) }),
        (
          "cancel",
          {
            hasBegun.wait()
            operation.cancel()
            isOver.wait()
            mayEnd.signal()
          }
        ))
    } atEnd: { run, scene in
      run.expect(scene.queue.shows { $0.yielded == 0 && $0.detached == 0 }, "a permit is left with nobody")
    }
  }

  @Test func aTaskWaitsForItsQueueWhileTheOwnerEnds() {
    ModelExplorer("permits: a task that waits for its queue | end").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let other = OwnerLifetime()
      let operation = ModelTaskOperation(lifetime: scene.lifetime) {
        scene.queue.async(lifetime: other) { scene.bodies.runAndStay() }
        await scene.queue.finished(ownedBy: other)
        scene.bodies.stay()
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            scene.wait()
          }
        ), ("end", { other.end() }))
      run.expect(operation.isFinished, "it has not finished")
    } atEnd: { run, scene in
      scene.expect(run, runs: scene.bodies.runs, atOnce: 1)
      run.expect(scene.bodies.runs <= 1, "\(scene.bodies.runs) bodies ran")
    }
  }
}
