extension Benchmark {
  static var jobs: Benchmark {
    Benchmark("P1-jobs", "jobs with an owner, added by one thread, until all have finished") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      try session.compare(
        count.jobs, count: count, ours: JobRunner.ours().contender(jobs: count),
        peer: JobRunner.gcdWithWeakCheck().contender(jobs: count), target: .ratio(atMost: 0.35))
      try session.compare(
        count.jobs, count: count, ours: JobRunner.ours().contender(jobs: count), peer: OneTBB.taskGroup(jobs: count),
        target: .ratio(atMost: 1, isStretch: true))
    }
  }

  static var peers: Benchmark {
    Benchmark("peers", "the same jobs by everything else there is, each next to async(owner:)") { session in
      let peers: [(JobRunner, full: Int, quick: Int)] = [
        (.gcd(), 1_000_000, 100_000),
        (.gcdWithWeakCheck(), 1_000_000, 100_000),
        (.safeDispatch(), 1_000_000, 100_000),
        (.oursOnGCD(), 1_000_000, 100_000),
        (.operationQueue(), 100_000, 10_000),
        (.detachedTasks(), 500_000, 50_000),
        (.discardingTaskGroup(), 500_000, 50_000),
      ]
      for (peer, full, quick) in peers {
        let count = session.pick(full, quick: quick)
        try session.compare(
          count.jobs, count: count, pairs: session.pick(5, quick: 1), ours: JobRunner.ours().contender(jobs: count),
          peer: peer.contender(jobs: count))
      }
      let count = session.pick(1_000_000, quick: 100_000)
      try session.compare(
        count.jobs, count: count, pairs: session.pick(5, quick: 1), ours: JobRunner.ours().contender(jobs: count),
        peer: OneTBB.taskGroup(jobs: count))
    }
  }
}

extension Int {
  /// For people: `1 M`, `10 k`.
  var short: String {
    if self >= 1_000_000, self % 1_000_000 == 0 { return "\(self / 1_000_000) M" }
    return self >= 1000 && self % 1000 == 0 ? "\(self / 1000) k" : "\(self)"
  }

  var jobs: String { short + " jobs" }
}
