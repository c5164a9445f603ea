import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

var screen: Screen? = Screen()
let lifetime = OwnerLifetime.of(screen!)
print(lifetime.isAlive)

screen = nil
print(lifetime.isAlive, lifetime.endReason!)
print(OwnerLifetime.isAlive(lifetime.id))

// Prints:
// true
// false its token was released
// false
