import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Of an error so much is kept as errors keep, and the rest is not waited for.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct ErrorBodyTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func expectError(_ operation: RequestOperation<some Any>, _ id: String) async throws {
    #expect(try await soon { operation.isFinished })
    guard case .failure(.status(500, let body))? = operation.result else {
      Issue.record("\(String(describing: operation.result))")
      return operation.cancel()
    }
    #expect(body.count == RequestError.bodyLimit && body.startIndex == 0)
    try await server.reaches(.closed, of: id, 1)
  }

  /// The end comes on the session's own thread then, which can't begin the next.
  @Test func aLongErrorMakesRoomForTheNext() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let requests = (0..<4).map { number in
      client.send(Request(.post, "flood?id=room-\(number)&status=500"), lifetime: .process, decoding: .data) { _ in }
    }
    for request in requests {
      guard case .status(500, _) = await failure({ _ = try await request.value }) else {
        Issue.record("\(String(describing: request.result))")
        continue
      }
    }
    _ = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .empty)
  }

  @Test func aLongErrorIsToldAtTheLimit() async throws {
    let request = Request(.get, "flood?id=error-body&status=500")
    try await expectError(server.client().send(request, lifetime: .process, decoding: .data) { _ in }, "error-body")
  }

  /// A session that is flooded asks for more and more, and would hear of nothing else.
  @Test func floodsThatAreCancelledHoldUpNobody() async throws {
    let client = server.client()
    for number in 0..<5 {
      let id = "flood-shared-\(number)"
      let flood = client.send(Request(.get, "flood?id=\(id)"), lifetime: .process, decoding: .data) { _ in }
      let progress = flood.progress
      for await step in progress where step.bytesReceived > 0 { break }
      flood.cancel()
      #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
      try await server.reaches(.closed, of: id, 1)
    }
  }

  @Test func aDownloadsErrorWithoutEndIsToldAtTheLimit() async throws {
    let request = Request(.get, "flood?id=error-body-download&status=500")
    let target = directory.url.appendingPathComponent("file")
    let client = server.client()
    try await expectError(client.download(request, to: target, lifetime: .process), "error-body-download")
    // The session of the one that was stopped is nobody else's.
    _ = try await client.download(Request(.get, "bytes?length=100000"), to: target, lifetime: .process).value
    #expect(try Data(contentsOf: target).count == 100_000)
  }

  @Test func whoAcceptsTheStatusGetsItsWholeBody() async throws {
    let length = RequestError.bodyLimit * 3
    let server = server
    var strict = Request(.get, "bytes?id=error-shared&length=\(length)")
    strict.acceptedStatus = 201..<202
    var lenient = strict
    lenient.acceptedStatus = 100..<600
    let client = server.client()
    async let refused = failure { [strict] in _ = try await client.response(to: strict, lifetime: .process, decoding: .data) }
    async let accepted = client.response(to: lenient, lifetime: .process, decoding: .data)
    #expect(try await accepted.value.count == length)
    guard case .status(200, let body)? = await refused else {
      Issue.record("no error")
      return
    }
    #expect(body.count == RequestError.bodyLimit)
  }
}
