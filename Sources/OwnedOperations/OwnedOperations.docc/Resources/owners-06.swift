import OwnedOperations

final class Connection: Sendable {
  let peer = "10.0.0.7"
}

var connection: Connection? = Connection()
let lifetime = OwnerLifetime.of(connection!)
connection = nil
print(lifetime.endReason!)

// Prints:
// its object was deinitialised
