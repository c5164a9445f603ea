import Foundation
import Testing

@testable import OwnedOperations

/// What becomes of a queue that has run out of work: what it kept for more goes, soon, and holds up nobody.
@Suite(.timeLimit(.minutes(1))) struct IdleQueueTests {
  /// Nobody holds the lifetime but a queue that has had work of it.
  private func lifetime(_ onEnd: @escaping @Sendable () -> Void) -> OwnerLifetime {
    let lifetime = OwnerLifetime()
    lifetime.onEnd { _ in onEnd() }
    return lifetime
  }

  @Test func aLifetimeThatIsDroppedEndsThoughOtherQueuesAreBusy() {
    // Of a quality of service that nobody else uses, so that one thread serves both.
    let (busy, queue) = (OwnerScopedQueue(qualityOfService: .background), OwnerScopedQueue(qualityOfService: .background))
    let ended = Counter()
    queue.async(lifetime: lifetime { ended.add() }) {}
    #expect(queue.becomesIdle())
    // A job comes whenever the last is over, so that no thread waits for long.
    let end = DispatchTime.now() + 30
    while ended.value == 0, DispatchTime.now() < end {
      busy.async(lifetime: .forTests) {}
      #expect(busy.becomesIdle())
    }
    #expect(ended.value == 1)
  }

  @Test func aLifetimeThatIsDroppedEndsThoughItsLastWorkHadNoWorker() async throws {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    try await queue.run(lifetime: lifetime { ended.add() }) {}
    #expect(eventually { ended.value == 1 })
  }

  /// Another operation of the same call is refused.
  @Test func aLifetimeThatIsDroppedEndsThoughItsOperationWasNotTaken() {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    do {
      let finished = OwnedBlockOperation(lifetime: .forTests) {}
      finished.start()
      let fresh = OwnedBlockOperation(lifetime: lifetime { ended.add() }) {}
      #expect(throws: OwnerScopedQueueError.self) { try queue.enqueue([fresh, finished]) }
    }
    #expect(eventually { ended.value == 1 })
    withExtendedLifetime(queue) {}
  }

  /// The queue knows the owner because it was suspended behind a barrier, which is all that the queue has.
  @Test func aLifetimeThatIsDroppedEndsThoughBarriersAloneWereCancelled() {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    queue.isSuspended = true
    queue.addBarrierBlock {}
    do {
      let lifetime = lifetime { ended.add() }
      queue.setSuspended(true, ownedBy: lifetime)
    }
    queue.cancelAllOperations()
    #expect(eventually { ended.value == 1 })
    withExtendedLifetime(queue) {}
  }

  /// None of its nodes was ever ready.
  @Test func aLifetimeThatIsDroppedEndsThoughItsGraphWasCancelledAtOnce() throws {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    do {
      let (first, second) = (OwnerLifetime(), lifetime { ended.add() })
      let graph = OperationGraph(lifetime: .forTests)
      graph.dependencyPolicy = .requireSuccess
      graph.node(lifetime: first) {}.precedes(graph.node(lifetime: second) {})
      first.end()
      _ = try graph.run(on: queue)
    }
    #expect(eventually { ended.value == 1 })
    withExtendedLifetime(queue) {}
  }

  private final class UntilFinished: OwnedOperation, @unchecked Sendable {  // constant
    let begun = DispatchSemaphore(value: 0)
    override var isAsynchronous: Bool { true }
    override func perform() { begun.signal() }
  }

  @Test func aLifetimeThatIsDroppedEndsWhenAnOperationIsFinishedFromElsewhere() {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    do {
      let operation = UntilFinished(lifetime: lifetime { ended.add() })
      queue.addOperation(operation)
      #expect(operation.begun.waitUntilSignalled())
      #expect(eventually { queue.snapshot.activeWorkers == 0 })
      queue.tidyUp()
      operation.finish()
    }
    #expect(eventually { ended.value == 1 })
  }

  @Test func aLifetimeThatIsDroppedEndsWhenAllOfASuspendedQueueIsCancelled() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let ended = Counter()
    queue.async(lifetime: lifetime { ended.add() }) {}
    queue.cancelAllOperations()
    #expect(eventually { ended.value == 1 })
  }

  @Test func aLifetimeThatIsDroppedEndsThoughItIsSuspended() {
    let queue = OwnerScopedQueue()
    let ended = Counter()
    queue.setSuspended(true, ownedBy: lifetime { ended.add() })
    #expect(eventually { ended.value == 1 })
    queue.tidyUp()
    #expect(queue.snapshot.suspendedOwners == 0)
  }

  @Test func whoIsSuspendedStaysSoInAnIdleQueue() {
    let queue = OwnerScopedQueue()
    let (owner, ran) = (OwnerLifetime(), Counter())
    queue.setSuspended(true, ownedBy: owner)
    queue.tidyUp()
    #expect(queue.isSuspended(ownedBy: owner))
    queue.async(lifetime: owner) { ran.add() }
    queue.async(lifetime: .forTests) {}
    queue.waitUntilFinished(ownedBy: .forTests)
    #expect(ran.value == 0)
    queue.setSuspended(false, ownedBy: owner)
    #expect(queue.becomesIdle())
    #expect(ran.value == 1)
  }

  private final class Idle: IdleQueue {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    func claimTidyUp() -> Bool { true }
    func tidyUp() { body() }
    func claimRest() -> Bool { true }
    func tidyUpRest() {}
  }

  /// As the deinit of something that a queue has kept may.
  @Test func whatIsTidiedMayWaitForWorkOfOthers() {
    let others = (0..<4).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
    let done = DispatchSemaphore(value: 0)
    for other in others {
      IdleQueues.note(
        Idle {
          let isOver = DispatchSemaphore(value: 0)
          other.async(lifetime: .forTests) { isOver.signal() }
          isOver.wait()
          done.signal()
        })
    }
    for _ in others { #expect(done.waitUntilSignalled()) }
  }

  /// One that is tidied for long holds up neither work nor what else is tidied.
  @Test func whatIsTidiedForLongHoldsUpNobody() {
    let mayEnd = DispatchSemaphore(value: 0)
    let (begun, ran) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    IdleQueues.note(
      Idle {
        begun.signal()
        mayEnd.wait()
      })
    #expect(begun.waitUntilSignalled())
    for _ in 0..<20 {
      let queue = OwnerScopedQueue()
      queue.async(lifetime: .forTests) { ran.signal() }
      #expect(ran.waitUntilSignalled())
    }
    IdleQueues.note(Idle { ran.signal() })
    #expect(ran.waitUntilSignalled())
    mayEnd.signal()
  }

  /// More than are kept until the timer goes off.
  @Test func thousandsOfIdleQueuesAreAllTidied() {
    let tidied = Counter()
    for _ in 0..<5_000 { IdleQueues.note(Idle { tidied.add() }) }
    #expect(eventually { tidied.value == 5_000 })
  }
}
