import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct CachePolicyTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()

  private func client() throws -> RequestClient {
    RequestClient(baseURL: server.base, cache: try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0))
  }

  private func get(_ client: RequestClient, _ request: Request) async throws -> Response<String> {
    try await client.response(to: request, lifetime: lifetime, decoding: .string)
  }

  private func request(_ path: String, _ policy: CachePolicy) -> Request {
    var request = Request(.get, path)
    request.cache = policy
    return request
  }

  @Test func whatIsFreshIsNotAskedForAgain() async throws {
    let client = try client()
    let request = request("flaky?id=cache-time&failures=0", .forTime(.seconds(600)))
    #expect(try await get(client, request).source == .network)
    let second = try await get(client, request)
    #expect(second.source == .cache && second.value == "1" && second.attempts == 0 && second.status == 200)
    #expect(try await get(client, self.request("flaky?id=cache-time&failures=0", .forTime(.zero))).value == "2")
    #expect(try await get(client, self.request("flaky?id=cache-time&failures=0", .none)).value == "3")
    #expect(try await get(client, request).value == "2")
  }

  @Test func anAnswerInMemoryNeedsNoOperation() async throws {
    let client = try client()
    let request = request("flaky?id=cache-at-once&failures=0", .forTime(.seconds(600)))
    #expect(try await get(client, request).source == .network)
    let starts = client.starts
    let enqueued = starts.statistics.enqueued
    #expect(try await get(client, request).source == .cache)
    #expect(starts.statistics.enqueued == enqueued)
    // An operation gets the same, and so does a handler.
    let operation = client.operation(for: request, lifetime: lifetime, decoding: .string)
    starts.addOperation(operation)
    #expect(try await operation.value.source == .cache)
    let told = await withCheckedContinuation { continuation in
      client.send(request, lifetime: lifetime, decoding: .string) { continuation.resume(returning: $0) }
    }
    #expect(try told.get().source == .cache)
  }

  @Test func anAnswerInMemoryIsForNobodyWhoEndsWhileItIsDecoded() async throws {
    let client = try client()
    let request = request("flaky?id=cache-ends&failures=0", .forTime(.seconds(600)))
    _ = try await get(client, request)
    let ending = OwnerLifetime()
    let decoder = ResponseDecoder<Int> { data, _ in
      ending.end()
      return data.count
    }
    await #expect {
      _ = try await client.response(to: request, lifetime: ending, decoding: decoder)
    } throws: {
      if case .cancelled(.ownerEnded)? = $0 as? RequestError { true } else { false }
    }
  }

  @Test func anAnswerInMemoryIsForNobodyWhoHasEnded() async throws {
    let client = try client()
    let request = request("flaky?id=cache-ended&failures=0", .forTime(.seconds(600)))
    _ = try await get(client, request)
    let ended = OwnerLifetime()
    ended.end()
    await #expect {
      _ = try await client.response(to: request, lifetime: ended, decoding: .string)
    } throws: {
      if case .cancelled(.ownerEnded)? = $0 as? RequestError { true } else { false }
    }
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await client.response(to: request, lifetime: .process, decoding: .string)
    }
    await #expect {
      _ = try await cancelled.value
    } throws: {
      if case .cancelled(.requested)? = $0 as? RequestError { true } else { false }
    }
  }

  @Test func anAnswerInMemoryThatCanNotBeDecodedIsAnErrorWithItsHead() async throws {
    let client = try client()
    let request = request("flaky?id=cache-undecoded&failures=0", .forTime(.seconds(600)))
    _ = try await get(client, request)
    let number = ResponseDecoder<Bool> { _, _ in throw CocoaError(.coderInvalidValue) }
    do throws(RequestFailure) {
      _ = try await client.response(to: request, lifetime: lifetime, decoding: number, throwing: RequestFailure.self)
      Issue.record("decoded")
    } catch {
      #expect(error.head?.status == 200)
      if case .decoding(_, let body) = error.error { #expect(String(decoding: body, as: UTF8.self) == "1") } else { Issue.record(error) }
    }
  }

  @Test func interceptorsAreAskedBeforeTheCache() async throws {
    struct Refusal: RequestInterceptor {
      func adapt(_ urlRequest: URLRequest) async throws -> URLRequest { throw CocoaError(.userCancelled) }
    }
    let client = try client()
    let request = request("flaky?id=cache-intercepted&failures=0", .forTime(.seconds(600)))
    _ = try await get(client, request)
    client.interceptors = [Refusal()]
    await #expect {
      _ = try await get(client, request)
    } throws: {
      if case .interceptor? = $0 as? RequestError { true } else { false }
    }
  }

  /// By its tag, or by its date.
  @Test(arguments: ["validated", "dated"]) func whatIsStillValidIsNotSentAgain(path: String) async throws {
    let client = try client()
    let request = request("\(path)?id=cache-\(path)&changes=2", .revalidate)
    let first = try await get(client, request)
    #expect(first.source == .network)
    let second = try await get(client, request)
    #expect(second.source == .revalidated && second.value == first.value && second.status == 200 && second.attempts == 1)
    let third = try await get(client, request)
    #expect(third.source == .network && third.value != first.value)
    #expect(try await server.tell(.count, of: "cache-\(path)") == 3)
  }

  /// Headers of the request are a part of the key, whatever `Vary` names.
  @Test func anAnswerThatVariesIsForThoseWhoAskInTheSameWay() async throws {
    let client = try client()
    let headers = #"{"Vary": "Accept-Language"}"#
    func asked(in language: String) -> Request {
      var request = Request(
        .get, "held", parameters: .form(["id": "cache-vary", "headers": .string(headers)]), headers: ["Accept-Language": language])
      request.cache = .forTime(.seconds(600))
      return request
    }
    try await server.release("cache-vary")
    let german = try await get(client, asked(in: "de"))
    #expect(try await get(client, asked(in: "fr")).source == .network)
    let again = try await get(client, asked(in: "de"))
    #expect(again.source == .cache && again.value == german.value)
  }

  @Test(arguments: [
    #"{"Cache-Control": "private, No-Store"}"#, #"{"Vary": "*"}"#,
  ])
  func whatMustNotBeStoredIsNot(headers: String) async throws {
    let client = try client()
    var request = Request(.get, "status", parameters: .form(["status": 200, "headers": .string(headers)]))
    request.cache = .forTime(.seconds(600))
    _ = try await get(client, request)
    #expect(try await get(client, request).source == .network)
  }

  @Test func credentialsErrorsAndOtherMethodsAreNotCached() async throws {
    let client = try client()
    var secret = Request(.get, "status?status=200", headers: ["Authorization": "secret"])
    secret.cache = .forTime(.seconds(600))
    _ = try await get(client, secret)
    #expect(try await get(client, secret).source == .network)
    secret.cachesCredentials = true
    _ = try await get(client, secret)
    #expect(try await get(client, secret).source == .cache)
    var post = Request(.post, "status?status=200")
    post.cache = .forTime(.seconds(600))
    _ = try await get(client, post)
    #expect(try await get(client, post).source == .network)
    var missing = request("status?status=404", .forTime(.seconds(600)))
    missing.acceptedStatus = 200..<500
    _ = try await get(client, missing)
    #expect(try await get(client, missing).source == .network)
  }

  @Test func handlersGetTheCachedThenTheFresh() async throws {
    let client = try client()
    let screen = Screen()
    let calls = Journal<String>()
    let request = request("flaky?id=cache-fresh&failures=0", .cachedThenFresh)
    for expected in [1, 3] {
      client.send(request, owner: screen, decoding: .string) { _, result in
        if case .success(let response) = result { calls.write("\(response.source) \(response.value)") }
      }
      try await calls.reaches(expected)
    }
    #expect(calls.entries == ["network 1", "cache 1", "network 2"])
    #expect(try await get(client, request).value == "2")
    // The one that refreshes goes on under the lifetime.
    try await server.reaches(.count, of: "cache-fresh", 3)
  }

  @Test func theCachedIsShownEvenIfTheServerFails() async throws {
    let client = try client()
    let calls = Journal<String>()
    let request = request("failing?id=cache-fails", .cachedThenFresh)
    _ = try await get(client, request)
    client.send(request, lifetime: lifetime, decoding: .string) { result in
      switch result {
      case .success(let response): calls.write("\(response.source)")
      case .failure(.status(let status, _)): calls.write("\(status)")
      case .failure(let error): calls.write("\(error)")
      }
    }
    try await calls.reaches(2)
    #expect(calls.entries == ["cache", "500"])
  }
}
