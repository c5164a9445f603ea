import Dispatch
import Foundation
import OwnedOperations

extension Benchmark {
  static var adders: Benchmark {
    Benchmark("P13-adders", "several threads that add jobs at the same time, each for an owner of its own") { session in
      let count = session.pick(1 << 20, quick: 1 << 16)
      let pairs = session.pick(5, quick: 1)
      for threads in [2, 4, 8, 32] {
        try session.compare(
          "\(threads) threads, an owner each, \(count) jobs", count: count, pairs: pairs,
          ours: contender(JobRunner.ours(), jobs: count, threads: threads),
          peer: contender(JobRunner.gcdWithWeakCheck(), jobs: count, threads: threads),
          parameter: .init(name: "threads", value: Double(threads)), target: .ratio(atMost: 0.35))
      }
      try session.compare(
        "32 threads next to 2, \(count) jobs", count: count, pairs: pairs,
        ours: contender(JobRunner.ours(), jobs: count, threads: 32), peer: contender(JobRunner.ours(), jobs: count, threads: 2),
        target: .ratio(atMost: 1 / 0.8), note: "32 threads get 0.8 of the jobs through that 2 do, or more")
    }
  }

  /// In nanoseconds per job. Threads are there before the clock starts.
  private static func contender(_ runner: JobRunner, jobs: Int, threads: Int) -> Contender {
    guard let halves = runner.halves else { preconditionFailure("\(runner.name) can't be added to by several threads") }
    let screens = (0..<threads).map { _ in Screen() }
    let share = jobs / threads
    return Contender(runner.name) {
      let start = DispatchSemaphore(value: 0)
      let added = Countdown(from: threads)
      for screen in screens {
        Thread.detachNewThread { [add = halves.add] in
          start.wait()
          add(screen, 0..<share)
          added.countDown()
        }
      }
      let cost = nanoseconds(per: jobs) {
        for _ in 0..<threads { start.signal() }
        added.wait()
        halves.wait()
      }
      for screen in screens { try screen.checkVisits(share) }
      return cost
    }
  }
}
