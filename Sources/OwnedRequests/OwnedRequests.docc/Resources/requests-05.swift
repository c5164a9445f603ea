import Foundation
import OwnedOperations
import OwnedRequests

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
var screen: Screen? = Screen()
let operation = client.send(Request(.get, "news"), owner: screen!, decoding: .string) { screen, _ in
  screen.show("never shown")
}
screen = nil
do { _ = try await operation.value } catch RequestError.cancelled(let reason) {
  print("cancelled:", reason)
}
