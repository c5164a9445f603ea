extension Benchmark {
  /// In the order in which they run.
  static var all: [Benchmark] {
    [
      jobs, operations, graphs, owners,
    ]
  }
}
