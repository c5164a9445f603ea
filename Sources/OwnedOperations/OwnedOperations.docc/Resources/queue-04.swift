import OwnedOperations

struct Offline: Error {}

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "decoding")
let load = OwnedBlockOperation(owner: screen) { throw Offline() }
load.name = "load"
let show = OwnedBlockOperation(owner: screen) { print("never printed") }
show.addDependency(load)
show.dependencyPolicy = .requireSuccess

try queue.enqueue([load, show])
show.waitUntilFinished()
print(load.outcome!)
print(show.outcome!)

// Prints:
// failed: Offline()
// cancelled: its dependency load did not succeed
