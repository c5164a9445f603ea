import Dispatch

/// Looks for blocked workers, every two milliseconds while a queue is busy. Those are meant that have neither begun a work item nor used
/// their processor since the last look. They are blocked in something that we are not told of: sleep, I/O, a lock. Another worker may take
/// over, and what they had taken in advance goes back to the ready lists. That of workers that compute for so long does, too.
///
/// One timer per busy queue; none while every worker finds work and permits in plenty. Then only those who wait for an end have looks made,
/// fewer and fewer: see `EndWatch`.
extension QueueCore {
  private static let monitorInterval = DispatchTimeInterval.milliseconds(2)
  /// Concurrent: a look may come to have the last reference to a queue, whose deinit runs hooks of the user's.
  static let monitorQueue = DispatchQueue(label: "OwnedOperations.WorkerMonitor", qos: .userInitiated, attributes: .concurrent)

  func scheduleLookAtWorkers() {
    if driver != nil { return }
    Uptime.call(after: Self.monitorInterval, on: Self.monitorQueue) { [reference] in reference?.whileThere { $0.lookAtWorkers() } }
  }

  /// See `EndWatch`.
  func scheduleLookForEnds(in delay: DispatchTimeInterval) {
    if driver != nil { return }
    Uptime.call(after: delay, on: Self.monitorQueue) { [reference] in
      reference?.whileThere { $0.mutate { scheduler, _ in scheduler.lookForEnds() } }
    }
  }

  func lookAtWorkers() {
    mutate { scheduler, _ in scheduler.lookAtWorkers() }
  }
}
