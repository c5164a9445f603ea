import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Connections that a server closes just as the next request comes.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct KeptConnectionTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case data, file, form
    var testDescription: String { rawValue }
  }

  private func parameters(_ kind: Kind) throws -> Parameters {
    let data = Data("the whole of it".utf8)
    if kind == .data { return .data(data, contentType: "text/plain") }
    let file = try directory.file("upload", data)
    if kind == .file { return .file(file, contentType: "text/plain") }
    var form = MultipartForm()
    try form.append(file: file, name: "part")
    return .multipart(form)
  }

  /// A client with a connection whose next request will not be answered.
  private func clientWithAConnection() async throws -> RequestClient {
    let client = server.client()
    #expect(try await client.response(to: Request(.get, "once"), lifetime: .process, decoding: .data).status == 200)
    return client
  }

  @Test(arguments: Kind.allCases) func aBodyThatHadBegunIsATransportErrorAtOnce(kind: Kind) async throws {
    let client = try await clientWithAConnection()
    // Longer than this takes, and shorter than a server would wait for the rest of the body.
    var request = Request(.post, "once?id=kept-\(kind)", parameters: try parameters(kind))
    request.timeout = .seconds(60)
    let error = await failure { _ = try await client.response(to: request, lifetime: .process, decoding: .data) }
    guard case .transport(let cause)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(cause.code == .networkConnectionLost)
    #expect("\(RequestError.transport(cause))".contains("closed the connection"))
    #expect(try await client.response(to: request, lifetime: .process, decoding: .data).attempts == 1)
  }

  @Test(arguments: Kind.allCases) func aBodyThatMayBeSentAgainIsSentWhole(kind: Kind) async throws {
    let client = try await clientWithAConnection()
    var request = Request(.put, "once", parameters: try parameters(kind))
    request.timeout = .seconds(60)
    request.retry = .exponential(attempts: 2, base: .milliseconds(1))
    let response = try await client.response(to: request, lifetime: .process, decoding: .string)
    #expect(response.attempts == 2)
    #expect(response.value.contains("the whole of it"))
  }

  @Test func aDownloadThatHasABodyFailsAndGivesItsPlaceBack() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    func download() -> RequestOperation<URL> {
      var request = Request(.post, "once", parameters: .data(Data("the whole of it".utf8), contentType: "text/plain"))
      request.timeout = .seconds(60)
      return client.download(request, to: directory.target, lifetime: .process)
    }
    _ = try await download().value
    let error = await failure { _ = try await download().value }
    guard case .transport? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    _ = try await download().value
    #expect(try Data(contentsOf: directory.target) == Data("the whole of it".utf8))
  }
}
