import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func refresh() { print("refreshed") }
}

let screen = Screen()
let queue = OwnerScopedQueue(name: "refreshing", maxConcurrentOperationCount: 1)
queue.isSuspended = true
queue.async(owner: screen) { screen in screen.refresh() }
queue.async(owner: screen, priority: .high) { _ in print("first") }
queue.isSuspended = false
queue.waitUntilFinished(ownedBy: screen.lifetime)
print(queue.statistics.succeeded, "jobs succeeded")

// Prints:
// first
// refreshed
// 2 jobs succeeded
