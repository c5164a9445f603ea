import Dispatch
import OwnedOperations

extension Benchmark {
  static var nested: Benchmark {
    Benchmark("P12-nested", "a job adds two jobs, each of which adds two, and so on") { session in
      let count = session.pick(1 << 18, quick: 1 << 14) - 1
      try session.compareTrees(of: count, times: 1, target: .ratio(atMost: 0.3), targetToOneTBB: .ratio(atMost: 2))
    }
  }

  static var scalingNesting: Benchmark {
    Benchmark("scaling-nesting", "what a job costs that adds two, the deeper they are nested") { session in
      let deepest = session.pick(20, quick: 14)
      for depth in stride(from: 2, through: deepest, by: 3) {
        try session.compareTrees(of: 1 << depth - 1, times: max(1, (1 << (deepest - 4)) >> depth), depth: depth)
      }
    }
  }
}

extension Session {
  /// Trees of jobs, each of which adds two, one tree after the other, in nanoseconds per job; next to GCD and oneTBB.
  fileprivate func compareTrees(
    of count: Int, times: Int, depth: Int? = nil, target: Target? = nil, targetToOneTBB: Target? = nil
  ) throws {
    let workload = times == 1 ? "a tree of \(count) jobs" : "\(times) trees of \(count) jobs"
    let parameter = depth.map { Measurement.Parameter(name: "depth", value: Double($0)) }
    let pairs = pick(7, quick: 2)
    let queue = OwnerScopedQueue()
    let screen = Screen()
    let ours = Contender("async(owner:)") {
      let cost = nanoseconds(per: count * times) {
        for _ in 0..<times {
          Self.add(0, of: count, screen, to: queue)
          queue.waitUntilAllOperationsAreFinished()
        }
      }
      try WrongResult.check(screen.takeVisits(), is: times * Screen.visits(of: count), "counted jobs")
      return cost
    }
    let dispatch = DispatchQueue(label: "nested", attributes: .concurrent)
    let peerScreen = Screen()
    let peer = Contender("GCD, weak check") {
      let cost = nanoseconds(per: count * times) {
        for _ in 0..<times {
          // A barrier would pass jobs that are still to be added. Only leaves count down: what is above them has run before.
          let leaves = Countdown(from: count / 2 + 1)
          Self.add(0, of: count, peerScreen, to: dispatch, leaves)
          leaves.wait()
        }
      }
      try WrongResult.check(peerScreen.takeVisits(), is: times * Screen.visits(of: count), "counted jobs")
      return cost
    }
    try compare(workload, count: count * times, pairs: pairs, ours: ours, peer: peer, parameter: parameter, target: target)
    guard times == 1, depth == nil else { return }
    try compare(workload, count: count, pairs: pairs, ours: ours, peer: OneTBB.nestedTaskGroup(tasks: count), target: targetToOneTBB)
  }

  /// Nodes are numbered as in a heap.
  static func add(_ index: Int, of count: Int, _ screen: Screen, to queue: OwnerScopedQueue) {
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
