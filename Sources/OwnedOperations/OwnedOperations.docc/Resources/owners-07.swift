import OwnedOperations

final class Connection: Sendable {
  let peer = "10.0.0.7"
}

var connection: Connection? = Connection()
let lifetime = OwnerLifetime.of(connection!)
onDeinit(of: connection!, name: "log") { [peer = connection!.peer] _, _ in
  print("lost \(peer)")
}
connection = nil
print(lifetime.endReason!)

// Prints:
// lost 10.0.0.7
// its object was deinitialised
