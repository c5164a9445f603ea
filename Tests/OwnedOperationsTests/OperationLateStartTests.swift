import Foundation
import Testing

@testable import OwnedOperations

/// The task of an asynchronous operation may wait long for a thread; `finished()`.
@Suite(.serialized) struct OperationLateStartTests {
  private final class Recording: OwnedAsyncOperation, @unchecked Sendable {
    let runs = Counter()
    override func run() async throws { runs.add() }
  }

  @Test(arguments: [true, false]) func bodiesOfAsynchronousOperationsDoNotBeginAfterTheEnd(isEnd: Bool) async {
    await withoutTaskThreads { release in
      let lifetime = OwnerLifetime()
      let operation = Recording(lifetime: lifetime)
      let (runs, gone) = (Counter(), DispatchSemaphore(value: 0))
      let result = OwnedResultOperation(lifetime: lifetime) { [deinitProbe = DeinitProbe { gone.signal() }] () async throws -> Int in
        withExtendedLifetime(deinitProbe) { runs.add() }
        return 1
      }
      operation.start()
      result.start()
      #expect(operation.isExecuting && result.isExecuting)
      if isEnd {
        lifetime.end()
      } else {
        operation.cancel()
        result.cancel()
      }
      release()
      #expect(returns { operation.waitUntilFinished() } && returns { result.waitUntilFinished() })
      #expect(operation.runs.value == 0 && runs.value == 0)
      #expect(operation.outcome?.reason == (isEnd ? .ownerEnded(lifetime.id) : .requested))
      #expect(result.output == nil && result.outcome?.kind == "cancelled")
      #expect(gone.waitUntilSignalled())
    }
  }

  /// The owner's end reaches them no more.
  @Test func bodiesOfAsynchronousOperationsThatHaveBeenFinishedDoNotBegin() async {
    await withoutTaskThreads { release in
      let lifetime = OwnerLifetime()
      let (runs, gone) = (Counter(), DispatchSemaphore(value: 0))
      let recorded: Counter
      let reference = Weakly<Recording>()
      do {
        let operation = Recording(lifetime: lifetime)
        (recorded, reference.object) = (operation.runs, operation)
        let result = OwnedResultOperation(lifetime: lifetime) { [deinitProbe = DeinitProbe { gone.signal() }] () async throws -> Int in
          withExtendedLifetime(deinitProbe) { runs.add() }
          return 1
        }
        operation.start()
        result.start()
        #expect(operation.finish() && result.finish())
        #expect(operation.isFinished && result.isFinished)
      }
      lifetime.end()
      release()
      #expect(gone.waitUntilSignalled())
      #expect(eventually { reference.object == nil })
      #expect(recorded.value == 0 && runs.value == 0)
    }
  }

  /// Every thread that tasks run on is blocked until the body calls what it gets.
  private func withoutTaskThreads(_ body: @escaping @Sendable (_ release: () -> Void) -> Void) async {
    await onThreadOfItsOwn {
      let (blocked, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let width = ProcessInfo.processInfo.activeProcessorCount
      for _ in 0..<width {
        Task.detached { Self.block(blocked, release) }
      }
      for _ in 0..<width { #expect(blocked.waitUntilSignalled()) }
      body {
        for _ in 0..<width { release.signal() }
      }
    }
  }

  private static func block(_ blocked: DispatchSemaphore, _ release: DispatchSemaphore) {
    blocked.signal()
    release.wait()
  }

  private func onThreadOfItsOwn(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        body()
        continuation.resume()
      }
    }
  }

  @Test func finishedReturnsWhenTheOperationHasFinishedHoweverItDid() async {
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue()
    let succeeding = queue.addOperation(lifetime: lifetime) {}
    await succeeding.finished()
    #expect(succeeding.isFinished)
    await succeeding.finished()
    queue.isSuspended = true
    let (cancelled, ended) = (queue.addOperation(lifetime: lifetime) {}, queue.addOperation(lifetime: lifetime) {})
    async let first: Void = cancelled.finished()
    async let second: Void = ended.finished()
    cancelled.cancel()
    await first
    lifetime.end()
    await second
    #expect(cancelled.isFinished && ended.isFinished)
  }

  @Test(arguments: [true, false]) func cancellingTheTaskThatWaitsOnlyStopsTheWait(isEarly: Bool) async {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let waiting = Task { await operation.finished() }
    if !isEarly { while operation.lock.withLock({ operation.extras?.waiters.isEmpty ?? true }) { await Task.yield() } }
    waiting.cancel()
    await waiting.value
    #expect(!operation.isFinished && !operation.isCancelled)
    operation.start()
    await operation.finished()
    #expect(operation.isFinished)
  }
}
