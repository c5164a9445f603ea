import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Owners that end on other threads while their answers arrive.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct OwnerEndRaceTests {
  private let server = LoopbackServer.shared!

  /// What an owner's handlers see, each first of all.
  private final class Ledger: Sendable {
    struct Entry {
      var begun = 0
      var isOver = false
      var late = 0
    }

    let lifetime = OwnerLifetime()
    private let entry = Guarded(Entry())

    func handlerBegins() {
      entry.withLock { entry in
        entry.begun += 1
        if entry.isOver { entry.late += 1 }
      }
    }

    func close() { entry.withLock { $0.isOver = true } }
    var value: Entry { entry.withLock { $0 } }
  }

  /// Where a handler stands until an owner has been ended.
  private struct Milestone: Sendable {
    let isReached = DispatchSemaphore(value: 0)
    let hasEnded = DispatchSemaphore(value: 0)
  }

  /// All answers arrive while the first handlers wait. Then every third handler that begins has an owner ended, on another thread, and goes
  /// on when the end has returned: the owner's other handlers are in line by then.
  /// - Parameter close: called after the end, on its thread.
  private func race(
    _ id: String, handlersAtOnce: Int, close: @escaping @Sendable (Ledger, Milestone, OwnerScopedQueue) -> Void
  ) async throws {
    let (ending, staying, each) = (40, 10, 10)
    let handlers = OwnerScopedQueue(name: "handlers", maxConcurrentOperationCount: handlersAtOnce)
    let client = RequestClient(baseURL: server.base, queue: handlers)
    client.maxConcurrentRequestsPerHost = 32
    let ledgers = (0..<ending + staying).map { _ in Ledger() }
    let milestones = (0..<ending).map { _ in Milestone() }
    let haveArrived = DispatchSemaphore(value: 0)
    let begun = Guarded(0)
    var operations: [(Int, RequestOperation<Void>)] = []
    for _ in 0..<each {
      for (number, ledger) in ledgers.enumerated() {
        let operation = client.send(Request(.post, "status?id=\(id)&status=200"), lifetime: ledger.lifetime, decoding: .empty) { _ in
          ledger.handlerBegins()
          let place = begun.withLock { begun in
            defer { begun += 1 }
            return begun
          }
          if place < handlersAtOnce { haveArrived.wait() }
          guard place.isMultiple(of: 3), place / 3 < ending else { return }
          milestones[place / 3].isReached.signal()
          milestones[place / 3].hasEnded.wait()
        }
        operations.append((number, operation))
      }
    }
    for (ledger, milestone) in zip(ledgers, milestones) {
      Thread.detachNewThread {
        milestone.isReached.wait()
        ledger.lifetime.end()
        close(ledger, milestone, handlers)
      }
    }
    let sent = operations.map(\.1)
    #expect(try await eventually { sent.allSatisfy { $0.response != nil } })
    for _ in 0..<handlersAtOnce { haveArrived.signal() }
    for (_, operation) in operations { await operation.finished() }
    // A handler gets in line when its operation has finished.
    #expect(try await eventually { ledgers.dropFirst(ending).allSatisfy { $0.value.begun == each } })
    await handlers.finished()
    for (number, ledger) in ledgers.enumerated() {
      #expect(ledger.value.late == 0, "owner \(number)")
      #expect(number < ending || ledger.value.begun == each)
    }
    // Otherwise nobody was in time, or all were.
    let total = begun.withLock { $0 }
    #expect(total > staying * each && total < ledgers.count * each)
  }

  /// Handlers that were under way when the end returned are over when the queue says so.
  @Test func noHandlerBeginsAfterItsOwnersEndOnAnotherThread() async throws {
    try await race("race-threads", handlersAtOnce: 4) { ledger, milestone, handlers in
      milestone.hasEnded.signal()
      handlers.waitUntilFinished(ownedBy: ledger.lifetime)
      ledger.close()
    }
  }

  /// The queue runs one handler at a time, which waits for the end: none is about to begin when the end returns.
  @Test func noHandlerBeginsAfterItsOwnersEndHasReturned() async throws {
    try await race("race-jobs", handlersAtOnce: 1) { ledger, milestone, _ in
      ledger.close()
      milestone.hasEnded.signal()
    }
  }
}
