import Dispatch

/// Looks for blocked workers, every two milliseconds while a queue is busy. Those are meant that have neither begun a work item nor used
/// their processor since the last look. They are blocked in something that we are not told of: sleep, I/O, a lock. Another worker may take
/// over, and what they had taken in advance goes back to the ready lists. That of workers that compute for so long does, too.
///
/// One timer per busy queue; none while every worker finds work and permits in plenty. Then only those who wait for an end have looks made,
/// fewer and fewer: see `EndWatch`.
extension QueueCore {
  private static let monitorInterval = DispatchTimeInterval.milliseconds(2)
  /// Serial: GCD gives it a thread even while all of its pool's are in use, or blocked.
  static let monitorQueue = DispatchQueue(label: "OwnedOperations.WorkerMonitor", qos: .userInitiated)

  func scheduleLookAtWorkers() {
    if driver != nil { return }
    if let reference { Self.look(at: reference, after: Self.monitorInterval) { $0.lookAtWorkers() } }
  }

  /// See `EndWatch`.
  func scheduleLookForEnds(in delay: DispatchTimeInterval) {
    if driver != nil { return }
    if let reference { Self.look(at: reference, after: delay) { $0.mutate { scheduler, _ in scheduler.lookForEnds() } } }
  }

  private static func look(
    at reference: QueueReference, after delay: DispatchTimeInterval, _ look: @escaping @Sendable (QueueCore) -> Void
  ) {
    Uptime.call(after: delay, on: monitorQueue) {
      // It may be going just now, and what it leaves may have an heir.
      if !reference.letLook(look) { Self.look(at: reference, after: monitorInterval, look) }
    }
  }

  func lookAtWorkers() {
    mutate { scheduler, _ in scheduler.lookAtWorkers() }
  }
}
