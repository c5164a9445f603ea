import Foundation
import OwnedOperations
import OwnedRequests

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let screen = Screen()
client.send(Request(.get, "news"), owner: screen, decoding: .string) { screen, result in
  switch result {
  case .success(let response): screen.show(response.value)
  case .failure(let error): screen.show("\(error)")
  }
}
// An app goes on by itself; this program waits.
Thread.sleep(forTimeInterval: 10)
