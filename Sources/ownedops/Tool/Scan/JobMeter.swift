import Dispatch
import Foundation
import Synchronization

/// Counts jobs where they begin: with the first instruction of their bodies, whatever the queue promises.
///
/// The end of the owners leaves a stamp, taken when the call that ends them has returned. A body that begins after it is *late*. That alone
/// breaks no promise: its start may have been decided before the end and have been on its way to the body. A body can't know when that was,
/// and the queue that is being examined isn't asked. What is known is how many such starts there can have been. From the decision until its
/// body has returned a job takes one of the engine's places. There are as many of these as jobs may run at a time. A place in which a body
/// was running at the stamp had no start under way. So
///
///     under way at the end <= places - bodies running at the stamp
///
/// and every late body beyond that number began after the end, for certain. It is never more than the number of places. Only so few of the
/// jobs that a queue starts too late can pass for under way, and they are shown as such. In the midst of a scan, with every place at work,
/// it is 0.
///
/// Bodies running at the stamp: those begun in time, counted before the stamp is taken, less those of them that have returned, counted
/// after. A body first looks for the stamp, and only if there is none is it counted as begun in time. So no body is late and running both.
/// What happens between the two counts makes running bodies seem fewer, and the allowance greater, never the other way. The stamp is there
/// for all to see a few instructions after it is taken. What begins in between passes for begun in time. All of these are sequentially
/// consistent.
final class JobMeter: Sendable {
  private let submittedCount = Atomic<Int>(0)
  private let inTimeCount = Atomic<Int>(0)
  private let lateCount = Atomic<Int>(0)
  /// Of those begun in time.
  private let returnedCount = Atomic<Int>(0)
  private let completedCount = Atomic<Int>(0)
  /// How many late bodies may have been under way.
  private let allowance = Atomic<Int>(0)
  private let places: Int
  /// Set before the owners end: work that runs should stop.
  private let isEnding = Atomic<Bool>(false)
  /// When the owners' end was complete, in nanoseconds; 0 if they live.
  private let endStamp = Atomic<UInt64>(0)
  private let pendingAtEnd = Atomic<Int>(0)
  private let processorTimeAtEnd = Guarded(0.0)
  /// For tests: told, by a job that has just begun in time, how many have.
  private let didBegin: (@Sendable (Int) -> Void)?

  /// - Parameter places: how many jobs the engine may run at a time.
  init(places: Int, didBegin: (@Sendable (Int) -> Void)? = nil) {
    self.places = places
    self.didBegin = didBegin
  }

  var shouldStop: Bool { isEnding.load(ordering: .relaxed) }

  func submit(_ count: Int) { submittedCount.add(count, ordering: .relaxed) }

  /// The first thing a body does.
  /// - Returns: whether it is late, for ``returned(late:)``.
  func begin() -> Bool {
    let stamp = endStamp.load(ordering: .sequentiallyConsistent)
    let isLate = stamp != 0 && DispatchTime.now().uptimeNanoseconds > stamp
    guard !isLate else {
      lateCount.add(1, ordering: .relaxed)
      return true
    }
    let begun = inTimeCount.add(1, ordering: .sequentiallyConsistent).newValue
    didBegin?(begun)
    return false
  }

  /// Went through to its own end.
  func complete() { completedCount.add(1, ordering: .relaxed) }

  /// The last thing a body does, however it went.
  func returned(late: Bool) {
    if !late { returnedCount.add(1, ordering: .sequentiallyConsistent) }
  }

  /// - Parameter body: ends the owners.
  /// - Returns: false if they had ended already.
  func end(_ body: () -> Void) -> Bool {
    guard isEnding.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged else { return false }
    body()
    let begun = inTimeCount.load(ordering: .sequentiallyConsistent)
    endStamp.store(DispatchTime.now().uptimeNanoseconds, ordering: .sequentiallyConsistent)
    let running = begun - returnedCount.load(ordering: .sequentiallyConsistent)
    allowance.store(max(0, places - max(0, running)), ordering: .relaxed)
    pendingAtEnd.store(submittedCount.load(ordering: .relaxed) - begun, ordering: .relaxed)
    processorTimeAtEnd.withLock { $0 = ProcessCost.now.processorTime }
    return true
  }

  /// What has become of the jobs; to be asked when nothing runs any more.
  var counts: JobCounts {
    let submitted = submittedCount.load(ordering: .relaxed)
    let late = lateCount.load(ordering: .relaxed)
    let begun = inTimeCount.load(ordering: .relaxed) + late
    let stamp = endStamp.load(ordering: .acquiring)
    var counts = JobCounts(submitted: submitted, finished: completedCount.load(ordering: .relaxed))
    guard stamp != 0 else { return counts }
    counts.pendingAtEnd = pendingAtEnd.load(ordering: .relaxed)
    counts.cancelled = submitted - begun
    counts.underWayAtEnd = min(late, allowance.load(ordering: .relaxed))
    counts.startedAfterEnd = late - counts.underWayAtEnd
    counts.secondsAfterEnd = Double(DispatchTime.now().uptimeNanoseconds - stamp) / 1e9
    counts.processorSecondsAfterEnd = ProcessCost.now.processorTime - processorTimeAtEnd.withLock { $0 }
    return counts
  }
}

struct JobCounts: Codable, Sendable {
  var submitted = 0
  /// Went through to their own end.
  var finished = 0
  var pendingAtEnd = 0
  /// Never begun.
  var cancelled = 0
  /// Began after the end, though their start may have been under way when it came.
  var underWayAtEnd = 0
  /// Began after the end, and had not been under way.
  var startedAfterEnd = 0
  /// From the end of the owners until nothing ran any more.
  var secondsAfterEnd = 0.0
  var processorSecondsAfterEnd = 0.0
}
