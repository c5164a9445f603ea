import Dispatch
import OwnedOperations

extension Benchmark {
  static var nested: Benchmark {
    Benchmark("P12-nested", "a job adds two jobs, each of which adds two, and so on") { session in
      let count = session.pick(1 << 18, quick: 1 << 14) - 1
      let workload = "a tree of \(count) jobs"
      let pairs = session.pick(7, quick: 2)
      let queue = OwnerScopedQueue()
      let screen = Screen()
      let ours = Contender("async(owner:)") {
        let cost = nanoseconds(per: count) {
          add(0, of: count, screen, to: queue)
          queue.waitUntilAllOperationsAreFinished()
        }
        try screen.checkVisits(count)
        return cost
      }
      let dispatch = DispatchQueue(label: "nested", attributes: .concurrent)
      let peerScreen = Screen()
      let peer = Contender("GCD, weak check") {
        // A barrier would pass jobs that are still to be added. Only leaves count down: what is above them has run before.
        let leaves = Countdown(from: count / 2 + 1)
        let cost = nanoseconds(per: count) {
          add(0, of: count, peerScreen, to: dispatch, leaves)
          leaves.wait()
        }
        try peerScreen.checkVisits(count)
        return cost
      }
      try session.compare(workload, count: count, pairs: pairs, ours: ours, peer: peer, target: .ratio(atMost: 0.3))
      try session.compare(
        workload, count: count, pairs: pairs, ours: ours, peer: OneTBB.nestedTaskGroup(tasks: count), target: .ratio(atMost: 2))
    }
  }

  /// Nodes are numbered as in a heap.
  private static func add(_ index: Int, of count: Int, _ screen: Screen, to queue: OwnerScopedQueue) {
    queue.async(owner: screen) { screen in
      screen.visit(index)
      guard 2 * index + 2 < count else { return }
      add(2 * index + 1, of: count, screen, to: queue)
      add(2 * index + 2, of: count, screen, to: queue)
    }
  }

  private static func add(_ index: Int, of count: Int, _ screen: Screen, to queue: DispatchQueue, _ leaves: Countdown) {
    queue.async { [weak screen] in
      guard let screen else { return }
      screen.visit(index)
      guard 2 * index + 2 < count else { return leaves.countDown() }
      add(2 * index + 1, of: count, screen, to: queue, leaves)
      add(2 * index + 2, of: count, screen, to: queue, leaves)
    }
  }
}
