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

  /// The owner of each ledger is ended once so many handlers have begun in all: one after the other, all through the answers.
  private func race(
    _ id: String, handlersAtOnce: Int, end: @escaping @Sendable (Ledger, OwnerScopedQueue) async -> Void
  ) async throws {
    let (ending, staying, each) = (40, 10, 10)
    let handlers = OwnerScopedQueue(name: "handlers", maxConcurrentOperationCount: handlersAtOnce)
    let client = RequestClient(baseURL: server.base, queue: handlers)
    client.maxConcurrentRequestsPerHost = 32
    let ledgers = (0..<ending + staying).map { _ in Ledger() }
    let begun = Guarded(0)
    var operations: [(Int, RequestOperation<Void>)] = []
    for _ in 0..<each {
      for (number, ledger) in ledgers.enumerated() {
        let operation = client.send(Request(.post, "status?id=\(id)&status=200"), lifetime: ledger.lifetime, decoding: .empty) { _ in
          ledger.handlerBegins()
          begun.withLock { $0 += 1 }
        }
        operations.append((number, operation))
      }
    }
    await withTaskGroup(of: Void.self) { group in
      for (number, ledger) in ledgers.prefix(ending).enumerated() {
        group.addTask {
          let hasCome = try? await eventually { begun.withLock { $0 } > number * 4 }
          #expect(hasCome == true)
          await end(ledger, handlers)
        }
      }
    }
    for (_, operation) in operations { await operation.finished() }
    await handlers.finished()
    for (number, ledger) in ledgers.enumerated() {
      #expect(ledger.value.late == 0, "owner \(number)")
      let own = operations.filter { $0.0 == number }.map { $0.1 }
      let succeeded = own.count { $0.response != nil }
      let ended = own.count {
        if case .failure(.cancelled(.ownerEnded))? = $0.result { true } else { false }
      }
      #expect(succeeded + ended == each)
      #expect(ledger.value.begun <= succeeded)
      if number >= ending { #expect(ledger.value.begun == each) }
    }
    // Otherwise nobody was in time, or all were.
    let total = begun.withLock { $0 }
    #expect(total > staying * each && total < ledgers.count * each)
  }

  /// Handlers that were under way when the end returned are over when the queue says so.
  @Test func noHandlerBeginsAfterItsOwnersEndOnAnotherThread() async throws {
    try await race("race-threads", handlersAtOnce: 4) { ledger, handlers in
      let hasEnded = try? await returns { ledger.lifetime.end() }
      #expect(hasEnded == true)
      await handlers.finished(ownedBy: ledger.lifetime)
      ledger.close()
    }
  }

  /// The queue runs one job at a time. The job that ends the owner is that one, so no handler is under way when the end returns.
  @Test func noHandlerBeginsAfterItsOwnersEndHasReturned() async throws {
    try await race("race-jobs", handlersAtOnce: 1) { ledger, handlers in
      await withCheckedContinuation { continuation in
        handlers.async(lifetime: .process) {
          ledger.lifetime.end()
          ledger.close()
          continuation.resume()
        }
      }
    }
  }
}
