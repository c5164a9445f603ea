import Dispatch
import Synchronization

/// Lets a thread wait until something has happened so many times.
final class Countdown: Sendable {
  private let left: Atomic<Int>
  private let isOver = DispatchSemaphore(value: 0)

  /// - Parameter count: more than 0.
  init(from count: Int) { left = Atomic(count) }

  func countDown() {
    if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { isOver.signal() }
  }

  /// For one thread, once.
  func wait() { isOver.wait() }
}
