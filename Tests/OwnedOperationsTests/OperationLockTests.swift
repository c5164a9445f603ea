import CFoundationLocks
import Foundation
import Testing

@testable import OwnedOperations

/// Which of the base class's locks an operation takes on its way from creation to finish: none but those inside
/// `didChangeValue(forKey:)`, and none at all if nobody knows it.
///
/// Foundation's calls of `pthread_mutex_lock` are counted. It takes all its locks by them.
@Suite(.enabled(if: foundation_locks_count(), "Foundation is no shared library here"))
struct OperationLockTests {
  /// The locks that Foundation takes on this thread meanwhile.
  private func locks(_ body: () -> Void) -> Int {
    let before = foundation_locks_on_this_thread()
    body()
    return foundation_locks_on_this_thread() - before
  }

  /// Has finished, and says so to Foundation by the only door.
  private final class Finished: Operation, @unchecked Sendable {  // stores nothing
    override var isFinished: Bool { true }
  }

  private final class Custom: OwnedOperation, @unchecked Sendable {  // stores nothing
    override var isReady: Bool { super.isReady }
    override func perform() {}
  }

  private final class Asynchronous: OwnedOperation, @unchecked Sendable {  // stores nothing
    override var isAsynchronous: Bool { true }
    override func perform() {}
  }

  /// What `didChangeValue(forKey: "isFinished")` takes, whoever calls it.
  private func locksOfTellingFoundation() -> Int {
    let finished = Finished()
    return locks { finished.didChangeValue(forKey: "isFinished") }
  }

  @Test func theCounterSeesTheLocksOfTheBaseClass() {
    #expect(locks { _ = Operation() } == 0)
    #expect(locksOfTellingFoundation() > 0)
    // The state, the block, the change to executing: they are many.
    #expect(locks { BlockOperation {}.start() } > locksOfTellingFoundation())
    let plain = Operation()
    #expect(locks { _ = plain.isReady } > 0)
    #expect(locks { _ = plain.isFinished } > 0)
    #expect(locks { plain.cancel() } > 0)
  }

  @Test func noBaseClassLockIsTakenUntilFoundationIsToldOfTheFinish() {
    let lifetime = OwnerLifetime()
    let telling = locksOfTellingFoundation()
    let kinds: [(String, () -> OwnedOperation)] = [
      ("OwnedOperation", { OwnedOperation(lifetime: lifetime) }),
      ("OwnedBlockOperation", { OwnedBlockOperation(lifetime: lifetime) {} }),
      ("OwnedResultOperation", { OwnedResultOperation(lifetime: lifetime) { 1 } }),
      ("a subclass with an isReady of its own", { Custom(lifetime: lifetime) }),
    ]
    for (name, make) in kinds {
      var operation: OwnedOperation?
      #expect(locks { operation = make() } == 0, "creating \(name)")
      #expect(locks { operation?.start() } == telling, "starting \(name) by hand")
      #expect(operation?.isFinished == true)
      #expect(locks { operation = nil } == 0, "freeing \(name)")
    }
  }

  @Test func whatAnOperationSaysOfItselfTakesNoBaseClassLock() {
    let lifetime = OwnerLifetime()
    let operation = Asynchronous(lifetime: lifetime)
    let dependency = OwnedOperation(lifetime: lifetime)
    let questions: () -> Void = {
      _ = (operation.state, operation.isExecuting, operation.isFinished, operation.isCancelled, operation.outcome)
      _ = (operation.name, operation.dependencies, operation.queuePriority, operation.completionBlock == nil, operation.timeout)
    }
    #expect(locks { operation.addDependency(dependency) } == 0)
    #expect(locks(questions) == 0)
    #expect(locks { dependency.start() } == locksOfTellingFoundation())
    #expect(locks { operation.start() } == 0)
    #expect(operation.isExecuting)
    #expect(locks(questions) == 0)
    #expect(locks { operation.finish() } == locksOfTellingFoundation())
    #expect(locks(questions) == 0)
  }

  @Test func cancellationTakesNoBaseClassLock() {
    let lifetime = OwnerLifetime()
    let telling = locksOfTellingFoundation()
    let operation = OwnedBlockOperation(lifetime: lifetime) {}
    #expect(locks { operation.cancel() } == 0)
    #expect(locks { operation.start() } == telling)
    #expect(operation.isFinished)
  }

  /// The locks that Foundation takes meanwhile, on whatever thread. For a process where nobody else takes any.
  private static func locksOnAllThreads(_ body: () async -> Void) async -> Int {
    guard foundation_locks_count() else { exit(2) }
    let before = foundation_locks_on_all_threads()
    await body()
    return foundation_locks_on_all_threads() - before
  }

  private static let count = 100

  private static func locksOfTellingFoundationOfAll() async -> Int {
    let finished = Finished()
    return await count * locksOnAllThreads { finished.didChangeValue(forKey: "isFinished") }
  }

  @Test func aQueueTakesNoBaseClassLockEither() async {
    await #expect(processExitsWith: .success) {
      let telling = await Self.locksOfTellingFoundationOfAll()
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
      let lifetime = OwnerLifetime()
      // A queue has forgotten an operation before Foundation is told; completion blocks come after.
      let completions = AsyncStream<Void>.makeStream()
      let taken = await Self.locksOnAllThreads {
        for _ in 0..<Self.count {
          let operation = OwnedBlockOperation(lifetime: lifetime) {}
          operation.completionBlock = { completions.continuation.yield() }
          queue.addOperation(operation)
        }
        var left = Self.count
        for await _ in completions.stream {
          left -= 1
          if left == 0 { break }
        }
      }
      guard taken == telling else {
        print("\(taken) locks instead of \(telling)")
        exit(1)
      }
    }
  }

  /// Foundation isn't told of one that nobody has any more. In a debug build a caller may have it a moment longer.
  @Test func anOperationThatNobodyKnowsTakesNoneAtAll() async {
    await #expect(processExitsWith: .success) {
      let telling = await Self.locksOfTellingFoundationOfAll()
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
      let lifetime = OwnerLifetime()
      let taken = await Self.locksOnAllThreads {
        queue.isSuspended = true
        for _ in 0..<Self.count { queue.addOperation(OwnedBlockOperation(lifetime: lifetime) {}) }
        queue.isSuspended = false
        await queue.finished()
      }
      guard taken == 0 || _isDebugAssertConfiguration() && taken <= telling else {
        print("\(taken) locks")
        exit(1)
      }
    }
  }
}
