import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct ClientTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()

  private func echo(_ client: RequestClient, _ request: Request) async throws -> Echo {
    try await client.response(to: request, lifetime: lifetime, decoding: .json(Echo.self)).value
  }

  // MARK: Answers

  @Test func aResponseHoldsWhatTheServerSaid() async throws {
    let request = Request(.get, "status", parameters: .form(["status": 201, "body": "made", "headers": #"{"X-One": "1"}"#]))
    let response = try await server.client().response(to: request, lifetime: lifetime, decoding: .string)
    #expect(response.value == "made")
    #expect(response.status == 201)
    #expect(response.headers["x-one"] == "1")
    #expect(response.url.path == "/status")
    #expect(response.source == .network)
    #expect(response.attempts == 1)
  }

  @Test(arguments: Request.Method.allCases.filter { $0 != .head })
  func everyMethodReachesTheServer(method: Request.Method) async throws {
    let told = try await echo(server.client(), Request(method, "echo", parameters: .form(["a": [1, 2]]), headers: ["X-Name": "value"]))
    #expect(told.method == method.rawValue)
    #expect(told.headers["x-name"] == "value")
    let isInQuery = [.get, .delete].contains(method)
    #expect(told.query == (isInQuery ? "a%5B%5D=1&a%5B%5D=2" : ""))
    #expect(told.body == (isInQuery ? "" : "a%5B%5D=1&a%5B%5D=2"))
  }

  @Test func answersWithoutABodyAreAnswers() async throws {
    let client = server.client()
    var request = Request(.head, "status?status=200&body=unsent")
    #expect(try await client.response(to: request, lifetime: lifetime, decoding: .data).value.isEmpty)
    request = Request(.get, "status?status=204")
    #expect(try await client.response(to: request, lifetime: lifetime, decoding: .data).status == 204)
    request = Request(.get, "status?status=304")
    request.acceptedStatus = 304..<305
    #expect(try await client.response(to: request, lifetime: lifetime, decoding: .data).status == 304)
    try await client.response(to: Request(.delete, "status?status=200"), lifetime: lifetime, decoding: .empty).value
  }

  @Test func anErrorKeepsTheHeadersThatTheServerSentIfAskedTo() async throws {
    let screen = Screen()
    let headers = #"{"Retry-After": "7"}"#
    let request = Request(.get, "status", parameters: .form(["status": 429, "body": "busy", "headers": .string(headers)]))
    do {
      _ = try await server.client().response(to: request, owner: screen, decoding: .data, throwing: RequestFailure.self)
      Issue.record("no failure")
    } catch {
      guard case .status(429, body: Data("busy".utf8)) = error.error else {
        Issue.record("\(error)")
        return
      }
      #expect(error.head?.headers["retry-after"] == "7" && error.head?.status == 429 && error.head?.url.path == "/status")
    }
    let unreadable = Request(.get, "status", parameters: .form(["status": 200, "body": "no number", "headers": .string(headers)]))
    do {
      _ = try await server.client().response(to: unreadable, lifetime: .process, decoding: .json(Int.self), throwing: RequestFailure.self)
      Issue.record("no failure")
    } catch {
      guard case .decoding = error.error else {
        Issue.record("\(error)")
        return
      }
      #expect(error.head?.headers["Retry-After"] == "7")
    }
    do {
      let refused = Request(.get, "http://127.0.0.1:1/")
      _ = try await server.client().response(to: refused, lifetime: .process, decoding: .data, throwing: RequestFailure.self)
      Issue.record("no failure")
    } catch { #expect(error.head == nil) }
    withExtendedLifetime(screen) {}
  }

  @Test func aStatusThatIsNotAcceptedIsAnErrorThatKeepsWhatTheServerSaid() async throws {
    let client = server.client()
    let request = Request(.get, "status", parameters: .form(["status": 418, "body": "teapot", "headers": #"{"X-Why": "tea"}"#]))
    let operation = client.operation(for: request, lifetime: lifetime, decoding: .string)
    OwnerScopedQueue().addOperation(operation)
    let error = await failure { _ = try await operation.value }
    guard case .status(418, body: let body) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(body == Data("teapot".utf8))
    #expect(operation.head?.headers["x-why"] == "tea")
    #expect(operation.response == nil)
    var accepting = request
    accepting.acceptedStatus = 400..<500
    #expect(try await client.response(to: accepting, lifetime: lifetime, decoding: .string).value == "teapot")
  }

  @Test func anAnswerThatCannotBeDecodedIsAnErrorThatKeepsIt() async throws {
    let client = server.client()
    let error = await failure {
      _ = try await client.response(to: Request(.get, "status?status=200&body=nonsense"), lifetime: lifetime, decoding: .json([Int].self))
    }
    guard case .decoding(let reason, body: let body) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(reason is DecodingError)
    #expect(body == Data("nonsense".utf8))
  }

  private struct Notes: RequestInterceptor {
    let heads = Journal<ResponseHead?>()
    func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision {
      heads.write(head)
      return .asUsual
    }
  }

  @Test func theHeadersOfAnErrorAreThereBeforeAnybodyHearsOfIt() async throws {
    let notes = Notes()
    let client = server.client { $0.interceptors = [notes] }
    let heard = Journal<HeaderFields?>()
    let operations = Journal<RequestOperation<Data>>()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    for (status, path) in [(429, "status"), (200, "status")] {
      let parameters: [String: ParameterValue] = ["status": .integer(status), "body": "why", "headers": #"{"X-Why": "busy"}"#]
      let number = operations.entries.count
      let decoder = status == 200 ? ResponseDecoder<Data> { data, _ in throw UndecodableText(characterSet: "\(data.count)") } : .data
      operations.write(
        client.send(Request(.get, path, parameters: .form(parameters)), lifetime: lifetime, decoding: decoder, on: queue) { _ in
          heard.write(operations.entries[number].head?.headers)
        })
    }
    for operation in operations.entries {
      _ = await failure { _ = try await operation.value }
      #expect(operation.head?.headers["x-why"] == "busy")
    }
    queue.isSuspended = false
    try await heard.reaches(2)
    #expect(heard.entries.map { $0?["x-why"] } == ["busy", "busy"])
    // The answer that can't be decoded is no failure of the server's.
    #expect(notes.heads.entries.map { $0?.headers["x-why"] } == ["busy"])
    var accepting = Request(.get, "status", parameters: .form(["status": 503, "body": "why", "headers": #"{"X-Why": "busy"}"#]))
    accepting.acceptedStatus = 100..<600
    let response = try await client.response(to: accepting, lifetime: lifetime, decoding: .string)
    #expect(response.status == 503 && response.value == "why" && response.headers["x-why"] == "busy")
  }

  @Test func badInputIsToldAndNothingIsSent() async throws {
    let client = server.client()
    let error = await failure {
      _ = try await client.response(to: Request(.get, "echo?id=bad-input", headers: ["X": "a\r\nb"]), lifetime: lifetime, decoding: .data)
    }
    #expect(error?.explanation?.contains("\"X\"") == true)
    #expect(try await server.tell(.count, of: "bad-input") == 0)
  }

  // MARK: Uploads

  @Test func filesAreSentWithTheirLength() async throws {
    let directory = try TemporaryDirectory()
    let content = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    let file = try directory.file("upload.bin", content)
    let told = try await echo(server.client(), Request(.put, "echo", parameters: .file(file, contentType: "image/x")))
    #expect(told.length == content.count)
    #expect(told.headers["content-length"] == "\(content.count)")
    #expect(told.headers["transfer-encoding"] == nil)
    #expect(told.headers["content-type"] == "image/x")
  }

  @Test func formsWithFilesAreSentWithTheirLength() async throws {
    let directory = try TemporaryDirectory()
    var form = MultipartForm()
    form.append(Data("Ann".utf8), name: "author")
    try form.append(file: directory.file("a.txt", Data(repeating: 65, count: 2_000_000)), name: "attachment")
    let told = try await echo(server.client(), Request(.post, "echo", parameters: .multipart(form)))
    #expect(told.headers["content-length"] == "\(form.contentLength)")
    #expect(told.headers["transfer-encoding"] == nil)
    #expect(told.headers["content-type"] == form.contentType)
    #expect(told.length == Int(form.contentLength))
    #expect(told.body.contains("name=\"author\"\r\n\r\nAnn\r\n"))
  }

  @Test(arguments: [true, false]) func progressIsToldToItsEnd(isUpload: Bool) async throws {
    let body = Parameters.data(Data(count: 500_000), contentType: "application/octet-stream")
    let request = isUpload ? Request(.put, "echo", parameters: body) : Request(.get, "bytes?length=500000")
    let operation = server.client().operation(for: request, lifetime: lifetime, decoding: .data)
    let progress = operation.progress
    OwnerScopedQueue().addOperation(operation)
    var (moved, toMove) = (Int64(0), Int64?.none)
    for await step in progress {
      #expect((isUpload ? step.bytesSent : step.bytesReceived) >= moved)
      (moved, toMove) = isUpload ? (step.bytesSent, step.bytesToSend) : (step.bytesReceived, step.bytesToReceive)
    }
    #expect(moved == 500_000 && toMove == 500_000)
    let answer = try #require(operation.response?.value)
    #expect(try (isUpload ? JSONDecoder().decode(Echo.self, from: answer).length : answer.count) == 500_000)
  }

  // MARK: Operations

  @Test func nothingIsSentBeforeAQueueStartsTheOperation() async throws {
    let operation = server.client().operation(for: Request(.get, "echo?id=unstarted"), lifetime: lifetime, decoding: .data)
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    queue.addOperation(operation)
    #expect(try await server.tell(.count, of: "unstarted") == 0)
    queue.isSuspended = false
    _ = try await operation.value
    #expect(try await server.tell(.count, of: "unstarted") == 1)
  }

  @Test func aChainGoesOnWithTheResultOfItsFirst() async throws {
    let client = server.client()
    let first = client.operation(for: Request(.get, "status?status=200&body=one"), lifetime: lifetime, decoding: .string)
    let seen = Journal<String?>()
    let second = OwnedBlockOperation(lifetime: lifetime) { seen.write(first.response?.value) }
    second.addDependency(first)
    second.dependencyPolicy = .requireSuccess
    try OwnerScopedQueue().enqueue([first, second])
    _ = try await eventually { second.isFinished }
    #expect(seen.entries == ["one"])
  }

  @Test func aChainEndsWithItsFirstFailure() async throws {
    let client = server.client()
    let first = client.operation(for: Request(.get, "status?status=500"), lifetime: lifetime, decoding: .string)
    let second = client.operation(for: Request(.get, "echo?id=chain"), lifetime: lifetime, decoding: .data)
    second.addDependency(first)
    second.dependencyPolicy = .requireSuccess
    try OwnerScopedQueue().enqueue([first, second])
    guard case .cancelled(.dependencyFailed) = await failure({ _ = try await second.value }) else {
      Issue.record("the second ended with \(String(describing: second.result))")
      return
    }
    #expect(try await server.tell(.count, of: "chain") == 0)
  }

  /// Between two links: the first is over, and the second has not been sent.
  @Test func aChainEndsWithItsOwner() async throws {
    let client = server.client()
    let owner = OwnerLifetime()
    let queue = OwnerScopedQueue()
    let first = client.operation(for: Request(.get, "status?status=200"), lifetime: owner, decoding: .string)
    let second = client.operation(for: Request(.get, "echo?id=chain-owner"), lifetime: owner, decoding: .data)
    second.addDependency(first)
    second.dependencyPolicy = .requireSuccess
    queue.addOperation(first)
    _ = try await first.value
    queue.setSuspended(true, ownedBy: owner)
    queue.addOperation(second)
    owner.end()
    guard case .cancelled(.ownerEnded)? = await failure({ _ = try await second.value }) else {
      Issue.record("the second ended with \(String(describing: second.result))")
      return
    }
    #expect(try await server.tell(.count, of: "chain-owner") == 0)
  }

  // MARK: Limits

  @Test func noMoreThanTheLimitGoToOneHost() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 3 }
    let operations = (0..<12).map { number in
      client.send(Request(.get, "held?id=limit&n=\(number)"), lifetime: lifetime, decoding: .data) { _ in }
    }
    try await server.reaches(.open, of: "limit", 3)
    try await server.release("limit")
    for operation in operations { _ = try await operation.value }
    #expect(try await server.tell(.most, of: "limit") == 3)
    #expect(try await server.tell(.count, of: "limit") == 12)
  }

  @Test func moreUrgentRequestsOvertakeOthersThatWait() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let first = client.send(Request(.get, "held?id=urgent-gate"), lifetime: lifetime, decoding: .data) { _ in }
    try await server.reaches(.open, of: "urgent-gate", 1)
    var operations: [RequestOperation<Void>] = []
    for (number, priority) in [Operation.QueuePriority.veryLow, .normal, .veryHigh, .low, .high].enumerated() {
      var request = Request(.get, "order?id=urgent&n=\(number)")
      request.priority = priority
      let operation = client.operation(for: request, lifetime: lifetime, decoding: .empty)
      operation.start()
      operations.append(operation)
    }
    try await server.release("urgent-gate")
    _ = try await first.value
    var counts: [Int] = []
    for operation in operations { counts.append(Int(try #require(try await operation.value.headers["X-Order"])) ?? -1) }
    #expect(counts == [5, 3, 1, 4, 2])
  }
}
