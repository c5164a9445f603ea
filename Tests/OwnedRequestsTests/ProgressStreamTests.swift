import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite(.enabled(if: LoopbackServer.isThere)) struct ProgressStreamTests {
  private let server = LoopbackServer.shared!

  @Test func streamsThatNobodyReadsAnyMoreAreLetGo() async throws {
    let operation = server.client().send(Request(.get, "drip?id=progress-dropped"), lifetime: .process, decoding: .data) { _ in }
    let kept = operation.progress
    for _ in 0..<100 { _ = operation.progress }
    #expect(operation.progressStreamCount == 1)
    // One that has been read, and one whose reader was cancelled.
    for await _ in operation.progress { break }
    let reader = Task { for await _ in operation.progress {} }
    #expect(try await soon { operation.progressStreamCount == 2 })
    reader.cancel()
    await reader.value
    #expect(operation.progressStreamCount == 1)
    operation.cancel()
    for await _ in kept {}
    #expect(operation.progressStreamCount == 0)
  }

  private func received(_ bytes: Int64) -> TransferProgress {
    var progress = TransferProgress()
    progress.bytesReceived = bytes
    return progress
  }

  /// On two threads at once.
  private func streamMadeWhile(_ operation: RequestOperation<Data>, hasReceived bytes: Int64) -> AsyncStream<TransferProgress>? {
    let stream = Guarded<AsyncStream<TransferProgress>?>(nil)
    DispatchQueue.concurrentPerform(iterations: 2) { place in
      guard place == 0 else { return operation.note(received(bytes)) }
      let made = operation.progress
      stream.withLock { $0 = made }
    }
    return stream.withLock { $0 }
  }

  /// In so many rounds that in some of them one thread comes between the steps of the other.
  @Test func aStreamThatIsMadeWhileTheProgressGoesOnEndsWithTheNewest() async throws {
    let operation = RequestClient().operation(for: Request(.get, "http://host/"), lifetime: .process, decoding: .data)
    var older = 0
    for _ in 0..<100_000 {
      operation.note(received(1))
      var steps = try #require(streamMadeWhile(operation, hasReceived: 2)).makeAsyncIterator()
      if await steps.next()?.bytesReceived != 2 { older += 1 }
    }
    #expect(older == 0)
  }
}
