import Foundation
import OwnedOperations
import Synchronization
import Testing

@testable import OwnedRequests

/// Code of the user's that blocks in the background holds up what blocks there, and nothing else.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct BackgroundTests {
  private let server = LoopbackServer.shared!

  /// GCD's threads for it would come one in a second.
  @Test func eachDecoderBeginsThoughAllBeforeItBlock() async throws {
    let count = 40
    let gate = DispatchSemaphore(value: 0)
    let begun = Atomic(0)
    let client = server.client { $0.maxConcurrentRequestsPerHost = count }
    let decoder = ResponseDecoder<Int> { data, _ in
      begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
      gate.wait()
      return data.count
    }
    defer { for _ in 0..<count { gate.signal() } }
    let requests = (0..<count).map { number in
      client.send(Request(.get, "status?status=200&body=\(number)"), lifetime: .process, decoding: decoder) { _ in }
    }
    #expect(try await soon { begun.load(ordering: .sequentiallyConsistent) == count })
    let other = try await client.response(to: Request(.get, "status?status=200&body=other"), lifetime: .process, decoding: .string)
    #expect(other.value == "other")
    var hanging = Request(.get, "hang?id=background")
    hanging.timeout = .milliseconds(100)
    let error = await failure { [hanging] in _ = try await client.response(to: hanging, lifetime: .process, decoding: .data) }
    guard case .timedOut = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(requests.allSatisfy { !$0.isFinished })
  }
}
