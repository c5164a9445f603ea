import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "decoding")
queue.async(owner: screen) { screen in screen.show("decoded") }
queue.waitUntilAllOperationsAreFinished()

// Prints:
// decoded
