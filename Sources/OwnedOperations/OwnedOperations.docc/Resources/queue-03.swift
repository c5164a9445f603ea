import OwnedOperations

struct Offline: Error {}

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func load() throws { throw Offline() }
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "decoding")
let load = queue.addOperation(owner: screen) { screen in try screen.load() }
load.waitUntilFinished()
print(load.outcome!)

// Prints:
// failed: Offline()
