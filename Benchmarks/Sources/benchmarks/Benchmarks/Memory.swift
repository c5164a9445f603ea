extension Benchmark {
  static var memory: Benchmark {
    Benchmark("P7-memory", "bytes for each pending job or operation, each figure from a process of its own") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      let ours = try ProbeProcess.memory("pending-ours", count: count)
      let peers = [("GCD, weak check", "pending-gcd-weak"), ("GCD async", "pending-gcd"), ("OperationQueue closure", "pending-foundation")]
      for (index, (name, probe)) in peers.enumerated() {
        let peer = try ProbeProcess.memory(probe, count: count)
        let target: Target? = index == 0 ? .ours(atMost: 96) : nil
        session.record(
          "\(count.jobs), resident", unit: "bytes", count: count, ours: "async(owner:)", [ours.resident], peer: name, [peer.resident],
          target: target)
        session.record(
          "\(count.jobs), as malloc counts", unit: "bytes", count: count, ours: "async(owner:)", [ours.allocated], peer: name,
          [peer.allocated], target: target)
      }

      let owned = try ProbeProcess.memory("bare-owned", count: count / 2)
      let base = try ProbeProcess.memory("bare-operation", count: count / 2)
      session.record(
        "a bare operation", unit: "bytes", count: count / 2, ours: "OwnedOperation", [owned.allocated], peer: "Operation", [base.allocated])
      session.record(
        "what it has more than Operation", unit: "bytes", count: count / 2, ours: "OwnedOperation", [owned.allocated - base.allocated],
        target: .ours(atMost: 160))

      let calls = try ProbeProcess.allocations("jobs-ours", count: 2000)
      let peerCalls = try ProbeProcess.allocations("jobs-gcd-weak", count: 2000)
      session.record(
        "allocations, until finished", unit: "malloc/op", count: 2000, ours: "async(owner:)", [calls], peer: "GCD, weak check", [peerCalls])
    }
  }
}
