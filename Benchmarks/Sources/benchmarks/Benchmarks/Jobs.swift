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
}

extension Int {
  /// For people: `1 M`, `10 k`.
  var short: String {
    if self >= 1_000_000, self % 1_000_000 == 0 { return "\(self / 1_000_000) M" }
    return self >= 1000 && self % 1000 == 0 ? "\(self / 1000) k" : "\(self)"
  }

  var jobs: String { short + " jobs" }
}
