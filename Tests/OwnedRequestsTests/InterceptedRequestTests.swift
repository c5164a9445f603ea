import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Changes a request as the test says.
private struct Changing: RequestInterceptor {
  let change: @Sendable (inout URLRequest) -> Void

  func adapt(_ request: URLRequest) async throws -> URLRequest {
    var request = request
    change(&request)
    return request
  }
}

/// What interceptors make of requests, and what is done of them before there is an answer.
@Suite(.enabled(if: LoopbackServer.isThere)) struct InterceptedRequestTests {
  private let server = LoopbackServer.shared!

  private func client(_ change: @escaping @Sendable (inout URLRequest) -> Void) -> RequestClient {
    server.client { $0.interceptors = [Changing(change: change)] }
  }

  /// Limits of time are the request's, whatever Foundation would do with this.
  @Test(arguments: [.infinity, .nan, -.greatestFiniteMagnitude, .greatestFiniteMagnitude, 1e17, 0, -1])
  func aTimeoutIntervalStopsNothing(interval: TimeInterval) async throws {
    let client = client { $0.timeoutInterval = interval }
    #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
  }

  @Test func aBodyMakesNoGet() async throws {
    let client = client { $0.httpMethod = "GET" }
    let request = Request(.post, "echo?id=made-get", parameters: .json([1]))
    let error = await failure { _ = try await client.response(to: request, lifetime: .process, decoding: .data) }
    guard case .invalidParameters(let text)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(text.contains("GET") && text.contains("body"))
    #expect(try await server.tell(.count, of: "made-get") == 0)
    // One without is what any other request is.
    #expect(try await client.response(to: Request(.delete, "echo"), lifetime: .process, decoding: .json(Echo.self)).value.method == "GET")
  }

  private struct Counted: Encodable, Sendable {
    let count: Journal<Int>
    func encode(to encoder: any Encoder) throws {
      count.write(1)
      try 1.encode(to: encoder)
    }
  }

  private func clientWithCache() throws -> RequestClient {
    RequestClient(
      baseURL: server.base, configuration: .ephemeral, cache: try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0))
  }

  @Test func aBodyIsEncodedOnce() async throws {
    let count = Journal<Int>()
    var request = Request(.post, "echo", parameters: .json(Counted(count: count)))
    request.cache = .forTime(.seconds(100))
    _ = try await clientWithCache().response(to: request, lifetime: .process, decoding: .data)
    #expect(count.entries == [1])
  }

  /// A task that blocks keeps a thread that others need.
  @Test func aDecoderOfTheUsersIsCalledOnceForAnAnswerFromTheCacheAndInNoTask() async throws {
    let client = try clientWithCache()
    var request = Request(.get, "echo?id=decoded-once")
    request.cache = .forTime(.seconds(100))
    _ = try await client.response(to: request, lifetime: .process, decoding: .data)
    let calls = Journal<Bool>()
    let decoder = ResponseDecoder<Int> { _, _ in
      calls.write(withUnsafeCurrentTask { $0 != nil })
      throw CocoaError(.coderInvalidValue)
    }
    let error = await failure { [request] in _ = try await client.response(to: request, lifetime: .process, decoding: decoder) }
    guard case .decoding? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(calls.entries == [false])
    #expect(try await server.tell(.count, of: "decoded-once") == 1)
  }

  @Test func aFileWithoutAnAbsolutePathIsNamed() throws {
    let file = try #require(URL(string: "file:relative"))
    let text = refusal(of: Request(.post, "http://localhost/", parameters: .file(file, contentType: "a/b")))
    #expect(text?.contains("file:relative has no absolute path") == true)
    var form = MultipartForm()
    #expect(throws: RequestError.self) { try form.append(file: file, name: "f") }
  }

  /// As long as a `Duration` can be.
  @Test func aLimitOfTimeMayBeLongerThanTheAgeOfTheUniverse() async throws {
    let longest = Duration.seconds(1.6e20)
    #expect(longest.inSeconds == Double(Int64.max) && Duration.seconds(-1.6e20).inSeconds == Double(Int64.min))
    var request = Request(.get, "echo")
    request.timeout = longest
    #expect(try await server.client().response(to: request, lifetime: .process, decoding: .data).status == 200)
  }
}
