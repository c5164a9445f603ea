/// What has become of a queue's work, jobs, operations and barriers alike.
struct WorkCounts {
  var enqueued = 0
  /// Begun, and over.
  var started = 0
  var succeeded = 0
  var failed = 0
  /// Before the start or while running.
  var cancelled = 0
  /// The part of `cancelled` that never started because the owner had ended.
  var skippedForEndedOwners = 0

  init() {}

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
    let word = operation.load()
    if word.isCancelled {
      cancelled += 1
      if word.reason == .ownerEnded, !didRun { skippedForEndedOwners += 1 }
    } else if word.contains(.failed) {
      failed += 1
    } else {
      succeeded += 1
    }
  }

  /// Counts jobs that were refused, for their owners had ended.
  mutating func count(refused: Int) {
    enqueued += refused
    cancelled += refused
    skippedForEndedOwners += refused
  }
}
