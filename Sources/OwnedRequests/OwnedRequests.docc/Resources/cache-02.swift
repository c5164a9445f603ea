import Foundation
import OwnedOperations
import OwnedRequests

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

let directory = FileManager.default.temporaryDirectory.appendingPathComponent("news")
let cache = try ResponseCache(directory: directory, memoryLimit: 10_000_000, diskLimit: 100_000_000)
let client = RequestClient(baseURL: URL(string: "https://example.com/v1"), cache: cache)
let screen = Screen()
var request = Request(.get, "news")
request.cache = .cachedThenFresh
client.send(request, owner: screen, decoding: .string) { screen, result in
  guard case .success(let response) = result else { return }
  screen.show("\(response.source): \(response.value)")
}
// An app goes on by itself; this program waits.
Thread.sleep(forTimeInterval: 10)
