import Foundation
import OwnedOperations

extension Benchmark {
  static var sleeping: Benchmark {
    Benchmark("P20-sleeping", "bodies that are asleep for a little: as many run as leave room on the processors") { session in
      for (all, microseconds) in [(5_000, UInt32(1_000)), (20_000, 200)] {
        let count = session.pick(all, quick: all / 20)
        let bodies = "\(count.short) of \(Double(microseconds) / 1_000) ms"
        try session.compare(
          "\(bodies), limit of 32", count: count, pairs: session.pick(5, quick: 2),
          ours: Contender("async(owner:)") { try sleep(count, microseconds, OwnerScopedQueue(maxConcurrentOperationCount: 32)) },
          peer: Contender("32 threads, and nothing else") { sleepOnThreads(count, microseconds, threads: 32) },
          target: .ratio(atMost: 1.5))
        try session.compare(
          "\(bodies), no limit", count: count, pairs: session.pick(5, quick: 2),
          ours: Contender("async(owner:)") { try sleep(count, microseconds, OwnerScopedQueue()) },
          peer: Contender("OperationQueue") { sleepOnOperationQueue(count, microseconds) }, target: .ratio(atMost: 1.0))
      }
    }
  }

  private static func sleep(_ count: Int, _ microseconds: UInt32, _ queue: OwnerScopedQueue) throws -> Double {
    let screen = Screen()
    let cost = nanoseconds(per: count) {
      for index in 0..<count {
        queue.async(owner: screen) { screen in
          usleep(microseconds)
          screen.visit(index)
        }
      }
      queue.waitUntilAllOperationsAreFinished()
    }
    try screen.checkVisits(count)
    return cost
  }

  private static func sleepOnOperationQueue(_ count: Int, _ microseconds: UInt32) -> Double {
    let queue = OperationQueue()
    return nanoseconds(per: count) {
      for _ in 0..<count { queue.addOperation { usleep(microseconds) } }
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  private static func sleepOnThreads(_ count: Int, _ microseconds: UInt32, threads: Int) -> Double {
    nanoseconds(per: count) {
      let group = DispatchGroup()
      for thread in 0..<threads {
        group.enter()
        Thread.detachNewThread {
          for _ in stride(from: thread, to: count, by: threads) { usleep(microseconds) }
          group.leave()
        }
      }
      group.wait()
    }
  }
}
