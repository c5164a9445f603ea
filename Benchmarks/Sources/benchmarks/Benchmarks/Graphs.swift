import OwnedOperations

extension Benchmark {
  static var graphs: Benchmark {
    Benchmark("P4-graphs", "closures that depend on each other: build, run once, free") { session in
      let count = session.pick(1_000_000, quick: 40_000)
      let queue = OwnerScopedQueue()
      for shape in [GraphShape.chain(count), .grid(side: session.pick(1000, quick: 200)), .tree(count), .fanIn(count)] {
        try session.compare(
          "\(shape.name) of \(shape.nodeCount.short)", count: shape.nodeCount, pairs: session.pick(5, quick: 3),
          ours: shape.graph(on: queue), peer: OneTBB.flowGraph(shape), target: .ratio(atMost: 1))
      }
    }
  }
}
