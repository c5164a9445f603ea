import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Requests that are sent together, and end together.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct BatchTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()

  @Test func aBatchComesInTheOrderOfItsRequests() async throws {
    let requests = (0..<20).map { Request(.get, "status?status=200&body=\($0)") }
    let responses = try await server.client().responses(to: requests, lifetime: lifetime, decoding: .string)
    #expect(responses.map(\.value) == (0..<20).map(String.init))
    #expect(try await server.client().responses(to: [], lifetime: lifetime, decoding: .string).isEmpty)
  }

  @Test func theFirstFailureOfABatchCancelsTheRest() async throws {
    let client = server.client()
    let requests = [Request(.get, "hang?id=batch"), Request(.get, "hang?id=batch&n=2"), Request(.get, "cut-when-released?id=batch-fails")]
    async let error = failure { _ = try await client.responses(to: requests, lifetime: lifetime, decoding: .string) }
    try await server.reaches(.open, of: "batch", 2)
    try await server.reaches(.open, of: "batch-fails", 1)
    try await server.release("batch-fails")
    guard case .transport = await error else {
      Issue.record("\(String(describing: await error))")
      return
    }
    try await server.reaches(.closed, of: "batch", 2)
  }

  /// The owner form: the object goes, with its last reference.
  @Test func aBatchEndsWithItsOwner() async throws {
    let client = server.client()
    let requests = (0..<3).map { Request(.get, "hang?id=batch-owner&n=\($0)") }
    let batch = try await withScreen { screen in
      let batch = Task { [weak screen] in
        await failure {
          guard let lifetime = screen?.lifetime else { return }
          _ = try await client.responses(to: requests, lifetime: lifetime, decoding: .string)
        }
      }
      try await server.reaches(.open, of: "batch-owner", 3)
      return batch
    }
    guard case .cancelled(.ownerEnded)? = await batch.value else {
      Issue.record("\(String(describing: await batch.value))")
      return
    }
    try await server.reaches(.closed, of: "batch-owner", 3)
  }

  /// Nobody holds the screen when this returns.
  private func withScreen<Value>(_ body: (Screen) async throws -> Value) async rethrows -> Value { try await body(Screen()) }

  @Test func aBatchEndsWithItsTask() async throws {
    let client = server.client()
    let requests = (0..<3).map { Request(.get, "hang?id=batch-task&n=\($0)") }
    let batch = Task { await failure { _ = try await client.responses(to: requests, lifetime: .process, decoding: .string) } }
    try await server.reaches(.open, of: "batch-task", 3)
    batch.cancel()
    guard case .cancelled(.requested)? = await batch.value else {
      Issue.record("\(String(describing: await batch.value))")
      return
    }
    try await server.reaches(.closed, of: "batch-task", 3)
  }

  @Test func equalRequestsOfABatchShareATransferAndHaveAResponseEach() async throws {
    let requests = [Request](repeating: Request(.get, "held?id=batch-equal&body=once"), count: 5)
    let client = server.client()
    async let responses = client.responses(to: requests, lifetime: lifetime, decoding: .string)
    #expect(try await soon { client.hub.sharerCount == 5 })
    try await server.release("batch-equal")
    #expect(try await responses.map(\.value) == [String](repeating: "once", count: 5))
    #expect(try await server.tell(.count, of: "batch-equal") == 1)
  }

  // MARK: Beside others

  /// Is asked about a request until that is cancelled, which takes as long as the gate is shut; and fails another.
  private struct Unwilling: RequestInterceptor {
    struct Refusal: Error {}

    let asked = Journal<String>()
    let gate = Gate()
    /// Shut until the others may get in line.
    let line = Gate()
    /// Shut until the batch has to fail.
    let failure = Gate()

    private func wait(for gate: Gate) async {
      await withCheckedContinuation { continuation in
        Thread.detachNewThread {
          gate.wait()
          continuation.resume()
        }
      }
    }

    func adapt(_ request: URLRequest) async throws -> URLRequest {
      let query = request.url?.query ?? ""
      if query.hasSuffix("next") { await wait(for: line) }
      if query == "refused" {
        await wait(for: failure)
        throw Refusal()
      }
      guard query == "unwilling" else { return request }
      await withTaskCancellationHandler {
        asked.write("asked")
        // Not before the one who cancels is through: a task that goes on would wait for him, in a thread of the pool.
        await wait(for: gate)
      } onCancel: {
        asked.write("cancelled")
        gate.wait()
      }
      return request
    }
  }

  private struct Scene: Sendable {
    let interceptor: Unwilling
    let client: RequestClient
    let batch: Task<RequestError?, Never>
    /// Calls of the handler of somebody else, whose request is last in line.
    let others: Journal<Int>
  }

  /// A batch of four at a host that takes one request at a time: one that has the turn, one that is not cancelled soon, one in line, one
  /// about to fail.
  private func scene(_ id: String) async throws -> Scene {
    let interceptor = Unwilling()
    let client = server.client {
      $0.interceptors = [interceptor]
      $0.maxConcurrentRequestsPerHost = 1
    }
    let requests = ["hang?id=\(id)", "echo?unwilling", "echo?id=\(id)-next", "echo?refused"].map { Request(.get, $0) }
    let (lifetime, others) = (lifetime, Journal<Int>())
    // Whoever cancels is blocked meanwhile: no thread of the pool of tasks.
    let batch = Task(executorPreference: OwnerScopedQueue(name: "batch")) {
      await failure { _ = try await client.responses(to: requests, lifetime: lifetime, decoding: .string) }
    }
    try await server.reaches(.open, of: id, 1)
    interceptor.line.open()
    #expect(try await soon { client.hub.limits.waitingCount == 1 && interceptor.asked.entries == ["asked"] })
    client.send(Request(.get, "echo"), lifetime: .process, decoding: .data) { _ in others.write(1) }
    #expect(try await soon { client.hub.limits.waitingCount == 2 })
    return Scene(interceptor: interceptor, client: client, batch: batch, others: others)
  }

  @Test func whoHearsThatABatchHasFailedMayWaitForRequestsOfOthers() async throws {
    let scene = try await scene("batch-frees")
    defer { scene.interceptor.gate.open() }
    scene.interceptor.failure.open()
    #expect(try await soon { scene.interceptor.asked.entries.count == 2 && scene.others.entries == [1] })
    scene.interceptor.gate.open()
    guard case .interceptor(is Unwilling.Refusal)? = await scene.batch.value else {
      Issue.record("\(String(describing: await scene.batch.value))")
      return
    }
    #expect(try await server.tell(.count, of: "batch-frees-next") == 0)
  }

  /// A client whose cache has the answer to the request, and a batch of it and another, when the batch has the former. The turn of the host
  /// is somebody else's.
  private func shownBatch(_ id: String, _ path: String, beside other: String, _ interceptor: Unwilling) async throws -> (
    client: RequestClient, batch: Task<RequestError?, Never>
  ) {
    let client = RequestClient(
      baseURL: server.base, configuration: .ephemeral, cache: try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0))
    client.interceptors = [interceptor]
    client.maxConcurrentRequestsPerHost = 1
    var shown = Request(.get, path)
    shown.cache = .cachedThenFresh
    _ = try await client.response(to: shown, lifetime: lifetime, decoding: .data)
    client.send(Request(.get, "held?id=\(id)-turn"), lifetime: .process, decoding: .data) { _ in }
    try await server.reaches(.open, of: "\(id)-turn", 1)
    let requests = [shown, Request(.get, other)]
    // It runs what the answers have resumed; they have when the request is in line.
    let queue = OwnerScopedQueue(name: id)
    let batch = Task(executorPreference: queue) {
      await failure { _ = try await client.responses(to: requests, lifetime: .process, decoding: .data) }
    }
    #expect(
      try await soon {
        guard client.hub.limits.waitingCount == 1 else { return false }
        // Both of one moment: what begins between two looks would be in neither.
        let statistics = queue.statistics
        return statistics.pending + statistics.executing == 0
      })
    return (client, batch)
  }

  private func count(_ id: String, reaches count: Int) async throws -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while try await server.tell(.count, of: id) < count, ContinuousClock.now < deadline {
      try await Task.sleep(for: .milliseconds(5))
    }
    return try await server.tell(.count, of: id) == count
  }

  /// What the batch waited for it has. The rest comes under the lifetime.
  @Test func whatABatchHasShownIsRefreshedThoughAnotherFails() async throws {
    let interceptor = Unwilling()
    let (_, batch) = try await shownBatch("batch-shown", "echo?id=batch-shown", beside: "echo?refused", interceptor)
    interceptor.failure.open()
    guard case .interceptor(is Unwilling.Refusal)? = await batch.value else {
      Issue.record("\(String(describing: await batch.value))")
      return
    }
    try await server.release("batch-shown-turn")
    #expect(try await count("batch-shown", reaches: 2))
  }

  /// And what comes of the rest is nothing to the batch.
  @Test func aBatchGoesOnThoughWhatItHasShownCannotBeRefreshed() async throws {
    let (path, interceptor) = ("failing?id=batch-stale", Unwilling())
    let (client, batch) = try await shownBatch("batch-stale", path, beside: "echo?id=batch-stale-next", interceptor)
    interceptor.line.open()
    #expect(try await soon { client.hub.limits.waitingCount == 2 })
    try await server.release("batch-stale-turn")
    let error = await batch.value
    #expect(error == nil)
    #expect(try await server.tell(.count, of: "batch-stale-next") == 1)
  }

  @Test func nothingBeginsOfABatchWhoseTaskIsBeingCancelled() async throws {
    let scene = try await scene("batch-goes")
    defer {
      scene.interceptor.gate.open()
      scene.interceptor.failure.open()
    }
    Thread.detachNewThread { scene.batch.cancel() }
    #expect(try await soon { scene.interceptor.asked.entries.count == 2 && scene.others.entries == [1] })
    scene.interceptor.gate.open()
    guard case .cancelled(.requested)? = await scene.batch.value else {
      Issue.record("\(String(describing: await scene.batch.value))")
      return
    }
    #expect(try await server.tell(.count, of: "batch-goes-next") == 0)
  }
}
