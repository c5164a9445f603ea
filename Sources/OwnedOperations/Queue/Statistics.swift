import Synchronization

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

    /// Counts jobs and graph nodes that are over.
    mutating func count(_ tally: WorkBatch.Tally) {
      started += tally.succeeded + tally.failed + tally.nodes
      succeeded += tally.succeeded + tally.nodes
      failed += tally.failed
      cancelled += tally.cancelled + tally.skipped
      skippedForEndedOwners += tally.skipped
    }

    /// Counts an operation that has finished.
    mutating func count(_ operation: OwnedOperation) {
      let didRun = operation.didRun
      if didRun { started += 1 }
      switch operation.outcome {
      case .failed: failed += 1
      case .cancelled(let reason):
        cancelled += 1
        if case .ownerEnded = reason, !didRun { skippedForEndedOwners += 1 }
      default: succeeded += 1
      }
    }
  }

  /// A snapshot. It adds up at any time, and no count but `pending` and `executing` is ever less than in an earlier one.
  /// - Complexity: linear in the workers.
  public var statistics: Statistics {
    let refused = refusedJobs.value
    return core.mutate { state, _ in
      // Those that begin from now on belong to the next snapshot. (Those that end can't: that takes the lock.)
      var executing = begunOperations.value - state.endedOperations + (state.isBarrierRunning ? 1 : 0)
      for worker in state.workers.active {
        state.settle(worker, includingCurrent: worker.isOutside)
        if worker.batch.isRunning { executing += 1 }
      }
      var statistics = state.statistics
      statistics.executing = executing
      statistics.pending = state.unfinished - executing
      statistics.started += executing
      statistics.enqueued += refused
      statistics.cancelled += refused
      statistics.skippedForEndedOwners += refused
      return statistics
    }
  }
}

/// Counts what many threads do. An object of its own, so that it does not lie beside what they only read.
final class SharedCounter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add() { count.add(1, ordering: .releasing) }
}

/// How the turns of owners with work of equal priority follow each other.
public enum OwnerFairness: Hashable, Sendable {
  /// In the order in which the work was added, whoever owns it.
  case firstComeFirstServed
  /// One piece of work of each owner after the other, so that an owner with much pending doesn't hold up the rest. The deliveries of an
  /// observation take turns as if they had an owner of their own.
  case roundRobin
}
