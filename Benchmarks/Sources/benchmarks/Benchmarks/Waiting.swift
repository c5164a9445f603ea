import Dispatch
import Foundation
import OwnedOperations

extension Benchmark {
  static var waiting: Benchmark {
    Benchmark("P17-waiting", "owners that are waited for, barriers, and plain operations that wait, in numbers") { session in
      for count in session.pick([1000, 10_000, 100_000], quick: [1000]) {
        try session.compare(
          "\(count.short) barriers", count: count, pairs: session.pick(5, quick: 1),
          ours: Contender("addBarrier(owner:)") { try addBarriers(count) },
          peer: Contender("GCD async, flags: .barrier") { addBarriersToDispatch(count) },
          parameter: .init(name: "barriers", value: Double(count)), target: .ours(atMost: 2000))
      }
      // In a row they share what a barrier needs; with a job before each, none does.
      for mix in BarrierMix.allCases {
        let count = session.pick(100_000, quick: 1000)
        try session.compare(
          "\(count.short) barriers, \(mix.rawValue)", count: count, pairs: session.pick(5, quick: 1),
          ours: Contender("addBarrier(owner:)") { try addBarriers(count, mix) },
          peer: Contender("GCD async, flags: .barrier") { addBarriersToDispatch(count, mix) },
          target: mix == .withJobs ? nil : .ours(atMost: 2000))
      }
      // After the barriers: what 100,000 owners leave is still being cleared away when the next begins.
      for count in session.pick([1000, 10_000, 100_000], quick: [1000]) {
        try session.measure(
          "\(count.short) owners are awaited: register, finish", count: count, samples: session.pick(5, quick: 1),
          ours: Contender("finished(ownedBy:)") { try awaitOwners(count) },
          parameter: .init(name: "owners", value: Double(count)), target: .ours(atMost: 5000),
          note: "the task that waits, and its owner's job, included")
      }
      let seconds = session.pick(10.0, quick: 0.5)
      // Of the process itself: Dispatch looks at its threads every second, once it has some, and this thread's sleep ends.
      Thread.sleep(forTimeInterval: seconds)
      let rest = Idleness.measure(seconds)
      session.record("nothing waits, changes of threads", unit: "a second", count: 0, ours: "OwnerScopedQueue", [rest.switches])
      for count in session.pick([1, 10_000], quick: [1]) {
        let queue = OwnerScopedQueue()
        let gate = BlockOperation {}
        queue.addOperations((0..<count).map { _ in waiting(for: gate) }, waitUntilFinished: false)
        // Nothing changes any more. Looks become rarer with time.
        Thread.sleep(forTimeInterval: seconds)
        let idle = Idleness.measure(seconds)
        session.record(
          "\(count.short) plain operations wait, processor time", unit: "% of a core", count: count, ours: "OwnerScopedQueue",
          [idle.processorShare * 100], target: .ours(atMost: 1))
        session.record(
          "the same, changes of threads, without those when nothing waits", unit: "a second", count: count, ours: "OwnerScopedQueue",
          [idle.switches - rest.switches], target: count == 1 ? .ours(atMost: 20) : nil)
        gate.start()
        queue.waitUntilAllOperationsAreFinished()
      }
    }
  }

  /// In nanoseconds per owner. The queue begins when all but the last two at most, one for each thread of tasks, have been registered.
  private static func awaitOwners(_ count: Int) throws -> Double {
    let queue = OwnerScopedQueue()
    let screens = (0..<count).map { _ in Screen() }
    let asking = Countdown(from: count)
    queue.isSuspended = true
    let cost = nanoseconds(per: count) {
      for (index, screen) in screens.enumerated() { queue.async(owner: screen) { $0.visit(index) } }
      let returned = Countdown(from: count)
      for screen in screens {
        Task.detached {
          asking.countDown()
          await queue.finished(ownedBy: screen.lifetime)
          returned.countDown()
        }
      }
      asking.wait()
      queue.isSuspended = false
      returned.wait()
    }
    try WrongResult.check(screens.reduce(0) { $0 + $1.takeVisits() }, is: Screen.visits(of: count), "counted jobs")
    return cost
  }

  private enum BarrierMix: String, CaseIterable {
    case ofTwoOwners = "of two owners in turn"
    case withJobs = "a job before each"
  }

  private static func addBarriers(_ count: Int, _ mix: BarrierMix? = nil) throws -> Double {
    let queue = OwnerScopedQueue()
    let (screen, other) = (Screen(), Screen())
    let cost = nanoseconds(per: count) {
      for index in 0..<count {
        if mix == .withJobs { queue.async(owner: other) { $0.visit(index) } }
        let owner = mix == .ofTwoOwners && index & 1 == 1 ? other : screen
        queue.addBarrier(owner: owner) { $0.visit(index) }
      }
      queue.waitUntilAllOperationsAreFinished()
    }
    try screen.checkVisits(count)
    if mix == .withJobs { try other.checkVisits(count) }
    return cost
  }

  private static func addBarriersToDispatch(_ count: Int, _ mix: BarrierMix? = nil) -> Double {
    let queue = DispatchQueue(label: "barriers", attributes: .concurrent)
    let (screen, other) = (Screen(), Screen())
    return nanoseconds(per: count) {
      for index in 0..<count {
        if mix == .withJobs { queue.async { other.visit(index) } }
        let owner = mix == .ofTwoOwners && index & 1 == 1 ? other : screen
        queue.async(flags: .barrier) { owner.visit(index) }
      }
      queue.sync(flags: .barrier) {}
    }
  }

  private static func waiting(for gate: Operation) -> Operation {
    let operation = BlockOperation {}
    operation.addDependency(gate)
    return operation
  }
}

/// What the process does while nothing is to be done.
private struct Idleness {
  /// Of one processor.
  var processorShare: Double
  var switches: Double

  static func measure(_ seconds: Double) -> Idleness {
    let before = usage()
    Thread.sleep(forTimeInterval: seconds)
    let after = usage()
    return Idleness(processorShare: (after.time - before.time) / seconds, switches: (after.switches - before.switches) / seconds)
  }

  private static func usage() -> (time: Double, switches: Double) {
    var usage = rusage()
    #if canImport(Darwin)
      getrusage(RUSAGE_SELF, &usage)
    #else
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    #endif
    let time = [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
    return (time, Double(usage.ru_nvcsw + usage.ru_nivcsw))
  }
}
