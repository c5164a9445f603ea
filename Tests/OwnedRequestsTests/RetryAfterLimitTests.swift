import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What has no limit of time waits for no server that asks it to wait for days.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct RetryAfterLimitTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func request(_ method: Request.Method, _ id: String, retryAfter seconds: Int, _ parameters: Parameters? = nil) -> Request {
    let headers = "%7B%22Retry-After%22:%22\(seconds)%22%7D"
    var request = Request(method, "flaky?id=\(id)&failures=1&headers=\(headers)", parameters: parameters)
    request.retry = .exponential(attempts: 3, base: .milliseconds(1))
    return request
  }

  private func expectBusy(_ operation: RequestOperation<some Any>) async throws {
    #expect(try await soon { operation.isFinished })
    guard case .failure(.status(503, _))? = operation.result else {
      Issue.record("\(String(describing: operation.result))")
      return operation.cancel()
    }
    #expect(operation.head?.headers["Retry-After"] == "61")
  }

  @Test func aDownloadFailsWithWhatTheServerSaidIfThatIsTooLong() async throws {
    let target = directory.url.appendingPathComponent("file")
    let operation = server.client().download(request(.get, "later-download", retryAfter: 61), to: target, lifetime: .process)
    try await expectBusy(operation)
  }

  @Test func anUploadFailsWithWhatTheServerSaidIfThatIsTooLong() async throws {
    let file = try directory.file("up", Data("up".utf8))
    let request = request(.put, "later-upload", retryAfter: 61, .file(file, contentType: "text/plain"))
    try await expectBusy(server.client().send(request, lifetime: .process, decoding: .data) { _ in })
  }

  @Test func aShortWaitIsWaitedFor() async throws {
    let target = directory.url.appendingPathComponent("file")
    let operation = server.client().download(request(.get, "later-short", retryAfter: 1), to: target, lifetime: .process)
    #expect(try await operation.value.attempts == 2)
  }
}
