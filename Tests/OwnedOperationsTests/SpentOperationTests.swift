import Foundation
import Testing

@testable import OwnedOperations

/// Operations that have been run, and are let go of by who adds others.
@Suite struct SpentOperationTests {
  private final class Screen: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
  }

  private let queue = OwnerScopedQueue(name: "spent")
  private let screen = Screen()

  init() { queue.maxConcurrentOperationCount = 1 }

  /// Has so many operations run, behind one that is held until the body returns.
  /// - Returns: those that are there.
  private func run(_ count: Int, whileLastIsHeld body: ([WeakOperation]) -> Void, make: () -> OwnedOperation) {
    let (first, last) = (Gate(), Gate())
    queue.addOperation(OwnedBlockOperation(owner: screen) { first.pass() })
    let operations = (0..<count).map { _ in
      let operation = make()
      queue.addOperation(operation)
      return WeakOperation(operation)
    }
    queue.addOperation(OwnedBlockOperation(owner: screen) { last.pass() })
    first.open()
    #expect(last.hasBegun())
    body(operations)
    last.open()
    queue.waitUntilAllOperationsAreFinished()
  }

  private struct WeakOperation: Sendable {
    weak let operation: OwnedOperation?
    init(_ operation: OwnedOperation) { self.operation = operation }
  }

  /// While a body takes its time, those before it wait for who adds, but no longer than a timer has them.
  @Test func aBodyThatTakesLongKeepsNoOthersMemory() {
    run(10) { operations in
      #expect(eventually { operations.allSatisfy { $0.operation == nil } })
    } make: {
      OwnedBlockOperation(owner: screen) {}
    }
  }

  /// What has gone back is let go of on the thread that adds: as many additions as there are slots look at all of them.
  @Test func whoAddsLetsGoOfThoseBefore() {
    run(10) { operations in
      for _ in 0..<32 { queue.addOperation(OwnedBlockOperation(owner: screen) {}) }
      #expect(operations.allSatisfy { $0.operation == nil })
    } make: {
      OwnedBlockOperation(owner: screen) {}
    }
    let hasTray = queue.core.spentOperations.object != nil
    #expect(hasTray)
  }

  /// What would run code of the user's goes where it was run: an end of the lifetime, a dependency that is an object of the user's.
  @Test func whatRunsCodeOfTheUsersDoesNotComeBack() {
    final class Other: Operation, @unchecked Sendable {}
    let dependency = Other()
    dependency.start()
    let withDependency = OwnedBlockOperation(owner: screen) {}
    withDependency.addDependency(dependency)
    withDependency.start()
    #expect(!withDependency.isSpent)
    #expect(!withDependency.keepsNothing)

    let dropped = OwnedBlockOperation(lifetime: OwnerLifetime()) {}
    dropped.start()
    #expect(!dropped.keepsNothing)

    let withHook = OwnedBlockOperation(owner: screen) {}
    onDeinit(of: withHook) { _, _ in }
    withHook.start()
    #expect(!withHook.keepsNothing)

    let withOwner = OwnedBlockOperation(owner: screen) {}
    onDeinit(of: screen.lifetime) { _, _ in }
    withOwner.start()
    #expect(!withOwner.keepsNothing)
    cancelDeinitHooks(of: screen.lifetime)
    #expect(withOwner.keepsNothing)

    let failed = OwnedBlockOperation(owner: screen) { throw CancellationError() }
    failed.start()
    #expect(!failed.keepsNothing)
  }

  /// A queue at rest keeps none.
  @Test func aQueueAtRestKeepsNone() {
    let operations = (0..<1000).map { _ in
      let operation = OwnedBlockOperation(owner: screen) {}
      queue.addOperation(operation)
      return WeakOperation(operation)
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(eventually { operations.allSatisfy { $0.operation == nil } })
  }
}
