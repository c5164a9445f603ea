import Synchronization

/// Where workers get their threads from.
///
/// GCD has 255 threads for the serial queues of a quality of service. Workers of all queues together take up to 192 of these; a dispatch
/// beyond that, which may be to the work that all the others are waiting for, gets a thread of its own. (To run it on the stack of a worker
/// that waits would save the thread, but is not sound: the work could wait for what lies further down on that stack.) Nothing is lost if
/// the system has no more threads to give: the work then waits for one of GCD's.
enum WorkerThreads {
  static let mostFromPool = 192
  private static let fromPool = Atomic<Int>(0)

  /// - Returns: whether the caller may use a thread of GCD's, and has to give it back.
  static func takeFromPool() -> Bool {
    if fromPool.wrappingAdd(1, ordering: .relaxed).newValue <= mostFromPool { return true }
    giveBackToPool()
    return false
  }

  static func giveBackToPool() {
    fromPool.wrappingSubtract(1, ordering: .relaxed)
  }
}
