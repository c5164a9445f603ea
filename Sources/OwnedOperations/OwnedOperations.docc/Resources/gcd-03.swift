import Dispatch
import OwnedOperations

let released = DispatchSemaphore(value: 0)

final class Page: Sendable {
  deinit {
    print("page released")
    released.signal()
  }
}

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ page: Page) { print("page shown") }
}

func showLater(on screen: Screen) {
  let page = Page()
  DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(3600), owner: screen) { screen in
    screen.show(page)
  }
}

var screen: Screen? = Screen()
showLater(on: screen!)
screen = nil
released.wait()

// Prints:
// page released
