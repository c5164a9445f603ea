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
}
