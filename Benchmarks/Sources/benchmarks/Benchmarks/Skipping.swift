import Dispatch
import OwnedOperations

extension Benchmark {
  static var skipping: Benchmark {
    Benchmark("P6-skipping", "jobs whose owner has gone") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      try session.compare(
        "\(count.jobs) pending, until all are accounted for", count: count,
        ours: Contender("from end()") { try skipPending(count) },
        peer: Contender("GCD, weak check, from resume()") { skipPendingOnGCD(count) }, target: .ours(atMost: 50))

      let queue = OwnerScopedQueue()
      let ended = Screen()
      ended.lifetime.end()
      try session.measure(
        "adding \(count.jobs)", count: count,
        ours: Contender("async(owner:), owner ended", operations: count) {
          let before = queue.statistics.skippedForEndedOwners
          for index in 0..<count {
            queue.async(owner: ended) { screen in screen.visit(index) }
          }
          queue.waitUntilAllOperationsAreFinished()
          try WrongResult.check(queue.statistics.skippedForEndedOwners - before, is: count, "skipped jobs")
        }, target: .ours(atMost: 50))
    }
  }

  private static func skipPending(_ count: Int) throws -> Double {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let screen = Screen()
    for index in 0..<count {
      queue.async(owner: screen) { screen in screen.visit(index) }
    }
    let cost = nanoseconds(per: count) {
      screen.lifetime.end()
      queue.waitUntilAllOperationsAreFinished()
    }
    try WrongResult.check(queue.statistics.skippedForEndedOwners, is: count, "skipped jobs")
    return cost
  }

  private static func skipPendingOnGCD(_ count: Int) -> Double {
    let queue = DispatchQueue(label: "weak", attributes: .concurrent)
    queue.suspend()
    var screen: Screen? = Screen()
    for index in 0..<count {
      queue.async { [weak screen] in
        guard let screen else { return }
        screen.visit(index)
      }
    }
    screen = nil
    return nanoseconds(per: count) {
      queue.resume()
      queue.sync(flags: .barrier) {}
    }
  }
}
