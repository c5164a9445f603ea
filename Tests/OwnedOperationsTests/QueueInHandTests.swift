import Foundation
import Testing

@testable import OwnedOperations

/// Work that a worker has in hand and can't run, because only bodies hold its owner.
@Suite struct QueueInHandTests {
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let deinitProbe: DeinitProbe?
    init(_ deinitProbe: DeinitProbe? = nil) { self.deinitProbe = deinitProbe }
  }

  private let owner = Mutexed<Owner?>(Owner())
  private let body = Gate()

  /// From now on a body on another queue alone holds the owner.
  private func leaveOwnerToABody(_ other: OwnerScopedQueue, then end: @escaping @Sendable (Owner) -> Void = { _ in }) {
    other.async(owner: owner.value.unsafelyUnwrapped) { [body] owner in
      body.pass()
      end(owner)
    }
    #expect(body.hasBegun())
    owner.value = nil
  }

  @Test func aJobThatIsCancelledInHandHasNotStarted() {
    let threads = DispatchQueue(label: "threads")
    let (queue, other) = (OwnerScopedQueue(underlyingQueue: threads), OwnerScopedQueue())
    queue.progress.totalUnitCount = 1
    threads.suspend()
    queue.async(owner: owner.value.unsafelyUnwrapped) { _ in Issue.record("has run") }
    leaveOwnerToABody(other)
    // The worker begins, finds out that it can't, and wants the lock to put the job back.
    let ownersWithWork = queue.takeAllWhileLocked { isAwaited in
      threads.resume()
      while !isAwaited() { usleep(100) }
    }
    #expect(ownersWithWork == 0)
    #expect(queue.becomesIdle())
    let statistics = queue.statistics
    #expect(statistics.started == 0 && statistics.cancelled == 1 && statistics.skippedForEndedOwners == 0)
    #expect(queue.progress.completedUnitCount == 0)
    body.open()
    #expect(other.becomesIdle())
  }

  @Test(arguments: [false, true]) func aQueueThatNobodyHoldsRunsWhatItHeldBack(isNode: Bool) throws {
    let (other, kept, hasRun) = (OwnerScopedQueue(), Mutexed<Owner?>(nil), Event())
    let gone = Weakly<OwnerScopedQueue>()
    var queue: OwnerScopedQueue? = OwnerScopedQueue()
    gone.object = queue
    queue?.isSuspended = true
    if isNode {
      let graph = OperationGraph(lifetime: .forTests)
      _ = graph.node(owner: owner.value.unsafelyUnwrapped) { _ in hasRun.happen() }
      if let queue { _ = try graph.run(on: queue) }
    } else {
      queue?.async(owner: owner.value.unsafelyUnwrapped) { _ in hasRun.happen() }
    }
    leaveOwnerToABody(other) { kept.value = $0 }
    queue?.isSuspended = false
    queue = nil
    // Its worker held it until now.
    #expect(eventually { gone.object?.holdsWorkBack ?? true })
    body.open()
    #expect(hasRun.happens())
    #expect(other.becomesIdle())
    kept.value = nil
    #expect(eventually { gone.object == nil })
  }

  /// Drops the last reference to its owner, but that of the worker, and says that it is not ready.
  private final class Reluctant: OwnedOperation, @unchecked Sendable {  // constants
    private let holding: OperationOwnerHold
    private let drop: @Sendable () -> Void
    private let isOpen = Mutexed(false)

    init(_ owner: Owner, _ drop: @escaping @Sendable () -> Void) {
      holding = OperationOwnerHold(owner, owner.lifetime)
      self.drop = drop
      super.init(lifetime: .forTests)
    }

    override var holdsOwner: Bool { true }
    override func beginForOwner() -> OwnerHold? { holding.begin() }
    override func takeOwner() -> Bool { holding.take() }
    override func endForOwner() { holding.endUnlessTaken() }

    override var isReady: Bool {
      drop()
      return false
    }
  }

  @Test func theDeinitOfAnOwnerWhoseOperationDidNotStartIsNoBody() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let deinitGate = Gate()
    owner.value = Owner(DeinitProbe { deinitGate.pass() })
    let operation = Reluctant(owner.value.unsafelyUnwrapped) { [owner] in owner.value = nil }
    queue.addOperation(operation)
    #expect(deinitGate.hasBegun())
    let next = Event()
    queue.async(lifetime: .forTests) { next.happen() }
    queue.lookAtWorkers(times: 3)
    #expect(next.happens())
    deinitGate.open()
    operation.cancel()
    #expect(queue.becomesIdle())
  }
}
