import Foundation
import Testing

@testable import OwnedOperations

/// Owned operations inside a plain `OperationQueue`, and their owners' end.
struct OperationInFoundationQueueTests {
  @Test func nothingStartsInASuspendedQueueAfterItsOwnerHasEnded() {
    let lifetime = OwnerLifetime()
    let queue = OperationQueue()
    queue.isSuspended = true
    let ran = Counter()
    let operations = (0..<50).map { _ in OwnedBlockOperation(lifetime: lifetime) { ran.add() } }
    for (first, second) in zip(operations, operations.dropFirst()) { second.addDependency(first) }
    queue.addOperations(operations, waitUntilFinished: false)
    lifetime.end()
    for operation in operations { operation.waitUntilFinished() }
    #expect(operations.allSatisfy { $0.isFinished && $0.outcome?.reason == .ownerEnded(lifetime.id) })
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(queue.operationCount == 0)
    #expect(ran.value == 0)
  }

  @Test func aPlainDependentRunsAfterTheQueueHasGotRidOfACancelledOwnedOperation() {
    let lifetime = OwnerLifetime()
    let queue = OperationQueue()
    let blocker = OwnedBlockOperation(lifetime: .forTests) {}
    let operation = OwnedBlockOperation(lifetime: lifetime) { Issue.record("its owner had ended") }
    operation.addDependency(blocker)
    let ran = Counter()
    let plain = BlockOperation { ran.add() }
    plain.addDependency(operation)
    queue.addOperations([operation, plain], waitUntilFinished: false)
    lifetime.end()
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 1)
  }

  @Test func aBarrierOfTheQueueHoldsBackAStartByHand() throws {
    let lifetime = OwnerLifetime()
    let queue = OperationQueue()
    queue.isSuspended = true
    queue.addOperation {}
    queue.addBarrierBlock {}
    let ran = Counter()
    let operation = OwnedBlockOperation(lifetime: lifetime) { ran.add() }
    queue.addOperation(operation)
    // Only the base class knows.
    #expect(operation.dependencies.isEmpty)
    #expect(throws: OwnerScopedQueueError.self) { try operation.startOrThrow() }
    #expect(ran.value == 0)
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 1)
  }

  @Test func endingWhileAQueueRunsLosesNothing() {
    for _ in 0..<30 {
      let lifetime = OwnerLifetime()
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 2
      let completions = DispatchGroup()
      let operations = (0..<40).map { _ in OwnedBlockOperation(lifetime: lifetime) {} }
      for operation in operations {
        completions.enter()
        operation.completionBlock = { completions.leave() }
      }
      race([
        { queue.addOperations(operations, waitUntilFinished: false) },
        { lifetime.end() },
      ])
      queue.waitUntilAllOperationsAreFinished()
      completions.wait()
      #expect(operations.allSatisfy { $0.isFinished && $0.completionBlock == nil })
    }
  }

  final class Asynchronous: OwnedOperation, @unchecked Sendable {
    override var isAsynchronous: Bool { true }
    override func perform() { DispatchQueue.global().async { self.finish() } }
  }

  @Test func asynchronousSubclassesAreWaitedFor() {
    let queue = OperationQueue()
    let operations = (0..<50).map { _ in Asynchronous(lifetime: .forTests) }
    queue.addOperations(operations, waitUntilFinished: true)
    queue.waitUntilAllOperationsAreFinished()
    #expect(operations.allSatisfy { $0.isFinished })
    #expect(queue.operationCount == 0)
  }

  @Test func releasedQueuesAndOperationsLeaveNothingBehind() {
    weak var released: OwnedBlockOperation?
    let underlyingQueue = DispatchQueue(label: "underlying")
    do {
      let queue = OperationQueue()
      queue.underlyingQueue = underlyingQueue
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      released = operation
      queue.addOperation(operation)
      queue.waitUntilAllOperationsAreFinished()
    }
    // The queue's thread holds the operation for a moment after the finish; what comes after it on the same serial queue comes after that
    // moment.
    underlyingQueue.sync {}
    #expect(released == nil)
  }

  final class Waited: OwnedOperation, @unchecked Sendable {
    let waits = Counter()
    let reaction = Mutexed<(@Sendable (Int) -> Void)?>(nil)

    override func waitUntilFinished() {
      waits.add()
      reaction.value?(waits.value)
      super.waitUntilFinished()
    }
  }

  @Test func waitingForASuspendedQueueThatHoldsAFinishedOperationDoesNotSpin() {
    let lifetime = OwnerLifetime()
    let queue = OperationQueue()
    queue.isSuspended = true
    let operation = Waited(lifetime: lifetime)
    queue.addOperation(operation)
    lifetime.end()
    operation.waitUntilFinished()
    #expect(operation.isFinished && queue.operationCount == 1)
    // Foundation asks again and again, since the operation says at once that it has finished: each time costs it a millisecond.
    let (first, last) = (operation.waits.value + 1, operation.waits.value + 21)
    let start = Mutexed(ContinuousClock.now)
    let twentyWaits = Mutexed(Duration.zero)
    operation.reaction.value = { [unowned queue] count in
      if count == first { start.value = .now }
      guard count == last else { return }
      twentyWaits.value = ContinuousClock.now - start.value
      queue.isSuspended = false
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(queue.operationCount == 0)
    #expect(twentyWaits.value >= .milliseconds(19))
    operation.reaction.value = nil
    // Now that Foundation has been told, it costs nothing any more. (A thousand waits would be a second, each time.)
    let after = (0..<5).map { _ in ContinuousClock().measure { for _ in 0..<1000 { operation.waitUntilFinished() } } }
    #expect(after.contains { $0 < .milliseconds(500) })
  }

  @Test func cancellingEndingAndRunningAtOnceLosesNothingInAQueue() {
    for round in 0..<40 {
      let lifetime = OwnerLifetime()
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1 + round % 3
      let completions = DispatchGroup()
      let ran = Counter()
      let operations = (0..<30).map { _ in OwnedBlockOperation(lifetime: lifetime) { ran.add() } }
      let dependent = BlockOperation {}
      for operation in operations {
        completions.enter()
        operation.completionBlock = { completions.leave() }
        dependent.addDependency(operation)
      }
      for (first, second) in zip(operations, operations.dropFirst(7)) { second.addDependency(first) }
      queue.addOperations(operations + [dependent], waitUntilFinished: false)
      race([
        { queue.cancelAllOperations() },
        { lifetime.end() },
        { for operation in operations.reversed() { operation.cancel() } },
        { queue.waitUntilAllOperationsAreFinished() },
      ])
      queue.waitUntilAllOperationsAreFinished()
      completions.wait()
      #expect(operations.allSatisfy { $0.isFinished } && dependent.isFinished)
      #expect(operations.count { $0.outcome?.kind == "succeeded" } <= ran.value)
    }
  }
}
