import Dispatch
import Foundation
import OwnedOperations

extension Benchmark {
  /// Each goes first every other time.
  private static func inTurn<Value>(_ sample: Int, _ ours: () -> Value, _ peer: () -> Value) -> (Value, Value) {
    if sample % 2 == 0 { return (ours(), peer()) }
    let second = peer()
    return (ours(), second)
  }

  static var urgent: Benchmark {
    Benchmark("P21-urgent", "from adding a job to its start, behind a great many that may wait") { session in
      let backlog = session.pick(60_000, quick: 6000)
      let samples = session.pick(5, quick: 1)
      let urgent = session.pick(100, quick: 20)
      var (ours, peers) = (Percentiles(), Percentiles())
      for sample in 0...samples {
        let (oursLatencies, peerLatencies) = inTurn(
          sample, { behindFlood(of: backlog, urgent, priorities: (.veryLow, .veryHigh), .firstComeFirstServed) },
          { behindFloodOfOperations(of: backlog / 10, urgent / 5) })
        guard sample > 0 else { continue }
        ours.add(oursLatencies)
        peers.add(peerLatencies)
      }
      for (name, path, limit) in [("p50", \Percentiles.middle, 50.0), ("p99", \.tail, 1000)] {
        session.record(
          "the highest priority behind \(backlog.short) of the lowest, \(name)", unit: "us", count: urgent, ours: "async(owner:)",
          ours[keyPath: path], peer: "OperationQueue, behind \((backlog / 10).short)", peers[keyPath: path], target: .ours(atMost: limit))
      }

      (ours, peers) = (Percentiles(), Percentiles())
      for sample in 0...samples {
        let (turns, inOrder) = inTurn(
          sample, { behindFlood(of: backlog / 3, urgent, priorities: (.normal, .normal), .roundRobin) },
          { behindFlood(of: backlog / 3, urgent, priorities: (.normal, .normal), .firstComeFirstServed) })
        guard sample > 0 else { continue }
        ours.add(turns)
        peers.add(inOrder)
      }
      for (name, path) in [("p50", \Percentiles.middle), ("p99", \.tail)] {
        session.record(
          "a small owner's job beside \((backlog / 3).short) of another's, \(name)", unit: "us", count: urgent, ours: "roundRobin",
          ours[keyPath: path], peer: "firstComeFirstServed", peers[keyPath: path])
      }
    }
  }

  /// One owner's jobs of 50 us; then jobs of another, one each millisecond. The latencies of the latter.
  private static func behindFlood(
    of backlog: Int, _ urgent: Int, priorities: (flood: Operation.QueuePriority, urgent: Operation.QueuePriority), _ fairness: OwnerFairness
  ) -> [Double] {
    let queue = OwnerScopedQueue()
    queue.ownerFairness = fairness
    let flood = OwnerLifetime()
    let screen = Screen()
    for _ in 0..<backlog { queue.async(lifetime: flood, priority: priorities.flood) { computeFiftyMicroseconds() } }
    let starts = StartTimes(capacity: urgent)
    for index in 0..<urgent {
      starts.markAdded(index)
      queue.async(owner: screen, priority: priorities.urgent) { _ in starts.markStartedAndSignal(index) }
      usleep(1000)
    }
    for _ in 0..<urgent { starts.waitForSignal() }
    flood.end()
    queue.waitUntilAllOperationsAreFinished()
    return starts.latencies(urgent)
  }

  private static func behindFloodOfOperations(of backlog: Int, _ urgent: Int) -> [Double] {
    let queue = OperationQueue()
    func add(_ priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) {
      let operation = BlockOperation(block: body)
      operation.queuePriority = priority
      queue.addOperation(operation)
    }
    for _ in 0..<backlog { add(.veryLow) { computeFiftyMicroseconds() } }
    let starts = StartTimes(capacity: urgent)
    for index in 0..<urgent {
      starts.markAdded(index)
      add(.veryHigh) { starts.markStartedAndSignal(index) }
      usleep(1000)
    }
    for _ in 0..<urgent { starts.waitForSignal() }
    queue.cancelAllOperations()
    queue.waitUntilAllOperationsAreFinished()
    return starts.latencies(urgent)
  }

  private static func computeFiftyMicroseconds() {
    let end = DispatchTime.now().uptimeNanoseconds + 50_000
    while DispatchTime.now().uptimeNanoseconds < end {}
  }
}
