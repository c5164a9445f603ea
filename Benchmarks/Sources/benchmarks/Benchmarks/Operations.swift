extension Benchmark {
  static var operations: Benchmark {
    Benchmark("P2-operations", "operations: create, add, run, finish, free") { session in
      let count = session.pick(100_000, quick: 10_000)
      try session.compare(
        "\(count.short) operations", count: count, ours: JobRunner.ownedOperations().contender(jobs: count),
        peer: JobRunner.operationQueue().contender(jobs: count), target: .ratio(atMost: 0.4))
    }
  }
}
