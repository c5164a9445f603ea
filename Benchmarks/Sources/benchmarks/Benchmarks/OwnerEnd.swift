import Foundation
import OwnedOperations

extension Benchmark {
  static var ownerEnd: Benchmark {
    Benchmark("P5-owner-end", "an owner ends that has many jobs pending") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      for isSuspended in [true, false] {
        let workload = "\(count.jobs) pending, queue \(isSuspended ? "suspended" : "running, its one worker busy")"
        var endTimes: [Double] = []
        var wakeTimes: [Double] = []
        var rates: [Double] = []
        for sample in 0...session.pick(7, quick: 3) {
          let (endTime, wakeTime, releaseTime) = endOwner(pendingJobs: count, isSuspended: isSuspended)
          guard sample > 0 else { continue }
          endTimes.append(endTime / 1000)
          wakeTimes.append(wakeTime / 1000)
          rates.append(Double(count) / releaseTime * 1000)
        }
        session.record(
          workload, unit: "us", count: count, ours: "end() on the caller's thread", endTimes, peer: "async {} to an idle GCD queue",
          wakeTimes,
          target: .ours(atMost: 10), note: "either has to wake a thread that sleeps")
        session.record(workload, unit: "M/s", count: count, ours: "release of captured objects", rates, target: .ours(atLeast: 5))
      }
    }
  }

  /// How long, in nanoseconds, `end()` kept the caller, and how long it took from then until the last object that a job had captured was
  /// freed. And how long, in the same place, it keeps the caller to hand an empty closure to a GCD queue that has nothing to do.
  private static func endOwner(pendingJobs count: Int, isSuspended: Bool) -> (endTime: Double, wakeTime: Double, releaseTime: Double) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    if isSuspended { queue.isSuspended = true } else { gate.block(queue) }

    let screen = Screen()
    let released = Countdown(from: count)
    for index in 0..<count {
      let capture = Capture(released)
      queue.async(owner: screen) { screen in
        screen.visit(index)
        withExtendedLifetime(capture) {}
      }
    }

    let wakeTime = timeToWakeAThread()
    let start = DispatchTime.now().uptimeNanoseconds
    screen.lifetime.end()
    let ended = DispatchTime.now().uptimeNanoseconds
    released.wait()
    let finished = DispatchTime.now().uptimeNanoseconds
    gate.open()
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    return (Double(ended - start), wakeTime, Double(finished - start))
  }

  private static func timeToWakeAThread() -> Double {
    let queue = DispatchQueue(label: "idle")
    let hasRun = DispatchSemaphore(value: 0)
    let start = DispatchTime.now().uptimeNanoseconds
    queue.async { hasRun.signal() }
    let sent = DispatchTime.now().uptimeNanoseconds
    hasRun.wait()
    usleep(10_000)  // GCD's threads are asleep again
    return Double(sent - start)
  }
}

/// What a job captured. Says when it is freed.
private final class Capture: Sendable {
  private let released: Countdown
  init(_ released: Countdown) { self.released = released }
  deinit { released.countDown() }
}

/// Keeps the worker of a queue busy that has a single one.
private final class Gate: Sendable {
  private let isBlocking = DispatchSemaphore(value: 0)
  private let isOpen = DispatchSemaphore(value: 0)

  func block(_ queue: OwnerScopedQueue) {
    queue.async(lifetime: OwnerLifetime()) { [isBlocking, isOpen] in
      isBlocking.signal()
      isOpen.wait()
    }
    isBlocking.wait()
  }

  func open() { isOpen.signal() }
}
