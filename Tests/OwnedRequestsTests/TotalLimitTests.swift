import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// A client's limit is one for each host. What is under way in all is a queue's affair.
@Suite(.enabled(if: LoopbackServer.isThere)) struct TotalLimitTests {
  @Test func aQueuesLimitBoundsWhatItsClientsHaveUnderWayAtAllHosts() async throws {
    let server = LoopbackServer.shared!
    let clients = [server.client(), server.client()]
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 3)
    let operations = (0..<24).map { number in
      let host = number % 4 < 2 ? server.base : server.other
      return clients[number % 2].operation(
        for: Request(.post, host.absoluteString + "/held?id=total"), lifetime: .process, decoding: .empty)
    }
    for operation in operations { queue.addOperation(operation) }
    try await server.reaches(.open, of: "total", 3)
    try await server.release("total")
    for operation in operations { _ = try await operation.value }
    #expect(try await server.tell(.count, of: "total") == 24)
    #expect(try await server.tell(.most, of: "total") == 3)
  }
}
