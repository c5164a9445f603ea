import Foundation
import OwnedOperations

/// Which of the work that may begin begins.
public enum WorkOrder: Hashable, Sendable {
  /// The one that came first.
  case firstComeFirstServed
  /// Any, as the seed of the time has it, to find what relies on an order that nobody promises. What is promised stays: priorities,
  /// barriers, dependencies, the order of one observation's deliveries, and that of a queue with a limit of one.
  case shuffled
}

extension OwnerScopedQueue {
  /// Makes a queue whose work runs when the time is asked to run it.
  ///
  /// ```swift
  /// let time = VirtualTime()
  /// let queue = OwnerScopedQueue(virtualTime: time)
  /// queue.async(lifetime: OwnerLifetime.process) { print("in the test's thread") }
  /// time.runUntilIdle()
  /// ```
  ///
  /// It is a queue like any other, and so can be given to whatever wants one. Its quality of service and its underlying queue mean nothing.
  /// - Parameters:
  ///   - time: runs the work. The queue keeps it.
  ///   - name: for debugging, and in what the time reports.
  ///   - maxConcurrentOperationCount: how many operations may execute at once. As one thread runs them all, that is how many asynchronous
  ///     ones may be under way, and bodies that wait.
  ///   - order: of work that may begin, at the same priority.
  public convenience init(
    virtualTime time: VirtualTime, name: String? = nil,
    maxConcurrentOperationCount: Int = OwnerScopedQueue.defaultMaxConcurrentOperationCount, order: WorkOrder = .firstComeFirstServed
  ) {
    self.init(
      name: name, maxConcurrentOperationCount: maxConcurrentOperationCount, driver: time, isShuffled: order == .shuffled)
    time.register(self)
  }
}
