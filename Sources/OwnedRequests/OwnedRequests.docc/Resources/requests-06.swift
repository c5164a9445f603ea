import Foundation
import OwnedOperations
import OwnedRequests

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
var screen: Screen? = Screen()
client.send(Request(.get, "news"), owner: screen!, decoding: .string) { screen, _ in
  screen.show("never shown")
}
let report = Request(.post, "reports", parameters: .json(["opened": "news"]))
client.send(report, lifetime: .process, decoding: .empty) { result in
  if case .failure(let error) = result { print("not reported: \(error)") }
}
screen = nil
// An app goes on by itself; this program waits.
Thread.sleep(forTimeInterval: 10)
