import Dispatch
import OwnedOperations

final class Page: Sendable {
  deinit { print("page released") }
}

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
  func show(_ page: Page) { print("page shown") }
}

func showLater(on screen: Screen) {
  let page = Page()
  DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(3600)) { [weak screen] in
    screen?.show(page)
  }
}

var screen: Screen? = Screen()
showLater(on: screen!)
screen = nil
print("the screen has gone, and its page stays for an hour")

// Prints:
// the screen has gone, and its page stays for an hour
