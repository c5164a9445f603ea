import OwnedOperations

extension Probe {
  /// Adding jobs and waiting for them.
  static var jobs: [Probe] {
    [
      Probe("jobs-ours") { count in try JobRunner.ours().runOnce(jobs: count) },
      Probe("jobs-ours-on-gcd") { count in try JobRunner.oursOnGCD().runOnce(jobs: count) },
      Probe("jobs-gcd") { count in try JobRunner.gcd().runOnce(jobs: count) },
      Probe("jobs-gcd-weak") { count in try JobRunner.gcdWithWeakCheck().runOnce(jobs: count) },
      Probe("jobs-safe-dispatch") { count in try JobRunner.safeDispatch().runOnce(jobs: count) },
      Probe("operations-ours") { count in try JobRunner.ownedOperations().runOnce(jobs: count) },
      Probe("operations-foundation") { count in try JobRunner.operationQueue().runOnce(jobs: count) },
    ]
  }

  /// Building and running a graph.
  static var graphs: [Probe] {
    [
      Probe("graph-chain") { count in _ = try GraphShape.chain(count).graph(on: OwnerScopedQueue()).sample() },
      Probe("graph-tree") { count in _ = try GraphShape.tree(count).graph(on: OwnerScopedQueue()).sample() },
      Probe("onetbb-chain") { count in _ = try OneTBB.flowGraph(.chain(count)).sample() },
      Probe("onetbb-tree") { count in _ = try OneTBB.flowGraph(.tree(count)).sample() },
    ]
  }
}

extension JobRunner {
  fileprivate func runOnce(jobs: Int) throws { _ = try contender(jobs: jobs).sample() }
}
