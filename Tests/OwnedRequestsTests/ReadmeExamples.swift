// The README's examples of requests, word for word, so that they compile. `DocumentationTests` of the other target holds the two together.

import Foundation
import OwnedOperations
import OwnedRequests

private struct Story: Decodable, Sendable {
  let title: String
}

private final class Feed: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "feed")
  func show(_ stories: [Story]) {}
  func complain(_ text: String) {}
}

private enum ReadmeExamples {
  static func send(feed: Feed) {
    let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
    var request = Request(.get, "news", parameters: .form(["page": 2, "tags": ["birds", "owls"]]))
    request.timeout = .seconds(10)
    request.retry = .exponential(attempts: 3)
    client.send(request, owner: feed, decoding: .json([Story].self)) { feed, result in
      switch result {
      case .success(let response): feed.show(response.value)
      case .failure(let error): feed.complain("\(error)")
      }
    }
  }

  static func keep(feed: Feed, file: URL, digest: String) throws {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("stories")
    let cache = try ResponseCache(directory: directory, memoryLimit: 10_000_000, diskLimit: 100_000_000)
    let client = RequestClient(baseURL: URL(string: "https://example.com/v1"), cache: cache)
    var request = Request(.get, "news")
    request.cache = .cachedThenFresh
    let download = client.download(Request(.get, "archive.tar"), to: file, owner: feed, expecting: DownloadExpectation(sha256: digest))
    client.send(request, owner: feed, decoding: .json([Story].self)) { _, _ in download.cancel() }
  }
}
