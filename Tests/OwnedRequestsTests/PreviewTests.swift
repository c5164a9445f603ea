import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What the cache shows before the server has answered.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct PreviewTests {
  private let server = LoopbackServer.shared!

  /// Returns when the preview waits for the queue of handlers, which is suspended.
  func showPreview(_ id: String, _ calls: Journal<String>) async throws -> (OwnerScopedQueue, RequestOperation<String>) {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let handlers = OwnerScopedQueue(name: "handlers")
    let client = RequestClient(baseURL: server.base, queue: handlers, cache: cache)
    var request = Request(.get, "held?id=\(id)&body=fresh")
    request.cache = .cachedThenFresh
    let stored = CachedResponse(
      head: ResponseHead(status: 200, headers: [:], url: server.base), body: Data("stored".utf8), storedAt: Date())
    cache.store(stored, for: TransferKey(try request.urlRequest(relativeTo: server.base)))
    handlers.isSuspended = true
    let operation = client.send(request, lifetime: .process, decoding: .string) { result in
      switch result {
      case .success(let response): calls.write(response.value)
      case .failure(.cancelled): calls.write("cancelled")
      case .failure(let error): calls.write("\(error)")
      }
    }
    try await server.reaches(.open, of: id, 1)
    #expect(handlers.statistics.enqueued == 1)
    return (handlers, operation)
  }

  @Test func noPreviewComesAfterTheRequestWasCancelled() async throws {
    let calls = Journal<String>()
    let (handlers, operation) = try await showPreview("preview-cancelled", calls)
    operation.cancel()
    handlers.isSuspended = false
    try await calls.reaches(1)
    await handlers.finished()
    #expect(calls.entries == ["cancelled"])
  }

  /// Between the look whether the request is over and the call, it may have been cancelled.
  @Test func noPreviewIsTakenAfterTheLastCall() {
    let calls = Journal<String>()
    let handler = HandlerCalls<String>(lifetime: .process) { take, whenOver in
      if let outcome = take() { calls.write(outcome) }
      whenOver()
      return true
    }
    handler.show("stored")
    handler.finish("cancelled", dropsPreviews: true)
    handler.show("stored again")
    handler.finish("once more", dropsPreviews: false)
    #expect(calls.entries == ["stored", "cancelled"])
  }

  @Test func aPreviewThatTheAnswerOvertakesStillComesFirst() async throws {
    let calls = Journal<String>()
    let (handlers, operation) = try await showPreview("preview-overtaken", calls)
    try await server.release("preview-overtaken")
    #expect(try await soon { operation.isFinished })
    handlers.isSuspended = false
    try await calls.reaches(2)
    #expect(calls.entries == ["stored", "fresh"])
  }
}

/// Calls that wait for the queue of handlers when all that it has is cancelled.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct DroppedCallTests {
  private let server = LoopbackServer.shared!

  @Test func aPreviewAndTheCallAfterItOutliveTheCancellationOfTheirQueue() async throws {
    let calls = Journal<String>()
    let (handlers, operation) = try await PreviewTests().showPreview("preview-dropped", calls)
    handlers.cancelAllOperations()
    #expect(handlers.statistics.cancelled == 1)
    try await server.release("preview-dropped")
    #expect(try await soon { operation.isFinished && handlers.statistics.enqueued == 2 })
    handlers.isSuspended = false
    #expect(try await soon { calls.entries.count == 2 })
    #expect(calls.entries == ["stored", "fresh"])
  }

  /// Sends a request whose handler waits for its queue, which is suspended.
  private func send(_ owner: Screen, _ calls: Journal<Int>, _ watched: Guarded<WeakProbe>) async throws -> OwnerScopedQueue {
    let handlers = OwnerScopedQueue(name: "handlers")
    handlers.isSuspended = true
    let probe = Probe()
    watched.withLock { $0.object = probe }
    server.client().send(Request(.get, "status?status=200"), owner: owner, decoding: .data, on: handlers) { _, result in
      withExtendedLifetime(probe) { calls.write((try? result.get().status) ?? 0) }
    }
    #expect(try await soon { handlers.statistics.enqueued == 1 })
    return handlers
  }

  private final class Probe: Sendable {}
  private struct WeakProbe { weak var object: Probe? }

  @Test func theLastCallIsMadeOnceHoweverOftenItsQueueIsCancelled() async throws {
    let (screen, calls, watched) = (Screen(), Journal<Int>(), Guarded(WeakProbe()))
    let handlers = try await send(screen, calls, watched)
    for round in 1...3 {
      handlers.cancelAllOperations()
      #expect(try await soon { handlers.statistics.enqueued == 1 + round })
    }
    handlers.isSuspended = false
    #expect(try await soon { calls.entries == [200] })
    #expect(try await soon { watched.withLock { $0.object == nil } })
    handlers.cancelAllOperations()
    await handlers.finished()
    #expect(calls.entries == [200] && handlers.statistics.enqueued == 4)
  }

  @Test func theEndOfTheOwnerTakesACallAwayThatItsQueueHasDropped() async throws {
    let (calls, watched) = (Journal<Int>(), Guarded(WeakProbe()))
    let handlers: OwnerScopedQueue
    do {
      let screen = Screen()
      handlers = try await send(screen, calls, watched)
      handlers.cancelAllOperations()
      #expect(try await soon { handlers.statistics.enqueued == 2 })
    }
    #expect(try await soon { watched.withLock { $0.object == nil } })
    handlers.isSuspended = false
    await handlers.finished()
    #expect(calls.entries.isEmpty && handlers.statistics.enqueued == 2)
  }

  /// What is dropped because the owner has ended, or gone, is not added again and again.
  @Test func aCallForNobodyIsSubmittedOnce() {
    let submitted = Guarded(0)
    let ended = OwnerLifetime()
    for isSubmitted in [true, false] {
      let lifetime = isSubmitted ? ended : .process
      ended.end()
      let handler = HandlerCalls<Int>(lifetime: lifetime) { _, _ in
        submitted.withLock { $0 += 1 }
        return isSubmitted
      }
      handler.finish(1, dropsPreviews: false)
    }
    #expect(submitted.withLock { $0 } == 2)
  }
}
