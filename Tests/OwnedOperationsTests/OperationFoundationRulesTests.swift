import Foundation
import Testing

@testable import OwnedOperations

/// The same scenario on `BlockOperation` and on ours: what is seen must be the same.
struct OperationFoundationRulesTests {
  private func compare(
    _ scenario: (_ make: (@escaping @Sendable () -> Void) -> Operation, Journal<String>) -> Void,
    location: SourceLocation = #_sourceLocation
  ) {
    let (theirs, ours) = (Journal<String>(), Journal<String>())
    scenario({ BlockOperation(block: $0) }, theirs)
    scenario({ OwnedBlockOperation(lifetime: .forTests, $0) }, ours)
    #expect(!theirs.entries.isEmpty, sourceLocation: location)
    #expect(ours.entries == theirs.entries, sourceLocation: location)
  }

  private func flags(_ operation: Operation) -> String {
    let flags = [
      operation.isReady ? "ready" : "", operation.isExecuting ? "executing" : "", operation.isFinished ? "finished" : "",
      operation.isCancelled ? "cancelled" : "", operation.isAsynchronous ? "asynchronous" : "",
    ]
    return flags.filter { !$0.isEmpty }.joined(separator: " ")
  }

  @Test func runningByHand() {
    compare { make, journal in
      let itself = Mutexed<Operation?>(nil)
      let operation = make { journal.write("work: \(flags(itself.value!))") }
      itself.value = operation
      journal.write(flags(operation))
      operation.start()
      journal.write(flags(operation))
      operation.start()
      journal.write(flags(operation))
      itself.value = nil
    }
  }

  @Test func cancellingBeforeTheStart() {
    compare { make, journal in
      let operation = make { journal.write("work") }
      operation.cancel()
      journal.write(flags(operation))
      operation.cancel()
      operation.start()
      journal.write(flags(operation))
    }
  }

  @Test func cancellingDuringTheWork() {
    compare { make, journal in
      let itself = Mutexed<Operation?>(nil)
      let operation = make {
        itself.value!.cancel()
        journal.write("work: \(flags(itself.value!))")
      }
      itself.value = operation
      operation.start()
      journal.write(flags(operation))
      itself.value = nil
    }
  }

  @Test func cancellingAfterTheFinish() {
    compare { make, journal in
      let operation = make { journal.write("work") }
      operation.start()
      operation.cancel()
      journal.write(flags(operation))
    }
  }

  @Test func cancellingWhatWaitsForADependency() {
    compare { make, journal in
      let (dependency, operation) = (make { journal.write("dependency") }, make { journal.write("work") })
      operation.addDependency(dependency)
      journal.write(flags(operation))
      operation.cancel()
      journal.write(flags(operation))
      operation.start()
      journal.write(flags(operation))
      dependency.start()
      journal.write("\(operation.dependencies.count) \(operation.dependencies.first === dependency)")
    }
  }

  @Test func aCancelledDependencyHoldsBackUntilItHasFinished() {
    compare { make, journal in
      let (dependency, operation) = (make { journal.write("dependency") }, make { journal.write("work") })
      operation.addDependency(dependency)
      dependency.cancel()
      journal.write(flags(operation))
      dependency.start()
      journal.write(flags(operation))
      operation.start()
      journal.write(flags(operation))
    }
  }

  @Test func dependenciesAddedTwiceRemovedAndFinished() {
    compare { make, journal in
      let (first, second, operation) = (make {}, make {}, make {})
      operation.addDependency(first)
      operation.addDependency(first)
      operation.addDependency(second)
      journal.write("\(operation.dependencies.count) \(flags(operation))")
      first.start()
      second.start()
      journal.write("\(operation.dependencies.count) \(flags(operation))")
      operation.removeDependency(first)
      operation.removeDependency(make {})
      journal.write("\(operation.dependencies.count) \(flags(operation))")
    }
  }

  @Test func completionBlockOfACancelledOperationRunsWhenItFinishes() {
    compare { make, journal in
      let operation = make { journal.write("work") }
      let completed = DispatchSemaphore(value: 0)
      operation.completionBlock = { [unowned operation] in
        journal.write("completed: \(flags(operation))")
        completed.signal()
      }
      operation.cancel()
      journal.write("cancelled")
      operation.start()
      completed.wait()
    }
  }

  @Test func completionBlockRunsAfterTheWork() {
    compare { make, journal in
      let operation = make { journal.write("work") }
      let completed = DispatchSemaphore(value: 0)
      operation.completionBlock = {
        journal.write("completed")
        completed.signal()
      }
      journal.write("\(operation.completionBlock != nil)")
      operation.start()
      completed.wait()
    }
  }

  @Test func severalThreadsWaitForTheFinish() {
    compare { make, journal in
      let (begin, woken, queue) = (DispatchSemaphore(value: 0), Counter(), OperationQueue())
      let operation = make { begin.wait() }
      queue.addOperation(operation)
      race(
        (0..<3).map { _ in
          {
            operation.waitUntilFinished()
            woken.add()
          }
        } + [{ begin.signal() }])
      journal.write("\(woken.value) \(flags(operation))")
      operation.waitUntilFinished()
    }
  }

  @Test func priorityQualityAndNameBeforeAndAfter() {
    compare { make, journal in
      let operation = make {}
      func note() {
        journal.write("\(operation.queuePriority) \(operation.qualityOfService) \(operation.name ?? "nil")")
      }
      note()
      operation.queuePriority = .veryHigh
      operation.qualityOfService = .background
      operation.name = "name"
      note()
      operation.start()
      note()
      operation.queuePriority = .veryLow
      operation.qualityOfService = .userInteractive
      operation.name = nil
      note()
    }
  }

  @Test func aSuspendedQueueRunsByPriorityAndSkipsTheCancelled() {
    compare { make, journal in
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      queue.isSuspended = true
      for (name, priority) in [("low", .low), ("normal", .normal), ("gone", .veryHigh), ("high", .high)]
        as [(String, Operation.QueuePriority)]
      {
        let operation = make { journal.write(name) }
        operation.queuePriority = priority
        queue.addOperation(operation)
        if name == "gone" { operation.cancel() }
      }
      journal.write("\(queue.operationCount)")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(queue.operationCount)")
    }
  }

  @Test func aBarrierSeparatesWhatCameBeforeFromWhatComesAfter() {
    compare { make, journal in
      let queue = OperationQueue()
      let begin = DispatchSemaphore(value: 0)
      queue.addOperation(
        make {
          begin.wait()
          journal.write("before")
        })
      queue.addBarrierBlock { journal.write("barrier") }
      queue.addOperation(make { journal.write("after") })
      begin.signal()
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  @Test func cancelAllOperationsFinishesASuspendedQueueWhenItGoesOn() {
    compare { make, journal in
      let queue = OperationQueue()
      queue.isSuspended = true
      let (dependency, dependent) = (make { journal.write("dependency") }, make { journal.write("dependent") })
      dependent.addDependency(dependency)
      queue.addOperations([dependent, dependency], waitUntilFinished: false)
      queue.cancelAllOperations()
      journal.write("\(flags(dependency)), \(flags(dependent))")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(flags(dependency)), \(flags(dependent)), \(queue.operationCount)")
    }
  }

  // MARK: A custom isReady

  final class GatedBlock: BlockOperation, @unchecked Sendable {
    let isOpen = Mutexed(false)
    override var isReady: Bool { super.isReady && isOpen.value }
  }

  final class GatedOwned: OwnedOperation, @unchecked Sendable {
    let isOpen = Mutexed(false)
    let work = Mutexed<(@Sendable () -> Void)?>(nil)
    override var isReady: Bool { super.isReady && isOpen.value }
    override func perform() { work.value?() }
  }

  @Test func aCustomConditionHoldsAnOperationBackInAQueue() {
    func run(_ operation: Operation, _ isOpen: Mutexed<Bool>, _ journal: Journal<String>) {
      let queue = OperationQueue()
      queue.addOperation(operation)
      queue.addOperation(BlockOperation {})
      journal.write("\(operation.isReady) \(operation.isFinished)")
      isOpen.value = true
      operation.didChangeValue(forKey: "isReady")
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(operation.isReady) \(operation.isFinished)")
    }
    let (theirs, ours) = (Journal<String>(), Journal<String>())
    let block = GatedBlock()
    block.addExecutionBlock { theirs.write("work") }
    run(block, block.isOpen, theirs)
    let owned = GatedOwned(lifetime: .forTests)
    owned.work.value = { ours.write("work") }
    run(owned, owned.isOpen, ours)
    #expect(ours.entries == ["false false", "work", "true true"])
    #expect(theirs.entries == ours.entries)
    let early = GatedOwned(lifetime: .forTests)
    early.name = "gated"
    #expect(throws: OwnedOperationError.notReady("GatedOwned \"gated\"")) { try early.startOrThrow() }  // Foundation stops the process
  }
}
