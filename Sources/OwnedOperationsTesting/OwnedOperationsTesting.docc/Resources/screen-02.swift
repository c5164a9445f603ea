import OwnedOperations
import OwnedOperationsTesting

final class Screen: Sendable {
  func show(_ answer: String) { print(answer) }
}

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time)
var screen: Screen? = Screen()
queue.async(owner: screen!) { screen in screen.show("answer") }
screen = nil
time.runUntilIdle()
print(queue.statistics.started, "started,", queue.statistics.skippedForEndedOwners, "skipped")

// Prints:
// 0 started, 1 skipped
