import Foundation
import Testing

@testable import OwnedOperations

/// Jobs that add jobs to their own queue, which their worker keeps for itself.
@Suite(.serialized) struct NestedWorkModelTests {
  /// A job that adds two, one of which adds another; and what somebody else does, who knows when the first has begun.
  private static func exploreFamily(
    _ name: String, limit: Int = 1, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation,
    _ other: @escaping @Sendable (ModelRun, QueueScene) -> Void, atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void
  ) {
    ModelExplorer("nested: \(name)").exploreQueue(limit: limit, preemptions: preemptions, reduces: true, location) { run, scene in
      // So that it is known how long a job takes.
      scene.addAndWait(1)
      let hasBegun = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              hasBegun.signal()
              scene.queue.async(lifetime: scene.lifetime) {
                scene.bodies.runAndStay()
                scene.add()
              }
              scene.add()
            }
          }
        ),
        (
          "other",
          {
            hasBegun.wait()
            other(run, scene)
          }
        ))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
      look(run, scene)
    }
  }

  @Test func whoWaitsForTheQueueWaitsForWhatItsJobsAdd() {
    Self.exploreFamily("async, async within | wait") { run, scene in
      scene.wait()
      run.expect(scene.bodies.runs == 5, "the wait was over when \(scene.bodies.runs) of 5 bodies had run")
    } atEnd: { run, scene in
      scene.expect(run, runs: 5, atOnce: 1)
    }
  }

  /// Each job adds the next one, so nothing but that is kept when the wait looks.
  @Test func whoWaitsForAChainWaitsForItsLastJob() {
    ModelExplorer("nested: async, which adds one, which adds one | wait").exploreQueue(preemptions: 3, reduces: true) { run, scene in
      scene.addAndWait(1)
      let hasBegun = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              hasBegun.signal()
              scene.queue.async(lifetime: scene.lifetime) {
                scene.bodies.run()
                scene.add()
              }
            }
          }
        ),
        (
          "other",
          {
            hasBegun.wait()
            scene.wait()
            run.expect(scene.bodies.runs == 4, "the wait was over when \(scene.bodies.runs) of 4 bodies had run")
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 4, atOnce: 1)
      scene.expectStatistics(run)
    }
  }

  @Test func whoWaitsForTheOwnerWaitsForWhatItsJobsAdd() {
    Self.exploreFamily("async, async within | wait for the owner") { run, scene in
      scene.queue.waitUntilFinished(ownedBy: scene.lifetime)
      run.expect(scene.bodies.runs == 5, "the wait was over when \(scene.bodies.runs) of 5 bodies had run")
    } atEnd: { run, scene in
      scene.expect(run, runs: 5, atOnce: 1)
    }
  }

  @Test func severalWorkersRunWhatJobsAdd() {
    Self.exploreFamily("async, async within | wait, no limit", limit: -1, preemptions: 1) { run, scene in
      scene.wait()
      run.expect(scene.bodies.runs == 5, "the wait was over when \(scene.bodies.runs) of 5 bodies had run")
    } atEnd: { run, scene in
      scene.expect(run, runs: 5)
    }
  }

  @Test func nothingThatIsKeptBeginsAfterTheEnd() {
    Self.exploreFamily("async, async within | end") { _, scene in
      scene.end()
    } atEnd: { run, scene in
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) jobs began after the end")
    }
  }

  @Test func nothingThatIsKeptBeginsAfterItWasCancelled() {
    Self.exploreKept("cancel all") { $0.queue.cancelAllOperations() }
  }

  @Test func nothingThatIsKeptBeginsAfterItsOwnersWorkWasCancelled() {
    Self.exploreKept("cancel the owner's work") { $0.queue.cancelOperations(ownedBy: $0.lifetime) }
  }

  /// A job that adds three; and what keeps them from beginning. One may have been under way.
  private static func exploreKept(
    _ name: String, timePasses: Bool = false, _ location: SourceLocation = #_sourceLocation,
    _ stop: @escaping @Sendable (QueueScene) -> Void, atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void = { _, _ in }
  ) {
    ModelExplorer("nested: async, async within | \(name)", timePasses: timePasses).exploreQueue(preemptions: 2, reduces: true, location) {
      run, scene in
      let hasBegun = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              for _ in 0..<3 { scene.add() }
              hasBegun.signal()
            }
          }
        ),
        (
          "other",
          {
            hasBegun.wait()
            stop(scene)
            scene.bodies.hasEnded = !timePasses
          }
        ))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) bodies began too late")
      look(run, scene)
    }
  }

  @Test func nothingThatIsKeptBeginsWhileTheQueueIsSuspended() {
    Self.exploreSuspension("suspend, resume") { $0.queue.isSuspended = $1 }
  }

  @Test func nothingThatIsKeptBeginsWhileItsOwnerIsSuspended() {
    Self.exploreSuspension("suspend the owner, resume it") { $0.queue.setSuspended($1, ownedBy: $0.lifetime) }
  }

  private static func exploreSuspension(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ suspend: @escaping @Sendable (QueueScene, Bool) -> Void
  ) {
    exploreKept(name, timePasses: true, location) { scene in
      scene.suspend {
        suspend(scene, true)
      } resume: {
        suspend(scene, false)
      }
    } atEnd: { run, scene in
      scene.expect(run, runs: 4)
    }
  }

  // MARK: Order

  /// A job adds one before somebody else adds another, or nothing; and one after that.
  private static func exploreOrder(
    _ name: String, addsFirst: Bool = true, _ location: SourceLocation = #_sourceLocation,
    _ add: @escaping @Sendable (QueueScene, @escaping @Sendable () -> Void) -> Void
  ) {
    ModelExplorer("nested: \(name)").exploreQueue(preemptions: 1, reduces: true, location) { run, scene in
      let (isFirstAdded, isOtherAdded) = (Semaphore(), Semaphore())
      let order = ModelFlag()
      // Its worker takes the job: one that was handed over would be taken back when somebody adds.
      scene.queue.isSuspended = true
      scene.queue.async(lifetime: scene.lifetime) {
        if addsFirst { scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + 1 } }
        isFirstAdded.signal()
        isOtherAdded.wait()
        scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + 3 }
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "other",
          {
            isFirstAdded.wait()
            add(scene) { order.count = order.count * 10 + 2 }
            isOtherAdded.signal()
          }
        ))
      scene.wait()
      run.expect(order.count == (addsFirst ? 123 : 23), "they ran in the order \(order.count)")
    } atEnd: { _, _ in
    }
  }

  private static func name(_ other: String, _ addsFirst: Bool) -> String {
    addsFirst ? "async, async within, twice | \(other) in between" : "async, async within | \(other) before it"
  }

  @Test func whatOthersAddKeepsItsPlace() {
    for addsFirst in [true, false] {
      Self.exploreOrder(Self.name("async", addsFirst), addsFirst: addsFirst) {
        $0.queue.async(lifetime: OwnerLifetime.process, execute: $1)
      }
    }
  }

  @Test func whatOthersAddForTheSameOwnerKeepsItsPlace() {
    for addsFirst in [true, false] {
      Self.exploreOrder(Self.name("async of the same owner", addsFirst), addsFirst: addsFirst) {
        $0.queue.async(lifetime: $0.lifetime, execute: $1)
      }
    }
  }

  /// Somebody else takes in what is kept, in the middle of it.
  @Test func whatAJobAddsKeepsItsOrder() {
    let name = "async, async within, twice | async of another owner at any time"
    ModelExplorer("nested: \(name)").exploreQueue(preemptions: 2, reduces: true) { run, scene in
      let hasBegun = Semaphore()
      let order = ModelFlag()
      scene.queue.isSuspended = true
      scene.queue.async(lifetime: scene.lifetime) {
        hasBegun.signal()
        scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + 1 }
        scene.queue.async(lifetime: scene.lifetime) { order.count = order.count * 10 + 2 }
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "other",
          {
            hasBegun.wait()
            scene.queue.async(lifetime: OwnerLifetime.process) {}
          }
        ))
      scene.wait()
      run.expect(order.count == 12, "they ran in the order \(order.count)")
    } atEnd: { _, _ in
    }
  }

  /// Without a limit, and if nobody looks: in the order of calls.
  @Test func whatAJobAddsComesBeforeItsYoungerSiblings() {
    ModelExplorer("nested: async, which adds two, each of which adds two, no limit").exploreQueue(limit: -1, preemptions: 2, reduces: true)
    {
      run, scene in
      // Nobody sends for another worker.
      scene.addAndWait(1)
      scene.queue.setItemTime(100)
      let (order, isOver) = (ModelFlag(), Semaphore())
      @Sendable func add(_ number: Int) {
        scene.queue.async(lifetime: scene.lifetime) {
          order.count = order.count * 10 + number
          if number < 3 { for child in 1...2 { add(number * 2 + child) } }
          if number == 6 { isOver.signal() }
        }
      }
      scene.queue.isSuspended = true
      scene.queue.async(lifetime: scene.lifetime) { for number in 1...2 { add(number) } }
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("other", { isOver.wait() }))
      run.expect(order.count == 134_256, "they ran in the order \(order.count)")
      scene.wait()
    } atEnd: { _, _ in
    }
  }

  /// Two workers, each of which finds enough to do without what the other has kept.
  @Test func whatAWorkerLeavesToAnotherIsCounted() {
    // Random schedules find its defect, one in several hundred.
    ModelExplorer("nested: async of three, each of which adds one and counts | wait, no limit").exploreQueue(
      limit: -1, preemptions: 1, reduces: true, random: 8
    ) { run, scene in
      scene.addAndWait(1)
      scene.queue.setItemTime(10_000)
      scene.queue.isSuspended = true
      for _ in 0..<3 {
        scene.queue.async(lifetime: scene.lifetime) {
          scene.bodies.run()
          scene.add()
          let enqueued = scene.queue.statistics.enqueued
          run.expect(enqueued >= 5, "\(enqueued) jobs are counted as added")
        }
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "wait",
          {
            scene.wait()
            run.expect(scene.bodies.runs == 7, "the wait was over when \(scene.bodies.runs) of 7 bodies had run")
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 7)
      scene.expectStatistics(run)
    }
  }

  /// Somebody else takes in a list that has several groups.
  @Test func aDeepListIsTakenInWhole() {
    ModelExplorer("nested: async, which adds two, the first of which adds two | async of another owner, no limit").exploreQueue(
      limit: -1, preemptions: 2, reduces: true
    ) { run, scene in
      scene.addAndWait(1)
      scene.queue.setItemTime(100)
      scene.queue.isSuspended = true
      let hasBegun = Semaphore()
      scene.queue.async(lifetime: scene.lifetime) {
        scene.bodies.run()
        scene.queue.async(lifetime: scene.lifetime) {
          scene.bodies.run()
          scene.add()
          hasBegun.signal()
          scene.add()
        }
        scene.add()
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "other",
          {
            hasBegun.wait()
            scene.queue.async(lifetime: OwnerLifetime.process) { scene.bodies.run() }
          }
        ))
      scene.wait()
      run.expect(scene.bodies.runs == 7, "the wait was over when \(scene.bodies.runs) of 7 bodies had run")
    } atEnd: { run, scene in
      scene.expectStatistics(run)
    }
  }

  @Test func aBarrierComesBetweenWhatAJobAddsBeforeItAndAfterIt() {
    for addsFirst in [true, false] {
      Self.exploreOrder(Self.name("barrier", addsFirst), addsFirst: addsFirst) { $0.queue.addBarrierBlock($1) }
    }
  }

  /// What is added after older work of the owner has been held back does not begin before that, so its worker keeps none of it.
  @Test func nothingIsKeptBehindWhatIsHeldBack() {
    ModelExplorer("nested: async, hold back, async within").exploreQueue(preemptions: 1, reduces: true) { run, scene in
      scene.queue.isSuspended = true
      scene.queue.async(lifetime: scene.lifetime) {
        guard let worker = Worker.current, let ownerQueue = worker.currentOwnerQueue else { return run.expect(false, "no worker runs it") }
        scene.bodies.run()
        scene.queue.core.note { scheduler in
          scheduler.holdBack(ownerQueue)
          ownerQueue.isHeldBack = false  // nothing waits that would be told
        }
        scene.add()
        run.expect(worker.batch.nested.isEmpty, "it was kept")
      }
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("wait", { scene.wait() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
      scene.expectStatistics(run)
    }
  }

  /// The same, as it comes about: a second worker finds that only a body holds the owner, while that body adds more.
  @Test func nothingIsKeptBehindWhatAnotherWorkerHoldsBack() {
    ModelExplorer("nested: async, async within | another worker holds back, no limit").exploreQueue(
      limit: -1, preemptions: 1, reduces: true
    ) { run, scene in
      let holder = Holder(Owner())
      scene.addAndWait(1)
      // Jobs are quick enough to be kept, and two are worth another worker.
      scene.queue.setItemTime(10_000)
      scene.queue.isSuspended = true
      scene.queue.async(owner: holder.object!) { owner in
        holder.object = nil
        scene.bodies.run()
        scene.bodies.pass()
        for _ in 0..<2 {
          let isHeldBack = scene.queue.holdsWorkBack
          scene.queue.async(owner: owner) { _ in scene.bodies.run() }
          run.expect(!isHeldBack || Worker.current?.batch.nested.isEmpty ?? true, "it was kept behind what is held back")
        }
      }
      scene.queue.async(owner: holder.object!) { _ in scene.bodies.runAndStay() }
      scene.add()
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("wait", { scene.wait() }))
    } atEnd: { run, scene in
      DeferredReleases.waitUntilIdle()
      scene.expectStatistics(run)
    }
  }

  // MARK: Waits and blocked bodies

  /// The body waits for what it has added.
  @Test func aBodyWaitsForWhatItHasAdded() {
    ModelExplorer("nested: async, which adds two and waits for its owner's work").exploreQueue(preemptions: 2, reduces: true) {
      run, scene in
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              scene.add()
              scene.add()
              scene.queue.waitUntilFinished(ownedBy: scene.lifetime)
              run.expect(scene.bodies.runs == 3, "the wait was over when \(scene.bodies.runs) of 3 bodies had run")
              scene.add()
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 4)
      scene.expectStatistics(run)
    }
  }

  /// The queue does not know of the wait: the monitor finds it.
  @Test func aBodyBlocksUntilWhatItHasAddedHasRun() {
    ModelExplorer("nested: async, which blocks until what it has added has run, no limit", timePasses: true).exploreQueue(
      limit: -1, preemptions: 2, reduces: true
    ) { run, scene in
      scene.addAndWait(1)
      let isOver = Semaphore()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              scene.queue.async(lifetime: scene.lifetime) {
                scene.bodies.run()
                isOver.signal()
              }
              isOver.wait()
              scene.add()
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 4)
      scene.expectStatistics(run)
    }
  }

  private final class Waiting: Sendable {
    let hasRun = Semaphore()
    deinit { hasRun.wait() }
  }

  /// On a serial queue: no body waits.
  @Test func aDeinitBlocksUntilWhatItsJobHasAddedHasRun() {
    ModelExplorer("nested: async, whose captures block until what it has added has run", timePasses: true).exploreQueue(
      preemptions: 2, reduces: true
    ) { run, scene in
      scene.addAndWait(1)
      run.concurrently(
        (
          "adder",
          {
            let captured = Waiting()
            let hasRun = captured.hasRun
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              withExtendedLifetime(captured) {}
              scene.queue.async(lifetime: scene.lifetime) {
                scene.bodies.run()
                hasRun.signal()
              }
            }
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3)
      scene.expectStatistics(run)
    }
  }

  /// The deinit blocks until somebody else lets it go on, while the owner ends.
  @Test func theOwnerEndsWhileADeinitBlocksAfterTheBody() {
    ModelExplorer("nested: async, whose captures block | end, let them go on", timePasses: true).exploreQueue(
      preemptions: 2, reduces: true
    ) { run, scene in
      let hasBegun = Semaphore()
      let captured = Holder(Waiting())
      let mayGoOn = captured.object?.hasRun
      run.concurrently(
        (
          "adder",
          {
            guard let object = captured.object else { return }
            captured.object = nil
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              withExtendedLifetime(object) {}
              scene.add()
              hasBegun.signal()
            }
          }
        ),
        (
          "other",
          {
            hasBegun.wait()
            scene.end()
            Platform.sleep(microseconds: 1)
            mayGoOn?.signal()
          }
        ))
    } atEnd: { run, scene in
      scene.expectStatistics(run)
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) bodies began too late")
    }
  }

  // MARK: Owners that only their bodies hold

  private final class Owner: OperationOwner, Sendable { let lifetimeToken = OwnerLifetime.Token() }

  @Test func theLastReferenceGoesWhileSomethingIsKept() {
    ModelExplorer("nested: async, which adds two and lets go of its owner | let go").exploreQueue(preemptions: 2, reduces: true) {
      run, scene in
      let (inside, outside) = (Holder(Owner()), Holder(Owner()))
      outside.object = inside.object
      run.concurrently(
        (
          "adder",
          {
            guard let owner = inside.object else { return }
            scene.queue.async(owner: owner) { owner in
              scene.bodies.run()
              for _ in 0..<2 { scene.queue.async(owner: owner) { _ in scene.bodies.run() } }
              inside.object = nil
            }
          }
        ), ("other", { outside.object = nil }))
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs <= 3, "\(scene.bodies.runs) bodies ran")
      scene.expectStatistics(run)
    }
  }
}
