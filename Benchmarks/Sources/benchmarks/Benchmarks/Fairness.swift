import OwnedOperations

extension Benchmark {
  static var fairness: Benchmark {
    Benchmark("P10-fairness", "many owners with many jobs each: turns for all, next to first come, first served") { session in
      let ownerCount = session.pick(10_000, quick: 1000)
      let jobsPerOwner = 100
      let count = ownerCount * jobsPerOwner
      let screens = (0..<ownerCount).map { _ in Screen() }
      func contender(_ fairness: OwnerFairness) -> Contender {
        let queue = OwnerScopedQueue()
        queue.ownerFairness = fairness
        return Contender(fairness == .roundRobin ? "roundRobin" : "firstComeFirstServed") {
          let cost = nanoseconds(per: count) {
            for screen in screens {
              for index in 0..<jobsPerOwner {
                queue.async(owner: screen) { screen in screen.visit(index) }
              }
            }
            queue.waitUntilAllOperationsAreFinished()
          }
          for screen in screens { try screen.checkVisits(jobsPerOwner) }
          return cost
        }
      }
      try session.compare(
        "\(ownerCount.short) owners, \(jobsPerOwner) jobs each", count: count, ours: contender(.roundRobin),
        peer: contender(.firstComeFirstServed), target: .ratio(atMost: 1.3))
    }
  }
}
