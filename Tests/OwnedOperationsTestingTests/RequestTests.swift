import Foundation
import OwnedOperations
import OwnedOperationsTesting
import OwnedRequests
import Synchronization
import Testing

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Requests beside queues with virtual time: the transfers are real, and answered within the process.
@Suite struct RequestTests {
  /// Answers by the path: with it, never, or with an error the first time that a number is asked for.
  private final class Answers: URLProtocol {
    private static let asked = Mutex<Set<String>>([])

    override class func canInit(with request: URLRequest) -> Bool { true }
    override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }
    override func stopLoading() {}

    override func startLoading() {
      guard let url = request.url, url.path != "/never" else { return }
      let isFirst = url.path.hasPrefix("/second") && Self.asked.withLock { $0.insert(url.path).inserted }
      let head = HTTPURLResponse(url: url, statusCode: isFirst ? 503 : 200, httpVersion: nil, headerFields: nil)
      guard let head else { return }
      client?.urlProtocol(self, didReceive: head, cacheStoragePolicy: .notAllowed)
      client?.urlProtocol(self, didLoad: Data(url.path.utf8))
      client?.urlProtocolDidFinishLoading(self)
    }
  }

  private final class Screen: Sendable {
    let log: Log
    init(_ log: Log) { self.log = log }
  }

  let time = VirtualTime(seed: 1)
  let log = Log()

  private func client() -> RequestClient {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.protocolClasses = [Answers.self]
    return RequestClient(
      baseURL: URL(string: "http://example.test"), queue: OwnerScopedQueue(virtualTime: time), configuration: configuration)
  }

  private func send(_ request: Request, of screen: Screen, by client: RequestClient) {
    client.send(request, owner: screen, decoding: .string) { screen, result in
      switch result {
      case .success(let response): screen.log.add("\(response.value), attempt \(response.attempts)")
      case .failure(let error): screen.log.add("\(error)")
      }
    }
  }

  /// Returns when the answer has come, and its handler waits for the test.
  private func answerComes() async throws {
    while time.pending.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
  }

  @Test(.timeLimit(.minutes(1))) func aHandlerRunsWhenTheTestSaysSo() async throws {
    let screen = Screen(log)
    send(Request(.get, "answer"), of: screen, by: client())
    try await answerComes()
    #expect(log.lines.isEmpty)
    time.runUntilIdle()
    #expect(log.lines == ["/answer, attempt 1"])
  }

  @Test(.timeLimit(.minutes(1))) func theScreenGoesBetweenTheAnswerAndItsHandler() async throws {
    var screen: Screen? = Screen(log)
    if let screen { send(Request(.get, "answer"), of: screen, by: client()) }
    try await answerComes()
    screen = nil
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    #expect(time.pending.isEmpty)
  }

  @Test(.timeLimit(.minutes(1))) func aSecondAttemptIsAnswered() async throws {
    var request = Request(.get, "second/\(UUID().uuidString)")
    request.retry = .exponential(attempts: 2, base: .milliseconds(1))
    let screen = Screen(log)
    send(request, of: screen, by: client())
    try await answerComes()
    time.runUntilIdle()
    #expect(log.lines == ["\("/" + request.url), attempt 2"])
  }

  @Test(.timeLimit(.minutes(1))) func theTimeOutOfAnOperationTakesNoTime() async throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let client = client()
    let operation = client.operation(for: Request(.get, "never"), lifetime: OwnerLifetime(), decoding: .string)
    operation.timeout = .seconds(30)
    queue.addOperation(operation)
    time.advance(by: .seconds(29))
    #expect(!operation.isFinished)
    time.advance(by: .seconds(1))
    if case .cancelled(.timedOut)? = operation.outcome {} else { Issue.record("it is \(operation.state)") }
    if case .failure(.timedOut)? = operation.result {} else { Issue.record("its result is another") }
  }

  /// The transfer goes on in real time, whatever the test's clock says.
  @Test(.timeLimit(.minutes(1))) func whatWaitsForATransferIsSuspendedElsewhere() async throws {
    let queue = OwnerScopedQueue(virtualTime: time, name: "queue")
    let owner = OwnerLifetime(name: "owner")
    let operation = client().operation(for: Request(.get, "never"), lifetime: owner, decoding: .string)
    operation.name = "download"
    queue.addOperation(operation)
    let outcome = time.runUntilIdle()
    #expect(outcome.isIdle)
    let suspended = outcome.suspendedElsewhere
    #expect(
      suspended.count == 1 && suspended.allSatisfy { "\($0)".hasSuffix("\"download\" of \"owner\" in \"queue\": suspended elsewhere") })
    owner.end()
    // The end comes to it from threads of the session's.
    while !operation.isFinished {
      time.runUntilIdle()
      await Task.yield()
    }
    #expect(time.runUntilIdle().suspendedElsewhere.isEmpty)
  }

  /// One after the other, as the dependency has it, each begun by the test.
  @Test(.timeLimit(.minutes(1))) func aRequestThatDependsOnAnotherBeginsWhenTheTestSaysSo() async throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let client = client()
    let (first, second) = (
      client.operation(for: Request(.get, "first"), lifetime: OwnerLifetime(), decoding: .string),
      client.operation(for: Request(.get, "then"), lifetime: OwnerLifetime(), decoding: .string)
    )
    second.addDependency(first)
    for operation in [first, second] { queue.addOperation(operation) }
    #expect(!first.isExecuting)
    #expect(time.runNext())
    #expect(try await first.value.value == "/first")
    await first.finished()
    #expect(!second.isExecuting && !second.isFinished)
    time.runUntilIdle()
    #expect(try await second.value.value == "/then")
  }
}
