import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func title() async -> String { "Today" }
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "decoding")
let title = try await queue.run(owner: screen) { screen in await screen.title() }
print(title)

screen.lifetime.end()
do {
  _ = try await queue.run(owner: screen) { screen in await screen.title() }
} catch is CancellationError {
  print("the screen was closed")
}

// Prints:
// Today
// the screen was closed
