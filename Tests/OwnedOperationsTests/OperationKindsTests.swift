import Foundation
import Testing

@testable import OwnedOperations

struct OperationKindsTests {
  struct Failure: Error, Equatable {}

  final class Sleeper: OwnedAsyncOperation, @unchecked Sendable {
    let cancels = Journal<CancellationReason>()
    override func run() async throws { try await Task.sleep(for: .seconds(3600)) }
    override func didCancel(_ reason: CancellationReason) { cancels.write(reason) }
  }

  final class Adder: OwnedAsyncOperation, @unchecked Sendable {
    let result = Mutexed(0)
    override func run() async throws {
      await Task.yield()
      result.value = 42
    }
  }

  @Test func anAsyncOperationFinishesWithItsTask() async throws {
    let operation = Adder(lifetime: .forTests)
    #expect(operation.isAsynchronous)
    operation.start()
    await operation.finished()
    #expect(operation.result.value == 42 && operation.outcome?.kind == "succeeded")
  }

  @Test func itsTaskIsCancelledWithTheOperationByHandOwnerOrTimeout() async throws {
    for way in 0..<3 {
      let lifetime = OwnerLifetime()
      let operation = Sleeper(lifetime: lifetime)
      if way == 2 { operation.timeout = .milliseconds(5) }
      operation.start()
      if way == 0 { operation.cancel() }
      if way == 1 { lifetime.end() }
      await operation.finished()
      let reason: CancellationReason = [.requested, .ownerEnded(lifetime.id), .timedOut(.milliseconds(5))][way]
      #expect(operation.outcome?.reason == reason)
      operation.waitForAnnouncement { operation.cancels.entries.count == 1 }
      #expect(operation.cancels.entries == [reason])
    }
  }

  final class Endless: OwnedOperation, @unchecked Sendable {
    let cancels = Journal<CancellationReason>()
    override var isAsynchronous: Bool { true }
    override func didCancel(_ reason: CancellationReason) { cancels.write(reason) }
  }

  @Test func aTimeoutFinishesAnAsynchronousSubclassAfterTellingIt() async throws {
    let operation = Endless(lifetime: .forTests)
    operation.timeout = .milliseconds(2)
    operation.start()
    await operation.finished()
    #expect(operation.outcome?.reason == .timedOut(.milliseconds(2)))
    #expect(operation.cancels.entries == [.timedOut(.milliseconds(2))])
  }

  @Test func aTimeoutThatDoesNotPassChangesNothing() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    operation.timeout = .seconds(3600)
    operation.start()
    #expect(operation.outcome?.kind == "succeeded")
    #expect(operation.extras?.timer == nil)
  }

  @Test func aTimeoutCancelsABodyThatAsks() {
    let body = Polling(lifetime: .forTests)
    body.timeout = .milliseconds(1)
    body.start()
    #expect(body.outcome?.reason == .timedOut(.milliseconds(1)))
  }

  final class Polling: OwnedOperation, @unchecked Sendable {
    override func perform() { while !isCancelled { sched_yield() } }
  }

  @Test func aResultIsKeptAndAwaited() async throws {
    let operation = OwnedResultOperation(lifetime: .forTests) { 6 * 7 }
    #expect(operation.output == nil && !operation.isAsynchronous)
    let value = Task { try await operation.value }
    operation.start()
    #expect(try await value.value == 42)
    #expect(operation.output == 42)
  }

  @Test func anAsynchronousBodyMakesAResultToo() async throws {
    let operation = OwnedResultOperation(lifetime: .forTests) { () async throws -> String in
      await Task.yield()
      return "done"
    }
    #expect(operation.isAsynchronous)
    operation.start()
    #expect(try await operation.value == "done")
  }

  @Test func aResultThatFailsOrIsCancelledThrows() async {
    let failed = OwnedResultOperation<Int>(lifetime: .forTests) { throw Failure() }
    failed.start()
    await #expect(throws: Failure.self) { try await failed.value }
    #expect(failed.output == nil)
    let lifetime = OwnerLifetime()
    let cancelled = OwnedResultOperation(lifetime: lifetime) { 1 }
    let value = Task { try await cancelled.value }
    lifetime.end()
    await #expect(throws: CancellationError.self) { try await value.value }
    let asynchronous = OwnedResultOperation<Int>(lifetime: .forTests) { () async throws -> Int in
      try await Task.sleep(for: .seconds(3600))
      return 1
    }
    asynchronous.start()
    asynchronous.cancel()
    await #expect(throws: CancellationError.self) { try await asynchronous.value }
  }

  @Test func aCancelledTaskStopsWaitingAndLeavesNoContinuation() async {
    let operation = OwnedResultOperation(lifetime: .forTests) { 1 }
    let task = Task { try await operation.value }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(operation.extras?.waiters.isEmpty ?? true)
    operation.start()
    #expect(operation.output == 1)
  }
}

extension OwnedOperation {
  /// For `didCancel` that comes on a background thread, perhaps after the finish.
  func waitForAnnouncement(_ isThere: () -> Bool) {
    while !isThere() { sched_yield() }
  }
}
