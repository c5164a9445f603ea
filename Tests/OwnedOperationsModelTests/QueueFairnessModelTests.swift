import Foundation
import Testing

@testable import OwnedOperations

/// A queue whose owners take turns.
@Suite(.serialized) struct QueueFairnessModelTests {
  /// One owner has work for several batches. Another comes, and has its turn after what is under way and one more; they take turns until
  /// the second has no more work; then the first is alone again.
  @Test func anOwnerThatIsAloneGetsCompany() {
    ModelExplorer("queue: resume with turns | async, async of another owner").exploreQueue(preemptions: 1, reduces: true) { run, scene in
      let (other, order) = (OwnerLifetime(), Turns())
      scene.queue.ownerFairness = .roundRobin
      // The worker learns that they are quick.
      scene.addAndWait(4)
      scene.queue.isSuspended = true
      let count = 8 * Processors.count
      let hasBegun = Semaphore()
      for index in 0..<count {
        scene.queue.async(lifetime: scene.lifetime) {
          if index == 1 { hasBegun.signal() }
          order.append("a")
          scene.bodies.runAndStay()
        }
      }
      run.concurrently(
        ("resume", { scene.queue.isSuspended = false }),
        (
          "other",
          {
            hasBegun.wait()
            for _ in 0..<2 { scene.queue.async(lifetime: other) { order.append("b") } }
            order.append("|")
          }
        ))
      scene.wait()
      run.expect(order.text.filter { $0 == "a" }.count == count, "\(order.text)")
      let waited = order.text.prefix { $0 != "b" }.split(separator: "|", omittingEmptySubsequences: false)
      if waited.count == 2 { run.expect(waited[1].count <= 2, "\(waited[1].count) turns before the first of the other: \(order.text)") }
      let turns = order.text.filter { $0 != "|" }.split(separator: "b", omittingEmptySubsequences: false)
      run.expect(turns.count == 3 && (!turns[1].isEmpty || turns[2].isEmpty), "one had two turns while another waited: \(order.text)")
      // It comes back when it has had no work.
      scene.queue.async(lifetime: other) { order.append("b") }
      scene.queue.async(lifetime: scene.lifetime) { order.append("a") }
    } atEnd: { _, _ in
    }
  }

  private final class Turns: @unchecked Sendable {  // the baton holder's
    private(set) var text = ""
    private let book = ModelObject("turns")

    func append(_ turn: String) {
      ModelRun.note(book)
      text += turn
    }
  }
}
