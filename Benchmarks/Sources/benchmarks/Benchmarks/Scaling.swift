import Dispatch
import Foundation
import OwnedOperations

extension Benchmark {
  static var scalingCount: Benchmark {
    Benchmark("scaling-count", "what a job costs among more and more") { session in
      for count in session.pick([1000, 10_000, 100_000, 1_000_000], quick: [1000, 10_000, 100_000]) {
        // Small batches are repeated, so that a sample is long enough to be timed.
        let repetitions = max(1, 100_000 / count)
        let parameter = Measurement.Parameter(name: "jobs", value: Double(count))
        for peer in [JobRunner.gcdWithWeakCheck(), .operationQueue()] where count <= 100_000 || peer.name.hasPrefix("GCD") {
          let peerRepetitions = peer.name.hasPrefix("GCD") ? repetitions : session.pick(max(1, repetitions / 10), quick: 1)
          if session.isQuick, count > 10_000, !peer.name.hasPrefix("GCD") { continue }
          try session.compare(
            count.jobs, count: count, pairs: session.pick(5, quick: 1), ours: JobRunner.ours().contender(jobs: count, times: repetitions),
            peer: peer.contender(jobs: count, times: peerRepetitions), parameter: parameter)
        }
      }
    }
  }

  static var scalingOwners: Benchmark {
    Benchmark("scaling-owners", "what a job costs with more and more owners, who take turns in adding") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      for ownerCount in session.pick([1, 10, 100, 1000, 10_000, 100_000, 1_000_000], quick: [1, 100, 10_000]) {
        try session.compareOwnersInTurn(ownerCount, jobs: count)
      }
    }
  }

  static var scalingQueues: Benchmark {
    Benchmark("scaling-queues", "what a job costs with more and more serial queues, to which jobs are added in turn") { session in
      let count = session.pick(200_000, quick: 10_000)
      for queueCount in session.pick([1, 10, 100, 1000, 10_000, 100_000], quick: [1, 100, 10_000]) {
        try session.compareSerialQueuesInTurn(queueCount, jobs: count)
      }
    }
  }

  static var scalingThreads: Benchmark {
    Benchmark("scaling-threads", "what a job costs with more and more threads adding") { session in
      let count = session.pick(1 << 20, quick: 1 << 16)
      for threads in [1, 2, 4, 8, 16, 32, 64] {
        try session.compare(
          "\(threads) threads, \(count) jobs", count: count, pairs: session.pick(5, quick: 1),
          ours: JobRunner.ours().contender(jobs: count, threads: threads),
          peer: JobRunner.gcdWithWeakCheck().contender(jobs: count, threads: threads),
          parameter: .init(name: "threads", value: Double(threads)))
      }
    }
  }

  static var scalingEdges: Benchmark {
    Benchmark("scaling-edges", "what a node costs with more and more edges") { session in
      let queue = OwnerScopedQueue()
      for edges in [1, 2, 4, 8] {
        let shape = GraphShape.layers(session.pick(1 << 18, quick: 1 << 14), edgesPerNode: edges)
        let parameter = Measurement.Parameter(name: "edges per node", value: Double(edges))
        let workload = "\(edges) edges per node, \(shape.nodeCount) nodes"
        let pairs = session.pick(5, quick: 1)
        try session.compare(
          workload, count: shape.nodeCount, pairs: pairs, ours: shape.graph(on: queue), peer: shape.ownedOperations(on: queue),
          parameter: parameter)
        guard OneTBB.isAvailable else { continue }
        try session.compare(
          workload, count: shape.nodeCount, pairs: pairs, ours: shape.graph(on: queue), peer: OneTBB.flowGraph(shape), parameter: parameter)
      }
      if !OneTBB.isAvailable { session.skip(OneTBB.missing.description) }
    }
  }
}

extension JobRunner {
  /// Running and waiting for so many jobs, several times one after the other, in nanoseconds per job.
  fileprivate func contender(jobs: Int, times: Int) -> Contender {
    let once = contender(jobs: jobs)
    return Contender(name) {
      var sum = 0.0
      for _ in 0..<times { sum += try once.sample() }
      return sum / Double(times)
    }
  }

  /// The same number of jobs, added by several threads at the same time, in nanoseconds per job.
  fileprivate func contender(jobs: Int, threads: Int) -> Contender {
    guard let halves else { preconditionFailure("\(name) can't be added to by several threads") }
    let screen = Screen()
    return Contender(name) {
      let start = DispatchSemaphore(value: 0)
      let added = Countdown(from: threads)
      for thread in 0..<threads {
        Thread.detachNewThread { [add = halves.add] in
          start.wait()
          add(screen, jobs * thread / threads..<jobs * (thread + 1) / threads)
          added.countDown()
        }
      }
      let cost = nanoseconds(per: jobs) {
        for _ in 0..<threads { start.signal() }
        added.wait()
        halves.wait()
      }
      try screen.checkVisits(jobs)
      return cost
    }
  }
}
