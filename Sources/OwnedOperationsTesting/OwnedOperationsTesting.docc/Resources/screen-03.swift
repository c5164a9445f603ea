import OwnedOperations
import OwnedOperationsTesting

final class Screen: Sendable {
  func show(_ answer: String) { print(answer) }
}

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time)
var screen: Screen? = Screen()
queue.asyncAfter(.seconds(20), owner: screen!) { screen in screen.show("in time") }
queue.asyncAfter(.seconds(60), owner: screen!) { screen in screen.show("too late") }
time.advance(by: .seconds(30))
screen = nil
time.advance(by: .seconds(30))
print("at", time.now)

// Prints:
// in time
// at +60.0 seconds
