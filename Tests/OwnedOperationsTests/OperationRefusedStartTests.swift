import Foundation
import Testing

@testable import OwnedOperations

/// Starting what may not be started: Foundation stops the process, ours goes on. Each is seen in a process of its own.
@Suite(.enabled(if: !Sanitizer.isActive, "a sanitizer reports what a process leaves that is stopped"))
struct OperationRefusedStartTests {
  @Test func startingWhileExecuting() async {
    await #expect(processExitsWith: .failure) {
      let itself = Mutexed<Operation?>(nil)
      itself.value = BlockOperation { itself.value?.start() }
      itself.value?.start()
    }
    await #expect(processExitsWith: .success) {
      let itself = Mutexed<OwnedOperation?>(nil)
      let runs = Counter()
      let operation = OwnedBlockOperation(lifetime: OwnerLifetime.forTests) {
        runs.add()
        itself.value?.start()
        #expect(throws: OwnerScopedQueueError.self) { try itself.value?.startOrThrow() }
      }
      itself.value = operation
      operation.start()
      #expect(operation.isFinished && runs.value == 1)
    }
  }

  @Test func startingBeforeItIsReady() async {
    await #expect(processExitsWith: .failure) {
      let (dependency, operation) = (BlockOperation {}, BlockOperation {})
      operation.addDependency(dependency)
      operation.start()
    }
    await #expect(processExitsWith: .success) {
      let runs = Counter()
      let dependency = OwnedBlockOperation(lifetime: OwnerLifetime.forTests) {}
      let operation = OwnedBlockOperation(lifetime: OwnerLifetime.forTests) { runs.add() }
      operation.addDependency(dependency)
      operation.start()
      #expect(!operation.isFinished && runs.value == 0)
      dependency.start()
      operation.start()
      #expect(operation.isFinished && runs.value == 1)
    }
  }

  @Test func startingAgainAfterTheFinish() async {
    await #expect(processExitsWith: .success) {
      let runs = Counter()
      let operations = [BlockOperation { runs.add() }, OwnedBlockOperation(lifetime: OwnerLifetime.forTests) { runs.add() }]
      for operation in operations {
        operation.start()
        operation.start()
      }
      #expect(runs.value == 2)
    }
  }
}
