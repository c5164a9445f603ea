import OwnedOperations
import OwnedOperationsTesting

final class Screen: Sendable {
  func show(_ answer: String) { print(answer) }
}

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time)
var screen: Screen? = Screen()
let reference = WeakOwner(screen!)
let task = Task(executorPreference: time) {
  try await queue.run(weaklyFor: reference) { screen in
    screen.object?.show("asking")
    try await time.sleep(for: .seconds(60))
    screen.object?.show("answer")
  }
}
time.advance(by: .seconds(30))
screen = nil
time.runUntilIdle()
do { try await task.value } catch { print("cancelled at", time.now) }

// Prints:
// asking
// cancelled at +30.0 seconds
