import Foundation
import Testing

@testable import OwnedOperations

/// Operations that a queue refuses, because their owners have ended, or because others in the same call are in the way.
@Suite struct QueueRefusalTests {
  @Test(arguments: [true, false]) func plainOperationBehindOneRefusedForItsOwnersEndRuns(isFinishedBefore: Bool) {
    let lifetime = OwnerLifetime()
    let owned = OwnedBlockOperation(lifetime: lifetime) { Issue.record("has run for an owner that had ended") }
    let ran = Counter()
    let plain = BlockOperation { ran.add() }
    plain.addDependency(owned)
    lifetime.end()
    if isFinishedBefore { LifetimeReaper.waitUntilIdle() }
    let queue = OwnerScopedQueue()
    queue.addOperation(owned)
    queue.addOperation(plain)
    #expect(queue.becomesIdle())
    #expect(ran.value == 1)
    #expect(queue.statistics.skippedForEndedOwners == 1)
  }

  @Test func plainOperationBehindOneThatEnqueueRefusesIsReady() {
    let lifetime = OwnerLifetime()
    lifetime.end()
    let owned = OwnedBlockOperation(lifetime: lifetime) {}
    let plain = BlockOperation {}
    plain.addDependency(owned)
    LifetimeReaper.waitUntilIdle()
    #expect(!plain.isReady)
    #expect(throws: OwnerScopedQueueError.self) { try OwnerScopedQueue().enqueue([owned]) }
    #expect(plain.isReady)
  }

  /// The reaper comes late, and doesn't hold them.
  @Test(arguments: ["one", "several", "all or none"]) func thoseThatNobodyElseHoldsFinishAllTheSame(way: String) {
    let (queue, lifetime) = (OwnerScopedQueue(), OwnerLifetime())
    let completed = DispatchSemaphore(value: 0)
    LifetimeReaper.hold(lifetime)
    do {
      let operations = (0..<2).map { _ in
        OwnedBlockOperation(lifetime: lifetime) { Issue.record("has run for an owner that had ended") }
      }
      for operation in operations { operation.completionBlock = { completed.signal() } }
      lifetime.end()
      switch way {
      case "one": for operation in operations { queue.addOperation(operation) }
      case "several": queue.addOperations(operations, waitUntilFinished: true)
      default: #expect(throws: OwnerScopedQueueError.self) { try queue.enqueue([OwnedBlockOperation(lifetime: .forTests) {}] + operations) }
      }
    }
    for _ in 0..<2 { #expect(completed.waitUntilSignalled()) }
    LifetimeReaper.resume(lifetime)
    LifetimeReaper.waitUntilIdle()
  }

  /// Whatever became of it before, and whether the reaper has been there: an ended owner's operation is skipped.
  @Test func whateverTheOwnerLeavesBehindIsSkipped() {
    let lifetime = OwnerLifetime()
    let (cancelled, failed, predecessor, done) = (
      OwnedBlockOperation(lifetime: lifetime) {}, OwnedBlockOperation(lifetime: lifetime) {},
      OwnedBlockOperation(lifetime: lifetime) {}, OwnedBlockOperation(lifetime: lifetime) {}
    )
    failed.addDependency(predecessor)
    failed.dependencyPolicy = .requireSuccess
    done.start()
    cancelled.cancel()
    predecessor.cancel()
    #expect(failed.outcome == nil && failed.isCancelled)
    let early = OwnedBlockOperation(lifetime: lifetime) {}
    early.cancel()
    lifetime.end()
    let queue = OwnerScopedQueue()
    queue.addOperation(early)
    LifetimeReaper.waitUntilIdle()
    let all = [cancelled, failed, predecessor, done]
    for operation in all { queue.addOperation(operation) }
    queue.addOperations(all, waitUntilFinished: false)
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 9)
    #expect(queue.statistics.pending == 0)
    for operation in all {
      #expect(throws: OwnerScopedQueueError.ownerEnded(operation: operation.label, owner: lifetime.id)) { try queue.enqueue([operation]) }
    }
  }

  @Test func namesAreAskedOutsideTheQueuesLock() {
    final class Named: OwnedOperation, @unchecked Sendable {  // stores constants only
      let queue: OwnerScopedQueue
      init(_ lifetime: OwnerLifetime, _ queue: OwnerScopedQueue) {
        self.queue = queue
        super.init(lifetime: lifetime)
      }
      override var name: String? {
        get { "one beside \(queue.operationCount)" }
        set {}
      }
    }
    let lifetime = OwnerLifetime()
    lifetime.end()
    #expect(
      returns {
        let queue = OwnerScopedQueue()
        queue.addOperation(Named(lifetime, queue))
        queue.isSuspended = true
        let twice = Named(.forTests, queue)
        queue.addOperation(twice)
        #expect(throws: OwnerScopedQueueError.alreadyEnqueued("Named \"one beside 1\"")) { try queue.enqueue([twice]) }
        queue.cancelAllOperations()
      })
  }

  /// `enqueue` takes back what it had attached when another operation is refused. Somebody may have started the former by hand in between.
  @Test func operationStartedByHandWhileItIsTakenBackGoesOnWithoutTheQueue() {
    for isFinishedFirst in [true, false] {
      let queue = OwnerScopedQueue()
      let gate = Gate()
      let operation = OwnedBlockOperation(lifetime: .forTests) { gate.pass() }
      let hasReturned = DispatchSemaphore(value: 0)
      let isAttached = queue.attach(operation) {
        Thread.detachNewThread {
          operation.start()
          hasReturned.signal()
        }
        #expect(gate.hasBegun())
        if isFinishedFirst {
          // It has finished, and waits for the lock to tell the queue.
          gate.open()
          while !operation.isFinished {}
        }
      }
      #expect(isAttached)
      let during = queue.statistics
      #expect(during.enqueued == 0 && during.pending == 0 && during.executing == 0)
      if !isFinishedFirst { gate.open() }
      #expect(hasReturned.waitUntilSignalled())
      #expect(operation.outcome?.kind == "succeeded")
      #expect(queue.statistics == during)
      #expect(operation.scheduler == nil)
      #expect(queue.operations.isEmpty)
      #expect(queue.becomesIdle())
    }
  }

  @Test func operationTakenBackBeforeItBeginsCanBeStartedByHand() {
    let scheduler = OperationSchedulerTests.Scheduler()
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    _ = operation.attach(to: scheduler)
    #expect(!operation.detach())
    operation.start()
    #expect(operation.didRun && operation.outcome?.kind == "succeeded")
    #expect(scheduler.journal.entries.isEmpty)
  }
}
