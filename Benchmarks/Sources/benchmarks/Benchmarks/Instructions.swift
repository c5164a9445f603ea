extension Benchmark {
  static var instructions: Benchmark {
    Benchmark("instructions", "instructions of all threads for one job, counted by callgrind") { session in
      let count = session.pick(10_000, quick: 1000)
      let pairs: [(String, ours: String, peer: String, peerName: String)] = [
        ("async(owner:)", "jobs-ours", "jobs-gcd-weak", "GCD, weak check"),
        ("DispatchQueue.async(owner:)", "jobs-ours-on-gcd", "jobs-gcd-weak", "GCD, weak check"),
        ("async(owner:)", "jobs-ours", "jobs-safe-dispatch", "safe-dispatch wrapper"),
        ("OwnedBlockOperation", "operations-ours", "operations-foundation", "OperationQueue"),
        ("OperationGraph, chain", "graph-chain", "onetbb-chain", "oneTBB flow graph"),
        ("OperationGraph, tree", "graph-tree", "onetbb-tree", "oneTBB flow graph"),
      ]
      var counted: [String: Double] = [:]
      func instructions(_ probe: String) throws -> Double {
        if let known = counted[probe] { return known }
        let new = try ProbeProcess.instructions(probe, count: count)
        counted[probe] = new
        return new
      }
      for (name, ours, peer, peerName) in pairs {
        if peer.hasPrefix("onetbb"), !OneTBB.isAvailable { continue }
        session.record(
          "per job", unit: "instr/op", count: count, ours: name, [try instructions(ours)], peer: peerName, [try instructions(peer)])
      }
    }
  }
}
