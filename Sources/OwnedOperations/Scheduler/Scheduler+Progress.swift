import Foundation

/// What the queue's `Progress` is told. Whether a unit counts is decided under the lock, by the `totalUnitCount` of the moment in which the
/// work is over.
///
/// - On Linux, where nothing observes a `Progress`, it is told there and then: that calls nobody.
/// - Elsewhere its observers are the user's, and may block, or use the queue. So it is told in the background, and nothing waits for that.
extension Scheduler {
  /// Work has run and is over.
  mutating func noteProgress(_ count: Int) {
    guard let progress, count > 0, progress.foundationProgress.totalUnitCount > 0 else { return }
    if tellsProgressLater {
      progress.add(count)
      isProgressDue = true
    } else {
      progress.foundationProgress.completedUnitCount += Int64(count)
    }
  }

  /// What is to be told something when the lock is free.
  mutating func takeDueProgress() -> QueueProgress? {
    guard isProgressDue else { return nil }
    isProgressDue = false
    return progress
  }
}
