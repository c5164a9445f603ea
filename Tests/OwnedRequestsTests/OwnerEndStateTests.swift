import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// An owner ends while its request is in one state after the other.
///
/// In other suites are the ends: before the start and in line for a host (`ClientOwnerTests`, `QueuedRequestsTests`), while an interceptor
/// adapts, under way, between attempts, before the handler (`ClientOwnerTests`), as one of several owners of a transfer
/// (`CoalescingTests`), of a download (`DownloadTests`, `StalledDownloadTests`), of a batch, between the links of a chain (`ClientTests`),
/// and with a form that is sent (`FormLayoutTests`).
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct OwnerEndStateTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// Ends the owner on a thread of its own. Whoever ends it waits for nothing of what is under way.
  private func end<Value>(_ lifetime: OwnerLifetime, of operation: RequestOperation<Value>) async throws {
    #expect(!operation.isFinished)
    #expect(try await returns { lifetime.end() })
    // What is under way hears of it in the background.
    await operation.finished()
    guard case .cancelled(.ownerEnded(operation.ownerID))? = operation.outcome, case .failure(.cancelled(.ownerEnded))? = operation.result
    else {
      Issue.record("\(String(describing: operation.outcome)), \(String(describing: operation.result))")
      return
    }
  }

  private struct Weak { weak var object: (any RegisteredRequest)? }

  /// What is still under way for it holds the operation. So all of that is over when this returns.
  private func expectGone(_ watched: Guarded<Weak>) async throws {
    #expect(try await eventually { watched.withLock { $0.object == nil } })
  }

  // MARK: Decisions

  private struct Undecided: RequestInterceptor {
    let asked = Journal<Int>()
    let cancelled = Journal<Bool>()

    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      asked.write(attempt)
      do { try await Task.sleep(for: .seconds(600)) } catch { cancelled.write(Task.isCancelled) }
      return .retry
    }
  }

  @Test func whileAnInterceptorDecidesOnAnotherAttempt() async throws {
    let undecided = Undecided()
    let client = server.client { $0.interceptors = [undecided] }
    let lifetime = OwnerLifetime()
    let calls = Journal<Int>()
    var request = Request(.get, "flaky?id=ends-deciding&failures=1")
    // Its limit of time would cancel the interceptor, too.
    request.timeout = .seconds(600)
    let operation = client.send(request, lifetime: lifetime, decoding: .data) { _ in calls.write(1) }
    try await undecided.asked.reaches(1)
    try await end(lifetime, of: operation)
    try await undecided.cancelled.reaches(1)
    #expect(undecided.cancelled.entries == [true])
    #expect(try await server.tell(.count, of: "ends-deciding") == 1)
    #expect(calls.entries.isEmpty)
  }

  // MARK: Decoding

  /// Keeps its thread until it is let go.
  private func gated(_ entered: Journal<Int>, _ gate: Gate, accepts: Bool) -> ResponseDecoder<Int> {
    ResponseDecoder { data, _ in
      entered.write(data.count)
      gate.wait()
      guard accepts else { throw UndecodableText(characterSet: "none") }
      return data.count
    }
  }

  /// Ends the owner of a request that stands at the gate, and lets it go on. Nothing comes of it, and nothing is left.
  private func endAtGate<Value>(
    _ gate: Gate, _ entered: Journal<Int>, _ client: RequestClient, _ request: Request, decoding decoder: ResponseDecoder<Value>
  ) async throws {
    let (lifetime, calls) = (OwnerLifetime(), Journal<Int>())
    let watched: Guarded<Weak>
    do {
      let operation = client.send(request, lifetime: lifetime, decoding: decoder) { _ in calls.write(1) }
      watched = Guarded(Weak(object: operation))
      try await entered.reaches(1)
      try await end(lifetime, of: operation)
    }
    gate.open()
    try await expectGone(watched)
    await client.queue.finished()
    #expect(calls.entries.isEmpty)
  }

  /// Validation that looks at the body is a decoder's.
  @Test(arguments: [true, false]) func whileTheAnswerIsDecoded(accepts: Bool) async throws {
    let (entered, gate) = (Journal<Int>(), Gate())
    defer { gate.open() }
    let decoder = gated(entered, gate, accepts: accepts)
    try await endAtGate(gate, entered, server.client(), Request(.get, "status?status=200&body=four"), decoding: decoder)
    #expect(entered.entries == [4])
  }

  @Test func whileTheAnswerOfASharedTransferIsDecodedForIt() async throws {
    let (entered, gate, calls) = (Journal<Int>(), Gate(), Journal<Int>())
    defer { gate.open() }
    let (ends, stays) = (OwnerLifetime(), OwnerLifetime())
    let client = server.client()
    let request = Request(.get, "held?id=ends-shared&body=four")
    let first = client.send(request, lifetime: ends, decoding: gated(entered, gate, accepts: true)) { _ in calls.write(1) }
    // Several: hardly ever is the one at the gate told last.
    let others = (0..<8).map { _ in client.send(request, lifetime: stays, decoding: .string) { _ in calls.write(2) } }
    try await server.reaches(.open, of: "ends-shared", 1)
    #expect(try await eventually { client.hub.sharerCount == others.count + 1 })
    try await server.release("ends-shared")
    try await entered.reaches(1)
    try await end(ends, of: first)
    // Who decodes holds nobody up.
    for other in others { #expect(try await other.value.value == "four") }
    try await calls.reaches(others.count)
    #expect(calls.entries == Array(repeating: 2, count: others.count))
  }

  // MARK: The cache

  @Test func whileTheCacheIsRead() async throws {
    let (entered, gate) = (Journal<Int>(), Gate())
    defer { gate.open() }
    let cache = try ResponseCache(
      directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000, leastPendingLimit: 0,
      willRead: {
        entered.write(1)
        gate.wait()
      })
    var request = Request(.get, "echo?id=ends-cache")
    request.cache = .forTime(.seconds(600))
    try await endAtGate(gate, entered, RequestClient(baseURL: server.base, cache: cache), request, decoding: .data)
    #expect(try await server.tell(.count, of: "ends-cache") == 0)
  }

  @Test func whileWhatTheCacheShowsIsDecoded() async throws {
    let cache = try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0)
    let client = RequestClient(baseURL: server.base, cache: cache)
    var request = Request(.get, "flaky?id=ends-preview&failures=0")
    request.cache = .cachedThenFresh
    _ = try await client.response(to: request, lifetime: .process, decoding: .data)
    let (entered, gate) = (Journal<Int>(), Gate())
    defer { gate.open() }
    try await endAtGate(gate, entered, client, request, decoding: gated(entered, gate, accepts: true))
    #expect(entered.entries == [1])
    #expect(try await server.tell(.count, of: "ends-preview") == 1)
  }

  // MARK: Files

  /// Whoever reads the file waits until this is closed. Returns once somebody has it open.
  private func writerOfFIFO(at path: String) async throws -> Int32 {
    let writer = Guarded<Int32>(-1)
    #expect(
      try await eventually {
        let file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
        writer.withLock { $0 = file }
        return file >= 0
      })
    return writer.withLock { $0 }
  }

  @Test func whileTheFileOfAnUploadIsMade() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    client.send(Request(.get, "held?id=ends-layout-first"), lifetime: .process, decoding: .empty) { _ in }
    try await server.reaches(.open, of: "ends-layout-first", 1)
    let file = try directory.file("part", Data(count: 1000))
    var form = MultipartForm()
    try form.append(file: file, name: "part")
    let (lifetime, calls) = (OwnerLifetime(), Journal<Int>())
    let request = Request(.post, "echo?id=ends-layout", parameters: .multipart(form))
    let (watched, writer): (Guarded<Weak>, Int32)
    do {
      let operation = client.send(request, lifetime: lifetime, decoding: .data) { _ in calls.write(1) }
      watched = Guarded(Weak(object: operation))
      #expect(try await eventually { client.hub.limits.waitingCount == 1 })
      // It was in order when the request began.
      #expect(unlink(file.path) == 0 && mkfifo(file.path, 0o600) == 0)
      try await server.release("ends-layout-first")
      writer = try await writerOfFIFO(at: file.path)
      try await end(lifetime, of: operation)
    }
    // Its turn is another's at once, though it is still reading.
    #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
    close(writer)
    try await expectGone(watched)
    #expect(try await server.tell(.count, of: "ends-layout") == 0)
    #expect(calls.entries.isEmpty)
  }

  @Test func whileADownloadWaitsForAnotherThatHasTheFile() async throws {
    let target = directory.url.appendingPathComponent("file")
    let client = server.client()
    let first = client.download(Request(.get, "held?id=ends-taken&body=first"), to: target, lifetime: .process)
    try await server.reaches(.open, of: "ends-taken", 1)
    // The second looks for the file again and again, though not without end: it is not to be through with that before its owner ends.
    let timers = await HeldTimers()
    let lifetime = OwnerLifetime()
    let watched: Guarded<Weak>
    do {
      let second = client.download(Request(.get, "bytes?id=ends-taking&length=5"), to: target, lifetime: lifetime)
      watched = Guarded(Weak(object: second))
      #expect(try await eventually { second.isExecuting })
      try await end(lifetime, of: second)
    }
    timers.goOn()
    // The file is free for who still looks for it.
    try await server.release("ends-taken")
    _ = try await first.value
    try await expectGone(watched)
    #expect(try Data(contentsOf: target) == Data("first".utf8))
    #expect(try await server.tell(.count, of: "ends-taking") == 0)
  }

  // MARK: Hosts

  @Test func whileItWaitsForItsTurnAfterARedirect() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    client.send(Request(.get, server.other.absoluteString + "/held?id=ends-other"), lifetime: .process, decoding: .empty) { _ in }
    try await server.reaches(.open, of: "ends-other", 1)
    let to = server.other.absoluteString + "/echo?id=ends-redirected"
    let (lifetime, calls) = (OwnerLifetime(), Journal<Int>())
    let request = Request(.get, "redirect", parameters: .form(["id": "ends-redirect", "to": .string(to)]))
    let operation = client.send(request, lifetime: lifetime, decoding: .data) { _ in calls.write(1) }
    #expect(try await eventually { client.hub.limits.waitingCount == 1 })
    try await end(lifetime, of: operation)
    // It may have finished a moment before it has left the line.
    #expect(try await eventually { client.hub.limits.waitingCount == 0 })
    try await server.release("ends-other")
    let last = Request(.get, server.other.absoluteString + "/echo")
    #expect(try await client.response(to: last, lifetime: .process, decoding: .data).status == 200)
    #expect(try await server.tell(.count, of: "ends-redirected") == 0)
    #expect(calls.entries.isEmpty)
  }

  // MARK: Several requests

  @Test func whileABatchIsPartlyAnsweredAndPartlyInLine() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 2 }
    let lifetime = OwnerLifetime()
    for number in 0..<2 {
      client.send(Request(.post, "held?id=ends-batch-first&n=\(number)"), lifetime: .process, decoding: .empty) { _ in }
    }
    try await server.reaches(.open, of: "ends-batch-first", 2)
    var requests = (0..<3).map { Request(.post, "status?id=ends-batch-answered&status=200&n=\($0)") }
    requests += (0..<2).map { Request(.get, "hang?id=ends-batch&n=\($0)") }
    requests += (0..<5).map { Request(.post, "echo?id=ends-batch-line&n=\($0)") }
    // In line in the order of their priorities.
    for index in requests.indices { requests[index].priority = index < 3 ? .veryHigh : index < 5 ? .normal : .veryLow }
    let batch = Task { [requests] in await failure { _ = try await client.responses(to: requests, lifetime: lifetime, decoding: .data) } }
    #expect(try await eventually { client.hub.limits.waitingCount == 10 })
    try await server.release("ends-batch-first")
    try await server.reaches(.open, of: "ends-batch", 2)
    #expect(client.hub.limits.waitingCount == 5)
    #expect(try await returns { lifetime.end() })
    guard case .cancelled(.ownerEnded)? = await batch.value else {
      Issue.record("\(String(describing: await batch.value))")
      return
    }
    try await server.reaches(.closed, of: "ends-batch", 2)
    _ = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data)
    #expect(try await server.tell(.count, of: "ends-batch-answered") == 3)
    #expect(try await server.tell(.count, of: "ends-batch-line") == 0)
  }

  /// Each link has an owner of its own.
  @Test func whileTheSecondLinkOfAChainIsUnderWay() async throws {
    let client = server.client()
    let owners = (0..<3).map { _ in OwnerLifetime() }
    let paths = ["status?status=200", "hang?id=ends-chain", "echo?id=ends-chain-last"]
    let links = zip(paths, owners).map { client.operation(for: Request(.get, $0), lifetime: $1, decoding: .data) }
    for (link, next) in zip(links, links.dropFirst()) {
      next.addDependency(link)
      next.dependencyPolicy = .requireSuccess
    }
    try OwnerScopedQueue().enqueue(links)
    try await server.reaches(.open, of: "ends-chain", 1)
    // The first is over, and what becomes of its owner is nobody else's affair.
    owners[0].end()
    #expect(links[0].response != nil && !links[1].isFinished)
    try await end(owners[1], of: links[1])
    try await server.reaches(.closed, of: "ends-chain", 1)
    guard case .cancelled(.dependencyFailed)? = await failure({ _ = try await links[2].value }) else {
      Issue.record("\(String(describing: links[2].result))")
      return
    }
    #expect(try await server.tell(.count, of: "ends-chain-last") == 0)
  }
}
