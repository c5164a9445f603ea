import Foundation
import Testing

@testable import OwnedOperations

/// Two things at once, one of them held up at the worst moment.
@Suite struct QueueGatedRaceTests {
  /// Is asked by the worker that has claimed it, just before the start; the first question can be held up.
  private final class Questioned: OwnedOperation, @unchecked Sendable {  // constants
    let gate = Gate()
    let performs = Counter()
    let isInQuestion = Mutexed(true)

    override var isReady: Bool {
      if isInQuestion.value, Worker.current != nil {
        isInQuestion.value = false
        gate.pass()
      }
      return super.isReady
    }

    override func perform() { performs.add() }
  }

  enum Way: CaseIterable { case end, cancel, cancelOwner, cancelAll }

  /// End against start, and cancel against start.
  @Test(arguments: Way.allCases) func operationThatAWorkerIsAboutToStartIsEndedOrCancelled(way: Way) {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let operation = Questioned(lifetime: lifetime)
    queue.addOperation(operation)
    #expect(operation.gate.hasBegun())
    switch way {
    case .end: lifetime.end()
    case .cancel: operation.cancel()
    case .cancelOwner: queue.cancelOperations(ownedBy: lifetime)
    case .cancelAll: queue.cancelAllOperations()
    }
    #expect(operation.isCancelled)
    operation.gate.open()
    #expect(queue.becomesIdle())
    #expect(operation.isFinished && operation.performs.value == 0)
    let statistics = queue.statistics
    #expect(statistics.enqueued == 1 && statistics.cancelled == 1 && statistics.started == 0)
  }

  /// Last dependency against cancel: the dependency's finish has made the dependent ready, and a worker is about to start it.
  @Test(arguments: [true, false]) func dependentIsCancelledWhenItsLastDependencyHasFinished(isPlain: Bool) {
    let queue = OwnerScopedQueue()
    let first: Operation = isPlain ? BlockOperation {} : OwnedBlockOperation(lifetime: .forTests) {}
    let second = Questioned(lifetime: .forTests)
    second.addDependency(first)
    queue.addOperations([second, first], waitUntilFinished: false)
    #expect(second.gate.hasBegun())
    second.cancel()
    second.gate.open()
    #expect(queue.becomesIdle())
    #expect(first.isFinished && second.isFinished && second.isCancelled && second.performs.value == 0)
  }

  /// The other way round: the cancellation comes while the dependency finishes, before it lets go of its dependents.
  @Test func dependentIsCancelledWhileItsLastDependencyFinishes() {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let first = {
      let deinitProbe = DeinitProbe { gate.pass() }  // goes when the work is released, the first step of a finish
      return OwnedBlockOperation(lifetime: .forTests) { withExtendedLifetime(deinitProbe) {} }
    }()
    let second = OwnedBlockOperation(lifetime: .forTests) { Issue.record("has run") }
    second.addDependency(first)
    queue.addOperations([first, second], waitUntilFinished: false)
    #expect(gate.hasBegun())
    second.cancel()
    #expect(second.isFinished)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(first.outcome?.kind == "succeeded")
    #expect(queue.statistics.cancelled == 1)
  }

  /// Cancel against finish: while the work runs, and when the finish is being told.
  @Test(arguments: [true, false]) func operationIsCancelledAroundItsFinish(isEarly: Bool) {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let completed = DispatchSemaphore(value: 0)
    let operation = OwnedBlockOperation(lifetime: .forTests) { if isEarly { gate.pass() } }
    operation.completionBlock = { completed.signal() }
    let observation = operation.observe(\.isFinished) { _, _ in if !isEarly { gate.pass() } }
    queue.addOperation(operation)
    #expect(gate.hasBegun())
    operation.cancel()
    queue.cancelAllOperations()
    gate.open()
    #expect(queue.becomesIdle())
    #expect(completed.waitUntilSignalled())
    #expect(completed.wait(timeout: .now()) == .timedOut)
    #expect(operation.outcome?.kind == (isEarly ? "cancelled" : "succeeded"))
    let statistics = queue.statistics
    #expect(statistics.started == 1 && statistics.succeeded + statistics.cancelled == 1)
    observation.invalidate()
  }

  /// End against enqueue: what is added after the end never runs, and its captures go, though the queue knows the owner as one that lives.
  @Test(arguments: [true, false]) func workIsAddedBetweenTheEndAndTheNewsOfIt(isKnown: Bool) {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let live = LiveCount()
    LifetimeReaper.hold(lifetime)
    if isKnown {
      queue.async(lifetime: lifetime) {}
      #expect(queue.becomesIdle())
    }
    queue.isSuspended = true
    lifetime.end()
    for _ in 0..<10 {
      let (first, second) = (live.makeMember(), live.makeMember())
      queue.async(lifetime: lifetime) { first.mustNotRun() }
      queue.addOperation(lifetime: lifetime) { second.mustNotRun() }
    }
    LifetimeReaper.resume(lifetime)
    #expect(live.becomesZero())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 20)
  }

  /// A suspension that comes between an owner's end and the news of it does not stay behind.
  @Test func ownerIsSuspendedBetweenItsEndAndTheNewsOfIt() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    LifetimeReaper.hold(lifetime)
    queue.isSuspended = true
    queue.async(lifetime: lifetime) { Issue.record("has run") }
    lifetime.end()
    queue.setSuspended(true, ownedBy: lifetime)
    queue.async(lifetime: lifetime) { Issue.record("has run") }
    LifetimeReaper.resume(lifetime)
    #expect(queue.becomesIdle())
    #expect(queue.snapshot.suspendedOwners == 0)
    #expect(queue.statistics.skippedForEndedOwners == 2)
  }

  /// Barrier against late arrivals: from the last work before it, from the barrier itself, and from others meanwhile.
  @Test func workThatArrivesAroundABarrierComesAfterIt() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 4)
    let journal = Journal<String>()
    let (before, inside) = (Gate(), Gate())
    queue.async(lifetime: .forTests) {
      before.pass()
      queue.async(lifetime: .forTests, priority: .veryHigh) { journal.write("late") }
      journal.write("before")
    }
    #expect(before.hasBegun())
    queue.addBarrierBlock {
      inside.pass()
      queue.addOperation { journal.write("late") }
      journal.write("barrier")
    }
    queue.async(lifetime: .forTests, priority: .veryHigh) { journal.write("late") }
    before.open()
    #expect(inside.hasBegun())
    let urgent = BlockOperation { journal.write("late") }
    urgent.queuePriority = .veryHigh
    queue.addOperation(urgent)
    inside.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["before", "barrier", "late", "late", "late", "late"])
  }

  /// Drop of the queue against finish: the work itself lets go of the last reference.
  @Test func queueIsDroppedByItsOwnWork() {
    let holder = Mutexed<OwnerScopedQueue?>(nil)
    let ran = Counter()
    let gone = {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      holder.value = queue
      return goodbye(of: queue)
    }()
    holder.value?.isSuspended = true
    holder.value?.async(lifetime: .forTests) {
      holder.value?.isSuspended = false
      holder.value = nil
      ran.add()
    }
    holder.value?.addOperation { ran.add() }
    holder.value?.isSuspended = false
    #expect(gone.waitUntilSignalled())
    #expect(ran.value == 2)
  }

  /// Limit raised against the last worker leaving: work is added and the limit lowered to nothing while the only worker is busy, so it
  /// leaves work behind.
  @Test func limitIsRaisedWhenTheLastWorkerHasLeftWorkBehind() {
    let threads = DispatchQueue(label: "threads", attributes: .concurrent)
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1, underlyingQueue: threads)
    let gate = Gate()
    let ran = Counter()
    queue.addOperation { gate.pass() }
    #expect(gate.hasBegun())
    for _ in 0..<3 { queue.addOperation { ran.add() } }
    queue.maxConcurrentOperationCount = 0
    gate.open()
    threads.sync(flags: .barrier) {}  // the worker has left
    #expect(ran.value == 0)
    queue.maxConcurrentOperationCount = 2
    #expect(queue.becomesIdle())
    #expect(ran.value == 3)
  }
}
