import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ text: String) { print(text) }
}

var screen: Screen? = Screen()
let queue = OwnerScopedQueue(name: "decoding")
queue.isSuspended = true
queue.async(owner: screen!) { screen in screen.show("decoded") }
screen = nil
queue.isSuspended = false
queue.waitUntilAllOperationsAreFinished()
print(queue.statistics.started, "started,", queue.statistics.skippedForEndedOwners, "skipped")

// Prints:
// 0 started, 1 skipped
