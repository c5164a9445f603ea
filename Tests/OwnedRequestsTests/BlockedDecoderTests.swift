import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Decoders that block hold up decoders, and nothing else.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct BlockedDecoderTests {
  private let server = LoopbackServer.shared!

  /// GCD's threads for decoders come one in a second once there are as many as processors.
  @Test func aLimitOfTimeHoldsBehindDecodersThatBlock() async throws {
    // So many that what waits behind them all has no thread for longer than `soon`.
    let count = ProcessInfo.processInfo.activeProcessorCount + 100
    let gate = Gate()
    defer { gate.open() }
    let client = server.client { $0.maxConcurrentRequestsPerHost = count + 1 }
    let received = Journal<Int>()
    let decoder = ResponseDecoder<Int> { data, _ in
      received.write(1)
      gate.wait()
      return data.count
    }
    let requests = (0..<count).map { number in
      client.send(Request(.get, "held?id=blocked-decoded&body=\(number)"), lifetime: .process, decoding: decoder) { _ in }
    }
    // Answered when all are there. What the server says to that is decoded behind the others.
    try await server.reaches(.open, of: "blocked-decoded", count)
    async let released: Void = server.release("blocked-decoded")
    // All have come, though few are being decoded.
    #expect(try await soon { client.hub.sharerCount == 0 && !received.entries.isEmpty })
    var hanging = Request(.get, "hang?id=blocked-decoders")
    hanging.timeout = .milliseconds(100)
    let ended = Journal<Bool>()
    client.send(hanging, lifetime: .process, decoding: .data) { result in
      if case .failure(.timedOut) = result { ended.write(true) } else { ended.write(false) }
    }
    #expect(try await soon { ended.entries == [true] })
    #expect(requests.allSatisfy { !$0.isFinished })
    gate.open()
    try await released
  }
}
