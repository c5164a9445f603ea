import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

private struct Passing: RequestInterceptor {}

/// What blocks is done on no thread of the pool of tasks.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct InterceptorThreadTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private static var isInTask: Bool { withUnsafeCurrentTask { $0 != nil } }

  @Test func aPartIsReadOutsideOfTasks() async throws {
    let target = directory.url.appendingPathComponent("file")
    let path = "bytes?id=part-outside&length=100000&etag=strong&cuts=1&after=50000"
    let error = await failure { _ = try await server.client().download(Request(.get, path), to: target, lifetime: .process).value }
    #expect(error != nil)
    let whole = try await server.client().response(
      to: Request(.get, "bytes?id=part-outside-whole&length=100000"), lifetime: .process, decoding: .data)
    let reads = Journal<Bool>()
    let operation = RequestOperation(
      Request(.get, path), client: server.client { $0.interceptors = [Passing()] }, lifetime: .process,
      decoding: ResponseDecoder { _, _ in target },
      download: DownloadFile(
        target, DownloadExpectation(sha256: SHA256.hexadecimal(SHA256.digest(of: whole.value))),
        willRead: { reads.write(Self.isInTask) }))
    OwnerScopedQueue(name: "starts").addOperation(operation)
    #expect(try await operation.value.status == 206)
    #expect(reads.entries == [false])
  }

  @Test func theCacheIsReadOutsideOfTasks() async throws {
    let cache = try ResponseCache(directory: directory.url, memoryLimit: 0, diskLimit: 1_000_000)
    let client = RequestClient(baseURL: server.base, cache: cache)
    client.interceptors = [Passing()]
    var request = Request(.get, "flaky?id=cache-outside&failures=0")
    request.cache = .cachedThenFresh
    _ = try await client.response(to: request, lifetime: .process, decoding: .data)
    // The preview is decoded where the cache was read.
    let decodings = Journal<Bool>()
    let decoder = ResponseDecoder<Int> { _, _ in
      decodings.write(Self.isInTask)
      return 0
    }
    _ = try await client.response(to: request, lifetime: .process, decoding: decoder)
    #expect(decodings.entries.first == false)
  }
}
