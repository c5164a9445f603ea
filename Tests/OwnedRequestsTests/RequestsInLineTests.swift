import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Requests that wait for their turn at a host, and are wanted by nobody when it comes.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct RequestsInLineTests {
  private let server = LoopbackServer.shared!

  /// One under way, and five behind it.
  private func send(_ id: String, by client: RequestClient, for lifetime: OwnerLifetime) async throws {
    client.send(Request(.get, "held?id=\(id)-first"), lifetime: lifetime, decoding: .empty) { _ in }
    try await server.reaches(.count, of: "\(id)-first", 1)
    for _ in 0..<5 {
      client.send(Request(.post, "flaky?id=\(id)&failures=0"), lifetime: lifetime, decoding: .empty) { _ in }
    }
  }

  /// Everything that was in line before has had its turn when this is answered.
  private func askLast(_ client: RequestClient) async throws {
    _ = try await client.response(to: Request(.get, "status?status=200"), lifetime: .process, decoding: .empty)
  }

  @Test func nothingIsSentForAnOwnerThatHasEndedThoughItsOwnRequestMakesRoom() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let lifetime = OwnerLifetime()
    try await send("line-end", by: client, for: lifetime)
    lifetime.end()
    try await askLast(client)
    #expect(try await server.tell(.count, of: "line-end") == 0)
  }

  @Test func nothingIsSentForRequestsThatAreCancelledTogether() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let lifetime = OwnerLifetime()
    try await send("line-cancel", by: client, for: lifetime)
    client.cancelRequests(ownedBy: lifetime)
    try await askLast(client)
    #expect(try await server.tell(.count, of: "line-cancel") == 0)
  }

  @Test func aTransferThatSomebodyElseStillWantsIsSent() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let (gone, stays) = (OwnerLifetime(), OwnerLifetime())
    client.send(Request(.get, "held?id=line-shared-first"), lifetime: gone, decoding: .empty) { _ in }
    try await server.reaches(.count, of: "line-shared-first", 1)
    let shared = Request(.get, "flaky?id=line-shared&failures=0")
    client.send(shared, lifetime: gone, decoding: .empty) { _ in }
    async let answer = client.response(to: shared, lifetime: stays, decoding: .string)
    #expect(try await eventually { client.hub.sharerCount == 3 })
    gone.end()
    #expect(try await answer.value == "1")
  }

  /// Silence counts from the moment that it goes on.
  @Test func aDownloadThatWaitsForItsTurnAfterARedirectDoesNotTimeOut() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let directory = try TemporaryDirectory()
    client.send(Request(.get, server.other.absoluteString + "/held?id=line-redirect"), lifetime: .process, decoding: .empty) { _ in }
    try await server.reaches(.count, of: "line-redirect", 1)
    var request = Request(
      .get, "redirect", parameters: .form(["id": "line-redirected", "to": .string(server.other.absoluteString + "/bytes?length=10")]))
    request.idleLimit = .seconds(1)
    // It is not in line at once, nor is the file there at once when its turn has come.
    let first = await HeldTimers()
    let download = client.download(request, to: directory.url.appendingPathComponent("file"), lifetime: .process)
    try await server.reaches(.count, of: "line-redirected", 1)
    #expect(try await eventually { client.hub.limits.waitingCount == 1 })
    first.goOn()
    // It would be over after twice the limit.
    try await Task.sleep(for: .milliseconds(2100))
    #expect(!download.isFinished)
    let second = await HeldTimers()
    defer { second.goOn() }
    try await server.release("line-redirect")
    _ = try await download.value
  }
}
