import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// How long a request waits for its next attempt.
@Suite struct RetryDelayTests {
  /// Of an answer that broke, or led elsewhere, the header is of another matter.
  @Test(arguments: [(503, 120), (429, 120), (408, 120), (200, 1), (307, 1), (404, 1)])
  func onlyAnAnswerThatMayBeRepeatedAsksForAWait(status: Int, seconds: Int) throws {
    let url = try #require(URL(string: "http://localhost/"))
    let head = ResponseHead(status: status, headers: ["Retry-After": "120"], url: url)
    let delay = RetryPolicy.exponential(attempts: 3, base: .seconds(1), cap: .seconds(8)).delay(
      after: .transport(URLError(.networkConnectionLost)), head: head, attempt: 1, method: .put, now: Date(), randomness: 1)
    #expect(delay == .seconds(seconds))
  }
}
