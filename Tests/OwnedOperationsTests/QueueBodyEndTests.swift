import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// What a worker's item counts as when its body ends, or something else does that the body ends.
@Suite struct QueueBodyEndTests {
  private let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)

  // MARK: Runs that end inside of other bodies

  @Test func aJobThatCancelsARunIsCounted() {
    queue.async(lifetime: .forTests) { [queue] in
      let graph = OperationGraph(lifetime: .forTests)
      _ = graph.node {}
      (try? graph.run(on: queue))?.cancel()
    }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.succeeded == 1)
  }

  @Test func aBarrierThatCancelsARunIsCounted() {
    let gate = Gate()
    queue.addBarrierBlock { [queue] in
      let graph = OperationGraph(lifetime: .forTests)
      _ = graph.node {}
      (try? graph.run(on: queue))?.cancel()
      gate.pass()
    }
    #expect(gate.hasBegun())
    queue.lookAtWorkers(times: 3)
    #expect(queue.snapshot.yielded == 0)
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func aJobThatRunsAnEmptyGraphIsCounted() {
    queue.async(lifetime: .forTests) { _ = try? OperationGraph(lifetime: .forTests).run(on: OwnerScopedQueue()) }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.succeeded == 1)
  }

  @Test func aNodeThatRunsAnotherGraphKeepsItsPermit() throws {
    let gate = Gate()
    let graph = OperationGraph(lifetime: .forTests)
    _ = graph.node { [queue] in
      _ = try OperationGraph(lifetime: .forTests).run(on: queue)
      gate.pass()
    }
    let run = try graph.run(on: queue)
    #expect(gate.hasBegun())
    queue.lookAtWorkers(times: 3)
    #expect(queue.snapshot.yielded == 0)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(run.nodeCounts.succeeded == 1)
  }

  @Test func aBlockedJobThatHasRunAnEmptyGraphKeepsItsPermit() {
    let gate = Gate()
    queue.async(lifetime: .forTests) { [queue] in
      _ = try? OperationGraph(lifetime: .forTests).run(on: queue)
      gate.pass()
    }
    #expect(gate.hasBegun())
    queue.lookAtWorkers(times: 3)
    #expect(queue.snapshot.yielded == 0)
    gate.open()
    #expect(queue.becomesIdle())
  }

  // MARK: Operations that are finished from elsewhere, while the worker is still in their `perform`

  private final class ByHand: OwnedOperation, @unchecked Sendable {  // a constant
    private let body: @Sendable () -> Void

    init(_ lifetime: OwnerLifetime = .forTests, _ body: @escaping @Sendable () -> Void) {
      self.body = body
      super.init(lifetime: lifetime)
    }

    override var isAsynchronous: Bool { true }
    override func perform() throws { body() }
  }

  @Test func anOperationThatWasFinishedFromElsewhereHoldsNoPermit() {
    let gate = Gate()
    let operation = ByHand { gate.pass() }
    queue.addOperation(operation)
    #expect(gate.hasBegun())
    operation.finish()
    let next = Event()
    queue.async(lifetime: .forTests) { next.happen() }
    #expect(next.happens())
    gate.open()
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.activeWorkers == 0 && $0.yielded == 0 } })
  }

  @Test func anOperationThatWasFinishedFromElsewhereAndWaitsHoldsNoPermit() {
    let late = OwnedBlockOperation(lifetime: .forTests) {}
    let operation = ByHand { late.waitUntilFinished() }
    queue.addOperation(operation)
    #expect(eventually { late.lock.withLock { late.extras?.waiters.isEmpty == false } })
    operation.finish()
    queue.addOperation(late)
    #expect(eventually { late.isFinished })
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.activeWorkers == 0 && $0.yielded == 0 } })
  }

  @Test func aBarrierDoesNotWaitForAnOperationThatWasFinishedInAWaitForItsQueue() {
    let gate = Gate()
    let behind = OwnedBlockOperation(lifetime: .forTests) {}
    let operation = ByHand {
      gate.pass()
      behind.waitUntilFinished()
    }
    queue.addOperation(operation)
    #expect(gate.hasBegun())
    queue.addBarrierBlock {}
    queue.addOperation(behind)
    gate.open()
    #expect(eventually { queue.shows { $0.yielded == 1 && $0.waitingWorkers == 1 } })
    operation.finish()
    #expect(eventually { behind.isFinished })
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.activeWorkers == 0 && $0.yielded == 0 } })
  }

  /// Not finished; the question may be held up.
  private final class SlowToAnswer: Operation, @unchecked Sendable {  // constants
    let gate = Gate()
    let isArmed = Atomic<Bool>(false)

    override var isFinished: Bool {
      if Worker.current != nil, isArmed.exchange(false, ordering: .acquiringAndReleasing) { gate.pass() }
      return super.isFinished
    }
  }

  @Test func anOperationIsFinishedWhileItsWorkerAsksWhatItIsAboutToWaitFor() {
    let lifetime = OwnerLifetime()
    let (plain, near) = (SlowToAnswer(), OwnedBlockOperation(lifetime: .forTests) {})
    plain.addDependency(near)
    let awaited = OwnedBlockOperation(lifetime: .forTests) {}
    awaited.addDependency(plain)
    let begun = Gate()
    let operation = ByHand(lifetime) {
      begun.pass()
      awaited.waitUntilFinished()
    }
    queue.addOperation(operation)
    #expect(begun.hasBegun())
    queue.addOperation(near)
    plain.isArmed.store(true, ordering: .releasing)
    begun.open()
    #expect(plain.gate.hasBegun())
    operation.finish()
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(queue.operationCount(ownedBy: lifetime) == 0)
    plain.gate.open()
    let plainQueue = OperationQueue()
    plainQueue.addOperation(plain)
    queue.addOperation(awaited)
    #expect(eventually { awaited.isFinished })
    #expect(queue.becomesIdle())
    #expect(eventually { queue.shows { $0.activeWorkers == 0 && $0.yielded == 0 } })
  }

  @Test func theWaitOfAnOperationThatWasFinishedFromElsewhereStandsForNothing() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let gate = Gate()
    queue.async(lifetime: .forTests) { gate.pass() }
    #expect(gate.hasBegun())
    let isOver = Event()
    let operation = ByHand {
      queue.waitUntilAllOperationsAreFinished()
      isOver.happen()
    }
    queue.addOperation(operation)
    #expect(eventually { queue.shows { $0.waits == 1 && $0.waitingWorkers == 1 } })
    operation.finish()
    #expect(queue.snapshot.waits == 1)
    gate.open()
    #expect(isOver.happens())
    #expect(queue.becomesIdle())
  }

  // MARK: Workers outside of bodies

  /// A worker has put back the job that was handed to it, because only a body of its owner held the owner. That body has ended meanwhile,
  /// so the worker runs the owner's deinit, which waits for work of the queue.
  @Test func theDeinitOfAnOwnerWhoseHandedJobWasHeldBackMayWaitForTheQueue() {
    let underlying = DispatchQueue(label: "underlying", attributes: .concurrent)
    let (queue, other) = (OwnerScopedQueue(underlyingQueue: underlying), OwnerScopedQueue())
    let isOver = Event()
    let (gate, hasHandedOn) = (Gate(), Gate())
    do {
      let owner = DeinitProbe {
        let operation = OwnedBlockOperation(lifetime: .forTests) {}
        queue.addOperation(operation)
        operation.waitUntilFinished()
        isOver.happen()
      }
      other.async(owner: owner) { owner in
        gate.pass()
        queue.async(owner: owner) { _ in }
        hasHandedOn.pass()
      }
      #expect(gate.hasBegun())
    }
    underlying.suspend()
    gate.open()
    #expect(hasHandedOn.hasBegun())
    queue.whileLocked { isAwaited in
      underlying.resume()
      // The worker finds that it can't begin the job, and comes to the lock to put it back.
      #expect(eventually(isAwaited))
      hasHandedOn.open()
      #expect(other.becomesIdle())
    }
    #expect(isOver.happens())
    #expect(queue.becomesIdle())
  }

  // MARK: Code of the user's that is no body, and blocks

  private final class Host: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let deinitProbe: @Sendable () -> Void
    init(_ deinitProbe: @escaping @Sendable () -> Void) { self.deinitProbe = deinitProbe }
    deinit { deinitProbe() }
  }

  private func expectNextRuns(_ inUsersCode: DispatchSemaphore, _ release: DispatchSemaphore) {
    #expect(inUsersCode.waitUntilSignalled())
    let ran = DispatchSemaphore(value: 0)
    queue.addOperation { ran.signal() }
    #expect(ran.waitUntilSignalled())
    release.signal()
    #expect(queue.becomesIdle())
  }

  @Test(arguments: ["job", "operation", "node"]) func theDeinitAfterTheLastBodyHoldsNoPermit(form: String) throws {
    let (inDeinit, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let gate = Gate()
    let graph = OperationGraph(lifetime: OwnerLifetime())
    do {
      let host = Host {
        inDeinit.signal()
        release.wait()
      }
      switch form {
      case "job": queue.async(owner: host) { _ in gate.pass() }
      case "operation": queue.addOperation(owner: host) { _ in gate.pass() }
      default:
        graph.node(owner: host) { _ in gate.pass() }
        try graph.run(on: queue)
      }
      #expect(gate.hasBegun())
    }
    gate.open()
    expectNextRuns(inDeinit, release)
  }

  @Test func anObserverHoldsNoPermit() {
    let (inObserver, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let operation = OwnedBlockOperation(lifetime: .process) {}
    let observation = operation.observe(\.state) { operation, _ in
      guard operation.state == .finished else { return }
      inObserver.signal()
      release.wait()
    }
    queue.addOperation(operation)
    expectNextRuns(inObserver, release)
    withExtendedLifetime(observation) {}
  }
}
