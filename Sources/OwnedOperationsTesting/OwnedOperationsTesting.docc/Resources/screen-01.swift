import OwnedOperations
import OwnedOperationsTesting

final class Screen: Sendable {
  func show(_ answer: String) { print(answer) }
}

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time)
let screen = Screen()
queue.async(owner: screen) { screen in screen.show("answer") }
print("nothing yet")
time.runUntilIdle()

// Prints:
// nothing yet
// answer
