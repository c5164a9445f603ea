import Foundation
import Testing

@testable import OwnedOperations

/// Cancelling leaves nothing behind that nobody would start or finish.
@Suite struct QueueCancellationTests {
  @Test(arguments: [true, false]) func cancellingEverythingFinishesPlainOperations(isBlocked: Bool) {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let dependency = BlockOperation {}
    let operation = BlockOperation { Issue.record("a cancelled operation has run") }
    if isBlocked { operation.addDependency(dependency) }
    queue.addOperation(operation)
    queue.cancelAllOperations()
    #expect(operation.isCancelled)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(operation.isFinished)
    #expect(queue.statistics.cancelled == 1)
  }

  @Test func operationsThatRefuseToBeCancelledAreStartedAllTheSame() {
    final class Stubborn: OwnedOperation, @unchecked Sendable {
      override func cancel() {}
    }
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let first = Stubborn(lifetime: lifetime)
    let second = Stubborn(lifetime: lifetime)
    queue.addOperation(first)
    queue.addOperation(second)
    queue.cancelAllOperations()
    queue.cancelOperations(ownedBy: lifetime)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(first.outcome?.kind == "succeeded")
    #expect(second.outcome?.kind == "succeeded")
  }

  @Test func stepsOfTasksAreNotDroppedByCancelAllOperations() async {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let ran = Counter()
    let task = Task(executorPreference: queue) { ran.add() }
    while queue.operationCount == 0 { await Task.yield() }
    queue.cancelAllOperations()
    queue.isSuspended = false
    #expect(returns { queue.waitUntilAllOperationsAreFinished() })
    #expect(ran.value == 1)
    task.cancel()
  }

  @Test func cancellingBarriersLeavesTheWorkBehindThemFree() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let gate = Gate()
    queue.addOperation { gate.pass() }
    #expect(gate.hasBegun())
    queue.addBarrierBlock { Issue.record("a cancelled barrier has run") }
    queue.addBarrierBlock { Issue.record("a cancelled barrier has run") }
    queue.cancelAllOperations()
    let ran = DispatchSemaphore(value: 0)
    queue.addOperation { ran.signal() }
    gate.open()
    #expect(ran.waitUntilSignalled())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.cancelled == 2 || queue.statistics.cancelled == 3)
  }

  @Test(arguments: [true, false]) func dependentsAreCancelledBeforeWhatTheyWaitFor(isForOneOwner: Bool) {
    final class Link: OwnedOperation, @unchecked Sendable {  // stores nothing
      override func cancel() {
        for dependency in dependencies { #expect(!dependency.isCancelled && !dependency.isFinished) }
        super.cancel()
      }
    }
    let (queue, lifetime) = (OwnerScopedQueue(), OwnerLifetime())
    let chain = (0..<4).map { _ in Link(lifetime: lifetime) }
    chain[0].addDependency(BlockOperation())
    for (link, next) in zip(chain, chain.dropFirst()) { next.addDependency(link) }
    for link in chain { queue.addOperation(link) }
    if isForOneOwner { queue.cancelOperations(ownedBy: lifetime) } else { queue.cancelAllOperations() }
    #expect(queue.becomesIdle())
    #expect(chain.allSatisfy { $0.isCancelled })
  }

  @Test func anOwnersCancellationLeavesOthersAlone() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let (doomed, spared) = (OwnerLifetime(), OwnerLifetime())
    let ran = Counter()
    for _ in 0..<100 {
      queue.async(lifetime: doomed) { Issue.record("cancelled work has run") }
      queue.async(lifetime: spared) { ran.add() }
      queue.addOperation(lifetime: doomed) { Issue.record("cancelled work has run") }
    }
    #expect(queue.operationCount(ownedBy: doomed) == 200)
    #expect(queue.operations(ownedBy: doomed).count == 100)
    queue.cancelOperations(ownedBy: doomed)
    #expect(doomed.isAlive)
    #expect(queue.operationCount(ownedBy: doomed) == 0)
    #expect(queue.operations(ownedBy: doomed).isEmpty)
    #expect(queue.operationCount(ownedBy: spared) == 100)
    #expect(returns { queue.waitUntilFinished(ownedBy: doomed) })
    queue.async(lifetime: doomed) { ran.add() }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == 101)
    let statistics = queue.statistics
    #expect(statistics.cancelled == 200)
    #expect(statistics.skippedForEndedOwners == 0)
    #expect(statistics.succeeded == 101)
  }

  @Test func operationsCancelledWhileBlockedOrSuspendedFinishAtOnce() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    let first = OwnedBlockOperation(lifetime: lifetime) { Issue.record("cancelled work has run") }
    let second = OwnedBlockOperation(lifetime: lifetime) {}
    second.addDependency(first)
    let blocked = OwnedBlockOperation(lifetime: lifetime) { Issue.record("cancelled work has run") }
    blocked.addDependency(second)
    queue.addOperations([first, second, blocked], waitUntilFinished: false)
    blocked.cancel()
    #expect(blocked.isFinished)
    first.cancel()
    #expect(first.isFinished)
    #expect(second.isReady)
    #expect(queue.operationCount == 1)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(second.outcome?.kind == "succeeded")
  }

  @Test func cycleStaysUntilItIsBrokenByCancel() {
    let queue = OwnerScopedQueue()
    let journal = Journal<String>()
    let lifetime = OwnerLifetime()
    let first = OwnedBlockOperation(lifetime: lifetime) { journal.write("first") }
    let second = OwnedBlockOperation(lifetime: lifetime) { journal.write("second") }
    first.addDependency(second)
    second.addDependency(first)
    queue.addOperations([first, second], waitUntilFinished: false)
    #expect(!first.isReady && !second.isReady)
    #expect(queue.operationCount == 2)
    first.cancel()
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["second"])
    first.removeDependency(second)  // dependencies keep what they depend on
  }
}
