import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Servers whose heads have no end.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct EndlessHeadTests {
  private let server = LoopbackServer.shared!

  /// What the server has got rid of bounds what there is of it in memory: the client's share, and what the sockets hold.
  @Test(arguments: ["lines", "line", "status", "folds", "interim"])
  func aHeadWithoutEndIsATransportErrorAndTheConnectionIsClosed(place: String) async throws {
    let id = "endless-\(place)"
    let client = server.client()
    let operation = client.send(Request(.get, "endless?id=\(id)&in=\(place)"), lifetime: .process, decoding: .data) { _ in }
    let error = await failure { _ = try await operation.value }
    guard case .transport? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(operation.head == nil)
    try await server.reaches(.closed, of: id, 1)
    #expect(try await server.tell(.sent, of: id) < 16 << 20)
    #expect(try await server.tell(.count, of: id) == 1)
    #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
  }

  #if canImport(FoundationNetworking)
    /// The limit that the documentation tells of. In a process of its own, whose other requests wait as long as the server goes on.
    @Test func linesWithoutEndAfterTheBodyTimeOutAndTheConnectionIsClosed() async {
      await withKnownIssue("URLSession on Linux reads on, and does nothing else (Swift 6.3)", isIntermittent: true) {
        await #expect(processExitsWith: .success) {
          let server = try #require(LoopbackServer.shared)
          var request = Request(.get, "endless?id=endless-trailers&in=trailers")
          request.timeout = .seconds(1)
          let error = await failure { _ = try await server.client().response(to: request, lifetime: .process, decoding: .data) }
          guard case .timedOut? = error else { exit(1) }
          var next = Request(.get, "await?what=closed&of=endless-trailers&n=1")
          next.timeout = .seconds(5)
          let other = await failure { _ = try await server.client().response(to: next, lifetime: .process, decoding: .data) }
          if other != nil { exit(2) }
        }
      }
    }
  #endif
}
