import Foundation
import Synchronization

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
    // An exchange, to see what was added by those who have found this on its way.
    if !Mutation.tellerComesOffLate.isOn { _ = isOnItsWay.exchange(false, ordering: .acquiringAndReleasing) }
    var told: Int
    repeat {
      told = completed.load(ordering: .acquiring)
      foundationProgress.completedUnitCount = Int64(told)
    } while completed.load(ordering: .acquiring) != told && !Mutation.oldCountIsToldLast.isOn
    if Mutation.tellerComesOffLate.isOn { _ = isOnItsWay.exchange(false, ordering: .acquiringAndReleasing) }
  }
}
