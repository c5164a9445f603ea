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
        var awakeTimes: [Double] = []
        var asyncTimes: [Double] = []
        var rates: [Double] = []
        var plainRates: [Double] = []
        for sample in 0...session.pick(10, quick: 3) {
          let times = endOwner(pendingJobs: count, isSuspended: isSuspended, comesFirst: sample % 2 == 0)
          guard sample > 0 else { continue }
          endTimes.append(times.end / 1000)
          wakeTimes.append(times.wake / 1000)
          awakeTimes.append(times.awakeEnd / 1000)
          asyncTimes.append(times.awakeAsync / 1000)
          rates.append(Double(2 * count) / times.release * 1000)
          plainRates.append(Double(2 * count) / timeToReleasePlainly(2 * count) * 1000)
        }
        session.record(
          workload, unit: "us", count: count, ours: "end() on the caller's thread", endTimes, peer: "async {} to an idle GCD queue",
          wakeTimes, target: .ratio(atMost: 1.2), note: "either has to wake a thread that sleeps")
        session.record(
          workload, unit: "us", count: count, ours: "end() of another owner, right behind", awakeTimes,
          peer: "async {} to a GCD queue at work", asyncTimes, target: .ours(atMost: 2),
          note: "neither has anybody to wake; in turn one is first")
        session.record(
          workload, unit: "M/s", count: count, ours: "release of captured objects", rates, peer: "an array of such closures let go of",
          plainRates, target: .ours(atLeast: 5), note: "the peer has no queue, no owner and no order")
      }
    }
  }

  /// In nanoseconds.
  private struct EndTimes {
    /// How long `end()` kept the caller.
    var end: Double
    /// How long it keeps the caller, in the same place, to hand an empty closure to a GCD queue that has nothing to do.
    var wake: Double
    /// How long the `end()` of another owner, with as many jobs, kept the caller while the first one's were being cleaned up.
    var awakeEnd: Double
    /// How long it keeps the caller, in the same place, to hand an empty closure to a GCD queue that has a block to run.
    var awakeAsync: Double
    /// From the first end until the last object that a job of either had captured was freed.
    var release: Double
  }

  /// - Parameter comesFirst: the second end, and not GCD's closure: whoever is second finds more in the caches.
  private static func endOwner(pendingJobs count: Int, isSuspended: Bool, comesFirst: Bool) -> EndTimes {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (gate, busy) = (Gate(), BusyQueue())
    if isSuspended { queue.isSuspended = true } else { gate.block(queue) }

    let (screen, other) = (Screen(), Screen())
    let (released, releasedLater) = (Countdown(from: count), Countdown(from: count))
    for (owner, released) in [(screen, released), (other, releasedLater)] {
      for index in 0..<count {
        let capture = Capture(released)
        queue.async(owner: owner) { screen in
          screen.visit(index)
          withExtendedLifetime(capture) {}
        }
      }
    }

    let wakeTime = timeToWakeAThread()
    let start = DispatchTime.now().uptimeNanoseconds
    screen.lifetime.end()
    let ended = DispatchTime.now().uptimeNanoseconds
    // Not at once: the thread that was woken has to come.
    let second = other.lifetime
    usleep(1000)
    _ = DispatchTime.now()  // or whoever is first would wait for the clock
    let startOfFirst = DispatchTime.now().uptimeNanoseconds
    if comesFirst { second.end() } else { busy.queue.async {} }
    let startOfSecond = DispatchTime.now().uptimeNanoseconds
    if comesFirst { busy.queue.async {} } else { second.end() }
    let endOfSecond = DispatchTime.now().uptimeNanoseconds
    let (firstTime, secondTime) = (Double(startOfSecond - startOfFirst), Double(endOfSecond - startOfSecond))
    busy.gate.signal()
    released.wait()
    releasedLater.wait()
    let finished = DispatchTime.now().uptimeNanoseconds
    gate.open()
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    return EndTimes(
      end: Double(ended - start), wake: wakeTime, awakeEnd: comesFirst ? firstTime : secondTime,
      awakeAsync: comesFirst ? secondTime : firstTime,
      release: Double(finished - start))
  }

  /// GCD's, with a block that waits for the gate.
  private struct BusyQueue {
    let queue = DispatchQueue(label: "busy")
    let gate = DispatchSemaphore(value: 0)

    init() {
      let hasBegun = DispatchSemaphore(value: 0)
      queue.async { [gate] in
        hasBegun.signal()
        gate.wait()
      }
      hasBegun.wait()
    }
  }

  /// In nanoseconds: how long a thread of GCD's takes that has the only reference to an array of as many closures.
  private static func timeToReleasePlainly(_ count: Int) -> Double {
    let released = Countdown(from: count)
    let screen = Screen()
    var jobs = (0..<count).map { index -> @Sendable () -> Void in
      let capture = Capture(released)
      return { [weak screen] in
        screen?.visit(index)
        withExtendedLifetime(capture) {}
      }
    }
    let taken = Taken(jobs)
    jobs = []
    let start = DispatchTime.now().uptimeNanoseconds
    DispatchQueue.global().async { taken.release() }
    released.wait()
    return Double(DispatchTime.now().uptimeNanoseconds - start)
  }

  private final class Taken: @unchecked Sendable {  // handed from one thread to the other
    private var jobs: [@Sendable () -> Void]
    init(_ jobs: [@Sendable () -> Void]) { self.jobs = jobs }
    func release() { jobs = [] }
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
