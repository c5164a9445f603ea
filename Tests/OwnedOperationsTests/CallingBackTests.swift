import Foundation
import Testing

@testable import OwnedOperations

/// Code of the user's that is called in the midst of something, and calls back into it, or waits for what comes after it.
@Suite(.timeLimit(.minutes(5))) struct CallingBackTests {
  /// The delay has the last reference to the queue, once it has added its job.
  @Test func aHookOnAQueueThatIsGoingHoldsUpNoDelayedJob() {
    let (hookBegan, jobRan, hookEnded) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    // On a thread of its own, where the hook runs if the delay is over first.
    Thread.detachNewThread {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      onDeinit(of: queue) { _, _ in
        hookBegan.signal()
        #expect(jobRan.waitUntilSignalled())
        hookEnded.signal()
      }
      queue.asyncAfter(.milliseconds(1), lifetime: .process) {}
    }
    #expect(hookBegan.waitUntilSignalled())
    let other = OwnerScopedQueue()
    other.asyncAfter(.milliseconds(1), lifetime: .process) { jobRan.signal() }
    #expect(hookEnded.waitUntilSignalled())
  }

  /// Before the queue has an heir. The facade is an `OperationQueue` of its own then.
  @Test func aHookOnAQueuesDeinitMayUseItsFacade() {
    let ran = DispatchSemaphore(value: 0)
    let isOver = returns {
      let queue = OwnerScopedQueue()
      let facade = queue.operationQueue
      onDeinit(of: queue) { _, _ in
        facade.addOperation { ran.signal() }
        _ = (facade.name, facade.isSuspended)
      }
    }
    #expect(isOver)
    #expect(ran.waitUntilSignalled())
  }

  @Test func aHandlerMayCancelInACallBeforehand() {
    let calls = Mutexed<[String]>([])
    let isOver = returns {
      let (first, operation) = (OwnedBlockOperation(lifetime: .forTests) {}, OwnedBlockOperation(lifetime: .forTests) {})
      operation.addDependency(first)
      let observation = operation.observe(\.isReady, options: [.prior, .new]) { operation, change in
        calls.value += [change.isPrior ? "prior" : "\(change.newValue!)"]
        if change.isPrior { operation.cancel() }
      }
      first.start()
      #expect(operation.isCancelled)
      withExtendedLifetime(observation) {}
    }
    #expect(isOver)
    #expect(calls.value == ["prior", "true"])
  }

  /// The first changes what the second has not been told of yet.
  @Test func everyHandlerIsToldBeforehandWhatOneOfThemChanges() {
    let calls = Mutexed<[String]>([])
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let observations = ["a", "b"].map { name in
      operation.observe(\.isCancelled, options: [.prior]) { operation, change in
        calls.value += [name + (change.isPrior ? " before" : "")]
        if change.isPrior { operation.cancel() }
      }
    }
    operation.cancel()
    #expect(calls.value == ["a before", "b before", "a", "b"])
    withExtendedLifetime(observations) {}
  }

  @Test func aHandlerMayCancelWhatItIsToldWillBeCancelled() {
    let calls = Mutexed<[Bool]>([])
    let isOver = returns {
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      let observation = operation.observe(\.isCancelled, options: [.prior]) { operation, change in
        calls.value += [change.isPrior]
        operation.cancel()
      }
      operation.cancel()
      withExtendedLifetime(observation) {}
    }
    #expect(isOver)
    #expect(calls.value == [true, false])
  }

  @Test func aHandlerMayAddDependenciesInACallBeforehand() {
    let calls = Mutexed<[Bool]>([])
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let others = (0..<2).map { _ in OwnedBlockOperation(lifetime: .forTests) {} }
    let isOver = returns {
      let observation = operation.observe(\.dependencies, options: [.prior]) { operation, change in
        calls.value += [change.isPrior]
        if change.isPrior { operation.addDependency(others[1]) }
      }
      operation.addDependency(others[0])
      withExtendedLifetime(observation) {}
    }
    #expect(isOver)
    #expect(calls.value.filter { $0 }.count == 1 && Set(operation.dependencies) == Set(others))
  }

  /// The task can't go on before the handlers of its cancellation have returned, and the turn is cancelled in one of them.
  @Test func whoObservesATurnMayWaitForItsTask() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let (taskIsOver, handlerIsOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let task = Task {
      _ = try? await queue.run(lifetime: .process) { 1 }
      taskIsOver.signal()
    }
    #expect(eventually { queue.operationCount == 1 })
    let turn = try #require(queue.operations.first as? OwnedOperation)
    let observation = turn.observe(\.isFinished) { _, _ in
      #expect(taskIsOver.waitUntilSignalled())
      handlerIsOver.signal()
    }
    #expect(returns { task.cancel() })
    #expect(handlerIsOver.waitUntilSignalled())
    withExtendedLifetime(observation) {}
  }

  /// Whoever is told of it.
  @Test func aTurnThatWasGivenOutIsCancelledWhenItsCallerIs() {
    let queue = OwnerScopedQueue()
    let isOver = DispatchSemaphore(value: 0)
    for _ in 0..<100 {
      queue.isSuspended = true
      let task = Task {
        _ = try? await queue.run(lifetime: .process) { Issue.record("its caller was cancelled before its turn") }
        isOver.signal()
      }
      #expect(eventually { (queue.operations.first as? QueueTurn)?.keepsFirstStep ?? false })
      task.cancel()
      queue.isSuspended = false
      #expect(isOver.waitUntilSignalled())
    }
  }

  /// To be added changes nothing that is observed. The queue's lock is held meanwhile.
  @Test func nobodyIsToldBeforehandOfWhatDoesNotChange() {
    let isOver = returns {
      let queue = OwnerScopedQueue()
      queue.isSuspended = true
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      let counts = Mutexed<[Int]>([])
      let adding = operation.observe(\.queuePriority, options: [.prior]) { operation, change in
        if change.isPrior { queue.addOperation(operation) }
      }
      let asking = operation.observe(\.queuePriority, options: [.prior]) { _, change in
        if change.isPrior { counts.value += [queue.operationCount] }
      }
      operation.queuePriority = .high
      #expect(counts.value == [1])
      queue.cancelAllOperations()
      withExtendedLifetime((adding, asking)) {}
    }
    #expect(isOver)
  }
}
