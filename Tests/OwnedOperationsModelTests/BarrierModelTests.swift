import Testing

@testable import OwnedOperations

/// Barriers, and what comes before and after them.
@Suite(.serialized) struct BarrierModelTests {
  @Test func aBarrierComesAfterWhatWasBeforeIt() {
    ModelExplorer("queue: async, barrier, async | async").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      run.concurrently(
        (
          "adder",
          {
            let (before, barrier) = (ModelFlag(), ModelFlag())
            scene.queue.async(lifetime: scene.lifetime) {
              scene.bodies.run()
              before.isSet = true
            }
            scene.queue.addBarrierBlock {
              run.expect(before.isSet, "the barrier began before what it comes after was over")
              barrier.isSet = true
            }
            scene.queue.async(lifetime: scene.lifetime) {
              run.expect(barrier.isSet, "what comes after the barrier began before it was over")
              scene.bodies.run()
            }
            scene.wait()
          }
        ), ("other", { scene.add() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3)
    }
  }

  @Test func aBarrierOfAnOwnerThatEndsLetsTheOthersGoOn() {
    ModelExplorer("queue: async, addBarrier, async, wait | end").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      let owner = OwnerLifetime()
      let barrier = ModelFlag()
      run.concurrently(
        (
          "adder",
          {
            scene.addOneThatStays()
            scene.queue.addBarrier(lifetime: owner) {
              run.expect(scene.bodies.runs == 1 && scene.bodies.inside == 0, "the barrier is not alone")
              barrier.isSet = true
              scene.bodies.stay()
              barrier.isSet = false
            }
            scene.queue.async(lifetime: scene.lifetime) {
              run.expect(!barrier.isSet, "it began in the barrier")
              scene.bodies.run()
            }
            scene.wait()
          }
        ), ("end", { owner.end() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  /// Two owners', which share a phase.
  @Test func barriersInARowRunOneAtATime() {
    ModelExplorer("queue: addBarrier, addBarrier of another, async, wait | async").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      let owner = OwnerLifetime()
      let (first, second) = (ModelFlag(), ModelFlag())
      scene.queue.addBarrier(lifetime: scene.lifetime) {
        scene.bodies.runAndStay()
        first.isSet = true
      }
      scene.queue.addBarrier(lifetime: owner) {
        run.expect(first.isSet && scene.bodies.inside == 0, "it began beside the first")
        scene.bodies.runAndStay()
        second.isSet = true
      }
      run.concurrently(
        (
          "adder",
          {
            scene.queue.async(lifetime: scene.lifetime) {
              run.expect(second.isSet, "it began before the barriers were over")
              scene.bodies.run()
            }
            scene.wait()
          }
        ), ("other", { scene.add() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 4, atOnce: 1)
    }
  }

  /// One worker has taken both.
  @Test func theOwnerOfTheNextBarrierEnds() {
    ModelExplorer("queue: addBarrier, addBarrier of another, addBarrier, resume | end the other").exploreQueue(preemptions: 1) {
      run, scene in
      let owner = OwnerLifetime()
      let order = ModelFlag()
      scene.queue.isSuspended = true
      for number in 0..<2 {
        scene.queue.addBarrier(lifetime: scene.lifetime) {
          run.expect(order.count == number, "the order is another")
          order.count += 1
          scene.bodies.runAndStay()
        }
        if number == 0 { scene.queue.addBarrier(lifetime: owner) { scene.bodies.stay() } }
      }
      run.concurrently(("resume", { scene.queue.isSuspended = false }), ("end", { owner.end() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }

  /// A worker has taken what comes before the one that is held up, and gives it back, or loses it.
  @Test func barriersBeforeThatOfASuspendedOwnerAreGivenBack() {
    ModelExplorer("queue: addBarrier, addBarrier, addBarrier of a suspended owner in hand: give back, resume | limit 2")
      .exploreQueue(preemptions: 1) { run, scene in
        let owner = OwnerLifetime()
        scene.queue.isSuspended = true
        scene.queue.setSuspended(true, ownedBy: owner)
        for _ in 0..<2 { scene.queue.addBarrier(lifetime: scene.lifetime) { scene.bodies.runAndStay() } }
        scene.queue.addBarrier(lifetime: owner) { run.expect(scene.bodies.runs == 2, "it began before the others") }
        let taken = scene.queue.take(3)
        run.expect(taken.count == 2, "it has taken \(taken.count)")
        run.concurrently(
          (
            "worker",
            {
              scene.queue.giveBack(taken)
              scene.queue.isSuspended = false
            }
          ), ("limit", { scene.queue.maxConcurrentOperationCount = 2 }))
        run.wait("the others") { scene.bodies.runs == 2 }
        scene.queue.setSuspended(false, ownedBy: owner)
      } atEnd: { run, scene in
        scene.expect(run, runs: 2, atOnce: 1)
      }
  }

  @Test func aSuspendedOwnersBarrierHoldsUpTheNext() {
    ModelExplorer("queue: addBarrier of a suspended owner, addBarrier | resume the owner | suspend it, resume it")
      .exploreQueue(limit: 2, preemptions: 1) { run, scene in
        let owner = OwnerLifetime()
        let first = ModelFlag()
        scene.queue.setSuspended(true, ownedBy: owner)
        run.concurrently(
          (
            "adder",
            {
              scene.queue.addBarrier(lifetime: owner) {
                scene.bodies.runAndStay()
                first.isSet = true
              }
              scene.queue.addBarrier(lifetime: scene.lifetime) {
                run.expect(first.isSet, "it began before the first")
                scene.bodies.runAndStay()
              }
            }
          ), ("resume", { scene.queue.setSuspended(false, ownedBy: owner) }),
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
}
