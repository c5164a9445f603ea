extension Benchmark {
  /// In the order in which they run.
  static var all: [Benchmark] {
    [
      jobs, operations, shapes, chain, graphs, ownerEnd, skipping, memory, latency, owners, fairness, observation,
    ] + requests + [
      nested, adders, ownersInTurn, serialQueues, serialNext, waiting, passingOwners, sleeping, urgent, awaiting,
      peers, scalingCount, scalingOwners, scalingQueues, scalingThreads, scalingNesting, scalingEdges, latencyUnderLoad, locks, events,
      instructions, feed,
    ]
  }
}
