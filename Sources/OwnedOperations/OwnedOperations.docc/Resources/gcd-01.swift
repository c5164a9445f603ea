import Dispatch

final class Page: Sendable {
  deinit { print("page released") }
}

final class Screen: Sendable {
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
