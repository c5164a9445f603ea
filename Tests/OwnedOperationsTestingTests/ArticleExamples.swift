import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Testing

/// What the examples of the article say that they do.
@Suite struct ArticleExamples {
  private let time = VirtualTime()
  private let screen = OwnerLifetime(name: "screen")
  private var queue: OwnerScopedQueue { OwnerScopedQueue(virtualTime: time) }

  @Test func anOperationTimesOut() {
    let (time, queue) = (time, queue)
    let answer = OwnedResultOperation(lifetime: screen) {
      try await time.sleep(for: .seconds(60))
      return "answer"
    }
    answer.timeout = .seconds(5)
    queue.addOperation(answer)
    time.advance(by: .seconds(4))
    #expect(answer.state == .executing)
    time.advance(by: .seconds(1))
    guard case .cancelled(.timedOut(.seconds(5))) = answer.outcome else {
      Issue.record("its outcome is \(String(describing: answer.outcome))")
      return
    }
  }

  @Test func anAsynchronousBodyEndsWithItsOwner() async {
    let (time, queue) = (time, queue)
    let title = screen.task(on: queue) {
      try await time.sleep(for: .seconds(2))
      return "title"
    }
    time.advance(by: .seconds(1))
    screen.end()
    time.runUntilIdle()
    await #expect(throws: CancellationError.self) { try await title.value }
    #expect(time.now.offset == .seconds(1))
  }

  @Test func aGraphEndsBetweenTwoNodes() throws {
    let queue = queue
    let log = Log()
    let graph = OperationGraph(lifetime: screen)
    let load = graph.node("load") { log.add("loading") }
    let show = graph.node("show") { log.add("showing") }
    load.precedes(show)
    let run = try graph.run(on: queue)
    time.runNext()
    screen.end()
    time.runUntilIdle()
    #expect(run.isFinished)
    #expect(log.lines == ["loading"])
  }

  @Test func anEventComesTooLate() {
    let queue = queue
    let log = Log()
    let (center, saved) = (NotificationCenter(), Notification.Name("saved"))
    center.observe(saved, lifetime: screen, on: queue) { _ in log.add("saved") }
    center.post(name: saved, object: nil)
    time.runUntilIdle()
    center.post(name: saved, object: nil)
    screen.end()
    time.runUntilIdle()
    #expect(log.lines == ["saved"])
  }
}
