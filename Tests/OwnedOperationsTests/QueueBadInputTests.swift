import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// What is wrong is said, names the operation, and the queue goes on.
@Suite struct QueueBadInputTests {
  private func refusal(of operations: [Operation], by queue: OwnerScopedQueue) -> OwnerScopedQueueError? {
    do throws(OwnerScopedQueueError) {
      try queue.enqueue(operations)
      return nil
    } catch {
      return error
    }
  }

  private func named(_ name: String, _ operation: Operation) -> Operation {
    operation.name = name
    return operation
  }

  private func ours() -> Operation { OwnedBlockOperation(lifetime: .forTests) {} }

  @Test(arguments: [true, false]) func operationThatIsInAQueueIsRefused(isPlain: Bool) {
    let (queue, other) = (OwnerScopedQueue(), OwnerScopedQueue())
    queue.isSuspended = true
    let operation = named("twice", isPlain ? BlockOperation {} : ours())
    queue.addOperation(operation)
    let label = OwnedOperation.label(of: operation)
    #expect(label.contains("twice"))
    #expect(refusal(of: [operation], by: queue) == .alreadyEnqueued(label))
    #expect(refusal(of: [operation], by: other) == .alreadyEnqueued(label))
    #expect(queue.operationCount == 1 && other.operationCount == 0)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(refusal(of: [operation], by: other) == .alreadyFinished(label))
    #expect(queue.statistics.enqueued == 1)
  }

  /// Says that it has not finished, and may be held up in saying so.
  private final class SlowToAnswer: Operation, @unchecked Sendable {  // constants
    let gate = Gate()
    private let isArmed = Atomic<Bool>(true)

    override var isFinished: Bool {
      let answer = super.isFinished
      if isArmed.exchange(false, ordering: .acquiringAndReleasing) { gate.pass() }
      return answer
    }
  }

  @Test func plainOperationThatAnotherQueueRunsMeanwhileIsRefused() {
    let (queue, other) = (OwnerScopedQueue(), OwnerScopedQueue())
    let operation = SlowToAnswer()
    let refused = Mutexed<OwnerScopedQueueError?>(nil)
    let isOver = Event()
    Thread.detachNewThread {
      refused.value = self.refusal(of: [operation], by: queue)
      isOver.happen()
    }
    #expect(operation.gate.hasBegun())
    #expect(refusal(of: [operation], by: other) == nil)
    #expect(other.becomesIdle())
    operation.gate.open()
    #expect(isOver.happens())
    #expect(refused.value == .alreadyFinished(OwnedOperation.label(of: operation)))
    #expect(queue.operationCount == 0)
  }

  @Test(arguments: [true, false]) func operationThatExecutesIsRefused(isPlain: Bool) {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let operation = isPlain ? BlockOperation { gate.pass() } : OwnedBlockOperation(lifetime: .forTests) { gate.pass() }
    Thread.detachNewThread { operation.start() }
    #expect(gate.hasBegun())
    #expect(refusal(of: [operation], by: queue) == .alreadyExecuting(OwnedOperation.label(of: operation)))
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func cycleIsNamed() {
    let queue = OwnerScopedQueue()
    let first = named("a", ours())
    let second = named("b", BlockOperation {})
    let third = named("c", ours())
    first.addDependency(second)
    second.addDependency(third)
    third.addDependency(first)
    guard case .dependencyCycle(let names) = refusal(of: [named("bystander", ours()), first, second, third], by: queue) else {
      Issue.record("the cycle has not been found")
      return
    }
    #expect(Set(names) == ["a", "b", "c"])
    #expect(queue.operationCount == 0)
    third.removeDependency(first)
    #expect(refusal(of: [first, second, third], by: queue) == nil)
    #expect(queue.becomesIdle())
  }

  @Test func listIsAddedAsAWholeOrNotAtAll() {
    let queue = OwnerScopedQueue()
    let (first, second, plain) = (ours(), named("duplicate", ours()), BlockOperation {})
    #expect(refusal(of: [first, plain, second, second], by: queue) == .duplicateOperation(OwnedOperation.label(of: second)))
    let finished = ours()
    finished.start()
    #expect(refusal(of: [first, plain, finished], by: queue) == .alreadyFinished(OwnedOperation.label(of: finished)))
    #expect(queue.operationCount == 0)
    #expect(queue.statistics.enqueued == 0)
    #expect(refusal(of: [first, plain, second], by: queue) == nil)
    #expect(queue.becomesIdle())
    #expect(first.isFinished && plain.isFinished && second.isFinished)
  }

  @Test func workOfAnEndedOwnerIsRefusedByName() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let before = named("made before", OwnedBlockOperation(lifetime: lifetime) { Issue.record("an ended owner's operation has run") })
    lifetime.end()
    let after = named("made after", OwnedBlockOperation(lifetime: lifetime) { Issue.record("an ended owner's operation has run") })
    for operation in [before, after] {
      let other = ours()
      #expect(
        refusal(of: [other, operation], by: queue)
          == .ownerEnded(operation: OwnedOperation.label(of: operation), owner: lifetime.id))
      #expect(!other.isFinished && queue.operationCount == 0)
      queue.addOperation(operation)
      #expect(returns { operation.waitUntilFinished() })
    }
    #expect(queue.statistics.skippedForEndedOwners == 2)
    #expect(queue.becomesIdle())
  }

  @Test func zeroStartsNothing() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 0)
    let ran = Counter()
    queue.addOperation { ran.add() }
    queue.addBarrierBlock { ran.add() }
    #expect(queue.statistics.pending == 2)
    queue.maxConcurrentOperationCount = 1
    #expect(queue.becomesIdle())
    #expect(ran.value == 2)
    queue.maxConcurrentOperationCountPerOwner = 0
    queue.async(lifetime: .forTests) { ran.add() }
    #expect(queue.operationCount == 1)
    queue.maxConcurrentOperationCountPerOwner = OperationQueue.defaultMaxConcurrentOperationCount
    #expect(queue.becomesIdle())
    #expect(ran.value == 3)
  }

  @Test func negativeLimitsAndTwiceAddedOperationsStopTheProcess() async {
    await #expect(processExitsWith: .failure) { OwnerScopedQueue().maxConcurrentOperationCount = -2 }
    await #expect(processExitsWith: .failure) { OwnerScopedQueue().maxConcurrentOperationCountPerOwner = -3 }
    await #expect(processExitsWith: .failure) { _ = OwnerScopedQueue(maxConcurrentOperationCount: -7) }
    await #expect(processExitsWith: .failure) {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let operation = BlockOperation {}
      queue.addOperation(operation)
      queue.addOperation(operation)
    }
    await #expect(processExitsWith: .failure) {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      queue.addOperation {}
      queue.underlyingQueue = .main
    }
  }
}
