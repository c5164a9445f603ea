import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

var screen: Screen? = Screen()
screen?.lifetime.onEnd { id in print("\(id) has gone") }
screen = nil
print("after the end")

// Prints:
// owner#1 has gone
// after the end
