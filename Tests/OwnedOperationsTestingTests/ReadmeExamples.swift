// The README's example of tests, word for word, so that it compiles. `DocumentationTests` of another target holds the two together.

import OwnedOperations
import OwnedOperationsTesting
import Testing

@Suite struct ReadmeExamples {
  @Test func theScreenGoesFirst() {
    let log = Log()
    var screen: Screen? = Screen(log)
    let time = VirtualTime()
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.asyncAfter(.seconds(60), owner: screen!) { screen in screen.show("answer") }
    screen = nil
    time.advance(by: .seconds(60))  // shows nothing
    #expect(log.lines.isEmpty)
  }
}
