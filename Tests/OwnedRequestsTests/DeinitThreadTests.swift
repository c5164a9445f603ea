import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What is the user's goes on no thread that others wait for: its deinit may take its time.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct DeinitThreadTests {
  private let server = LoopbackServer.shared!

  /// Takes as long to go as the gate is shut.
  private final class Heavy: Sendable {
    private let gate: Gate
    private let going: Journal<Int>

    init(_ gate: Gate, _ going: Journal<Int>) { (self.gate, self.going) = (gate, going) }

    deinit {
      going.write(1)
      gate.wait()
    }
  }

  /// Waits for a transfer, and keeps the thread that tells of its progress until the gate is open.
  private final class Slow: TransferSubscriber {
    let called = Journal<Int>()
    let gate = Gate()
    let acceptedStatus = 200..<300
    var isWanted: Bool { true }
    func transferDidBegin(attempt: Int) {}
    func transferDidProgress(_ progress: TransferProgress, attempt: Int) {
      called.write(1)
      gate.wait()
    }
    func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int) {}
  }

  private func send(_ request: Request, _ client: RequestClient, _ heavy: Heavy) -> RequestOperation<Int> {
    client.send(request, lifetime: .process, decoding: ResponseDecoder { _, _ in withExtendedLifetime(heavy) { 0 } }) { _ in }
  }

  /// Whether requests of others are answered.
  private func areOthersAnswered() async throws -> Bool {
    let answered = Journal<Int>()
    server.client().send(Request(.get, "echo"), lifetime: .process, decoding: .data) { _ in answered.write(1) }
    return try await soon { answered.entries == [1] }
  }

  /// The session's own thread, which all sessions of the process share, has the last reference to a request that was cancelled.
  @Test func whatADecoderHasCapturedGoesOnNoThreadOfTheSessions() async throws {
    let (client, slow, gate, going) = (server.client(), Slow(), Gate(), Journal<Int>())
    defer {
      slow.gate.open()
      gate.open()
    }
    let request = Request(.get, "held?id=heavy")
    var operation: RequestOperation<Int>? = send(request, client, Heavy(gate, going))
    #expect(try await soon { client.hub.sharerCount == 1 })
    let prepared = try client.prepare(request)
    let outgoing = Outgoing(urlRequest: prepared.urlRequest, body: prepared.body)
    let place = client.hub.subscribe(slow, attempt: 1, to: outgoing, key: TransferKey(prepared.urlRequest), priority: .normal)
    // Answered when the session's thread is free.
    async let released: Void = server.release("heavy")
    try await slow.called.reaches(1)
    operation?.cancel()
    operation = nil
    slow.gate.open()
    try await going.reaches(1)
    #expect(try await areOthersAnswered())
    try await released
    withExtendedLifetime(place) {}
  }

  /// The timers' thread, which all of the process share, has the last reference to a request that went on after a wait.
  @Test func whatADecoderHasCapturedGoesOnNoThreadOfTheTimers() async throws {
    let (client, last, gate, going) = (server.client(), Gate(), Gate(), Journal<Int>())
    defer {
      last.open()
      gate.open()
    }
    let timers = await HeldTimers()
    // So many that are not cancelled that the line is not made shorter, whoever cancels something late: the count only grows.
    let others = (0..<TimerLine.shared.count + 1000).map { _ in TimerLine.shared.add(deadline: .distantFuture) {} }
    defer { for other in others { TimerLine.shared.cancel(other) } }
    let before = TimerLine.shared.count
    var request = Request(.get, "flaky?id=heavy-timer&failures=1")
    request.retry = .exponential(attempts: 2, base: .milliseconds(1))
    var operation: RequestOperation<Int>? = send(request, client, Heavy(gate, going))
    // That of its limit, and that of its wait. This is called together with one that is due later and keeps the thread.
    #expect(try await soon { TimerLine.shared.count >= before + 2 })
    let later = DispatchTime.now() + .milliseconds(2)
    _ = TimerLine.shared.add(deadline: later) { last.wait() }
    #expect(try await soon { DispatchTime.now() > later })
    timers.goOn()
    #expect(try await operation?.value.attempts == 2)
    operation = nil
    last.open()
    try await going.reaches(1)
    let called = Journal<Int>()
    _ = TimerLine.shared.add(deadline: .now()) { called.write(1) }
    #expect(try await soon { called.entries == [1] })
  }
}
