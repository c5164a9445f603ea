import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

let screen = Screen()
print(screen.lifetime)

// Prints:
// owner#1 "screen"
