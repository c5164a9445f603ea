import Foundation
import Synchronization

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

/// A `Progress`, and the count that it is to have.
final class QueueProgress: Sendable {
  let foundationProgress: Progress
  private let completed: Atomic<Int>
  private let isOnItsWay = Atomic(false)

  init(_ progress: Progress) {
    foundationProgress = progress
    completed = Atomic(Int(progress.completedUnitCount))
  }

  /// Under the queue's lock.
  func add(_ count: Int) { completed.add(count, ordering: .releasing) }

  /// Whether the caller is to have `tell` called: nobody has who has not begun.
  func claimTelling() -> Bool { !isOnItsWay.exchange(true, ordering: .acquiringAndReleasing) }

  /// Without a lock, and on several threads at once if an observer blocks. Whoever has told an old count looks again after that, so the
  /// last that is told is the newest.
  func tell() {
    isOnItsWay.store(false, ordering: .sequentiallyConsistent)
    var told: Int
    repeat {
      told = completed.load(ordering: .sequentiallyConsistent)
      foundationProgress.completedUnitCount = Int64(told)
    } while completed.load(ordering: .sequentiallyConsistent) != told
  }
}
