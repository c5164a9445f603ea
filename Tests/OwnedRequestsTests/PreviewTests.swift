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
  private func showPreview(_ id: String, _ calls: Journal<String>) async throws -> (OwnerScopedQueue, RequestOperation<String>) {
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
    let handler = HandlerCalls<String> { take, whenOver in
      if let outcome = take() { calls.write(outcome) }
      whenOver()
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
