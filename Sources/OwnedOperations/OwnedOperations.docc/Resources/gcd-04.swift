import Dispatch
import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func refresh() { print("refreshed") }
}

let queue = DispatchQueue(label: "refreshing")
let group = DispatchGroup()
queue.suspend()
var screen: Screen? = Screen()
queue.async(owner: screen!, group: group) { screen in screen.refresh() }
screen = nil
group.wait()
print("nobody waits for a screen that has gone")
queue.resume()

// Prints:
// nobody waits for a screen that has gone
