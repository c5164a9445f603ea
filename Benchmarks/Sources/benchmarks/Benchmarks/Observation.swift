import Foundation
import OwnedOperations

extension Benchmark {
  static var observation: Benchmark {
    Benchmark("P11-observation", "operations that nobody observes: create, start, free") { session in
      let count = session.pick(200_000, quick: 20_000)
      let lifetime = OwnerLifetime()
      let unobserved = Contender("not observed", operations: count) {
        for _ in 0..<count { OwnedOperation(lifetime: lifetime).start() }
      }
      try session.compare(
        "time", count: count, ours: unobserved,
        peer: Contender("Operation", operations: count) {
          for _ in 0..<count { Operation().start() }
        })
      try session.compare(
        "time", count: count, ours: unobserved,
        peer: Contender("observed", operations: count) {
          for _ in 0..<count { Probe.startObserved(lifetime) }
        })

      let probeCount = session.pick(2000, quick: 500)
      let none = try ProbeProcess.allocations("start-owned", count: probeCount)
      let base = try ProbeProcess.allocations("start-operation", count: probeCount)
      let observed = try ProbeProcess.allocations("start-owned-observed", count: probeCount)
      session.record(
        "allocations", unit: "malloc/op", count: probeCount, ours: "not observed", [none], peer: "Operation", [base],
        target: .ratio(atMost: 1))
      session.record("allocations", unit: "malloc/op", count: probeCount, ours: "not observed", [none], peer: "observed", [observed])
    }
  }
}
