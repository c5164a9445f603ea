/// What a change of the scheduler wants done when the lock is free, beside what the scheduler itself says.
struct FollowUp: ~Copyable {
  /// Has been given work, and is to be dispatched. The queue keeps it.
  var worker: Borrowed<ScheduledWorker>?
  /// By when operations that say themselves when they are ready are to be asked, in nanoseconds of `Uptime`.
  private(set) var questionDeadline: UInt64 = .max

  init() {}

  mutating func ask(noLaterThan deadline: UInt64) { questionDeadline = min(questionDeadline, deadline) }

  var hasQuestion: Bool { questionDeadline != .max }
}
