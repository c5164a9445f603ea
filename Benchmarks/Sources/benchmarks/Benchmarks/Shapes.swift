import Foundation
import OwnedOperations

extension Benchmark {
  static var shapes: Benchmark {
    Benchmark("P3-shapes", "operations that depend on each other: what one costs among many, next to one among few") { session in
      let queue = OwnerScopedQueue()
      let small = session.pick(10_000, quick: 400)
      let large = session.pick(1_000_000, quick: 10_000)
      let smallSide = session.pick(100, quick: 20)
      let largeSide = session.pick(1000, quick: 100)
      let shapes: [(GraphShape, GraphShape)] = [
        (.chain(small), .chain(large)),
        (.fanIn(small), .fanIn(large)),
        (.tree(small), .tree(large)),
        (.grid(side: smallSide), .grid(side: largeSide)),
      ]
      for (few, many) in shapes {
        let ours = many.ownedOperations(on: queue)
        let peer = few.ownedOperations(on: queue, repetitions: 20)
        try session.compare(
          few.name, count: many.nodeCount, pairs: session.pick(3, quick: 1),
          ours: Contender("\(many.nodeCount.short) operations", sample: ours.sample),
          peer: Contender("\(few.nodeCount.short)", sample: peer.sample), target: .ratio(atMost: 1.5))
      }
    }
  }

  static var chain: Benchmark {
    Benchmark("P3-chain", "operations that each wait for the one before") { session in
      // Almost a minute for one sample of the peer, a twentieth of a second for a chain of ours: of these, one sample is many, one after
      // the other.
      let chain = GraphShape.chain(session.pick(16_000, quick: 1000))
      try session.compare(
        "chain of \(chain.nodeCount.short)", count: chain.nodeCount, pairs: session.pick(3, quick: 1), warmUp: false,
        ours: chain.ownedOperations(on: OwnerScopedQueue(), repetitions: session.pick(20, quick: 1)),
        peer: chain.foundationOperations(on: OperationQueue()),
        target: .ratio(atMost: 0.001))
    }
  }
}
