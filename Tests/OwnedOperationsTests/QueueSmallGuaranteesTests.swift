import Foundation
import Testing

@testable import OwnedOperations

/// What reads back, what is empty, and what can be awaited.
@Suite struct QueueSmallGuaranteesTests {
  @Test func limitsReadBackAsTheyWereSet() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: .max)
    let standard = OwnerScopedQueue.defaultMaxConcurrentOperationCount
    #expect(queue.maxConcurrentOperationCount == .max)
    #expect(queue.maxConcurrentOperationCountPerOwner == standard)
    for limit in [standard, 0, 1, .max, 7] {
      queue.maxConcurrentOperationCount = limit
      queue.maxConcurrentOperationCountPerOwner = limit
      #expect(queue.maxConcurrentOperationCount == limit && queue.maxConcurrentOperationCountPerOwner == limit)
    }
    #expect(OwnerScopedQueue().maxConcurrentOperationCount == standard)
    #expect(OwnerScopedQueue.main.maxConcurrentOperationCount == 1)
  }

  @Test func suspensionOfAnOwnerReadsBack() {
    let queue = OwnerScopedQueue()
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    queue.setSuspended(true, ownedBy: one)
    #expect(queue.isSuspended(ownedBy: one) && !queue.isSuspended(ownedBy: other) && !queue.isSuspended)
    queue.setSuspended(false, ownedBy: one)
    #expect(!queue.isSuspended(ownedBy: one))
    queue.setSuspended(true, ownedBy: one)
    one.end()
    #expect(!queue.isSuspended(ownedBy: one))
    queue.setSuspended(true, ownedBy: one)
    #expect(!queue.isSuspended(ownedBy: one))
  }

  @Test func emptyGraphRunsAndIsFinished() async throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    let graph = OperationGraph(lifetime: lifetime)
    #expect(throws: Never.self) { try graph.validate() }
    let run = try graph.run(on: queue)
    #expect(run.isFinished && run.outcomes.isEmpty && run.nodeCounts == GraphRun.Counts())
    await run.finished()
    try await run.value
    run.cancel()
    await withCheckedContinuation { continuation in run.onFinish { _ in continuation.resume() } }
    #expect(queue.operationCount == 0 && queue.statistics.enqueued == 0)
    lifetime.end()
    #expect(throws: OwnerScopedQueueError.self) { try graph.run(on: queue) }
  }

  @Test func everyOperationCanBeAwaited() async throws {
    let queue = OwnerScopedQueue()
    let plain = BlockOperation {}
    let owned = OwnedBlockOperation(lifetime: .forTests) {}
    try queue.enqueue([plain, owned])
    for operation in [plain, owned] {
      await operation.finished()
      #expect(operation.isFinished)
      await operation.finished()
    }
  }

  @Test func cancellingATaskThatWaitsForAnOperationOnlyStopsTheWait() async {
    for operation in [BlockOperation {}, OwnedBlockOperation(lifetime: .forTests) {}] {
      let task = Task { await operation.finished() }
      task.cancel()
      await task.value
      #expect(!operation.isFinished && !operation.isCancelled)
      operation.start()
      await operation.finished()
      #expect(operation.isFinished)
    }
  }
}
