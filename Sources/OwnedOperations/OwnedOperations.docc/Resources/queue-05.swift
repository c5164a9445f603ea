import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func title() async -> String { "Today" }
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "decoding")
let title = try await queue.run(owner: screen) { screen in await screen.title() }
print(title)

// Prints:
// Today
