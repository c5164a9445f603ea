extension OwnerScopedQueue {
  /// What a queue has done since it was made. Jobs, operations and barriers count alike.
  ///
  /// At any time `enqueued` = `pending` + `executing` + `succeeded` + `failed` + `cancelled`.
  public struct Statistics: Hashable, Sendable {
    /// Added, those included whose owner had ended by then.
    public internal(set) var enqueued = 0
    /// Begun. The rest was cancelled first, or is pending.
    public internal(set) var started = 0
    /// Ended without an error.
    public internal(set) var succeeded = 0
    /// Threw an error.
    public internal(set) var failed = 0
    /// Cancelled, before the start or while running.
    public internal(set) var cancelled = 0
    /// The part of `cancelled` that never started because the owner had ended.
    public internal(set) var skippedForEndedOwners = 0
    /// Not begun, or waiting for dependencies.
    public internal(set) var pending = 0
    /// Begun and not ended.
    public internal(set) var executing = 0

    init() {}

    /// - Parameter executing: how much has begun and is not counted among the rest.
    init(_ counts: WorkCounts, unfinished: Int, executing: Int) {
      enqueued = counts.enqueued
      started = counts.started + executing
      succeeded = counts.succeeded
      failed = counts.failed
      cancelled = counts.cancelled
      skippedForEndedOwners = counts.skippedForEndedOwners
      pending = unfinished - executing
      self.executing = executing
    }
  }

  /// A snapshot. It adds up at any time, and no count but `pending` and `executing` is ever less than in an earlier one.
  /// - Complexity: linear in the workers.
  public var statistics: Statistics {
    let refused = refusedJobs.value
    return core.mutate { scheduler, _ in
      // Those that begin from now on belong to the next snapshot. (Those that end can't: that takes the lock.)
      var executing = begunOperations.value - scheduler.endedOperations + (scheduler.isBarrierRunning ? 1 : 0)
      for worker in scheduler.workers.active {
        scheduler.settle(worker, includingCurrent: worker.isOutside)
        if worker.batch.isRunning { executing += 1 }
      }
      var counts = scheduler.statistics
      counts.count(refused: refused)
      return Statistics(counts, unfinished: scheduler.unfinished, executing: executing)
    }
  }
}
