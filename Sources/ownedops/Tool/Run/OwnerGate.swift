import Foundation
import OwnedOperations

/// Lets no more jobs of one owner into the queue than may run at once. The queue has one such number for all owners; here each has its own.
///
/// A job comes when it is ready. Until it is let in it is in no queue, and waits in the order of priorities, then of arrival.
final class OwnerGate: Sendable {
  private struct State {
    var running = 0
    var line = WaitingLine()
  }

  private let limit: Int
  /// Returns false if the job's owner has ended, and the job with it.
  private let letIn: @Sendable (JobOperation) -> Bool
  private let state = Guarded(State())

  /// - Parameter letIn: called under no lock; returns false if the job's owner has ended, and the job with it.
  init(limit: Int, letIn: @escaping @Sendable (JobOperation) -> Bool) {
    self.limit = limit
    self.letIn = letIn
  }

  /// Watches over the job until it is ready.
  /// - Returns: to be kept until the job has finished.
  func receive(_ job: JobOperation) -> OperationObservation { job.whenReady { [self] in arrive($0) } }

  private func arrive(_ job: JobOperation) {
    let isLetIn = state.withLock { state in
      guard state.running < limit else {
        state.line.append(job)
        return false
      }
      state.running += 1
      return true
    }
    if isLetIn, !letIn(job) { didEnd() }
  }

  /// A job that was let in has run.
  func didEnd() {
    while true {
      let next = state.withLock { state in
        state.running -= 1
        let next = state.line.removeFirst()
        if next != nil { state.running += 1 }
        return next
      }
      guard let next, !letIn(next) else { return }
    }
  }
}

extension JobOperation {
  /// Calls the body once the job may run. One that has been cancelled finishes without having run.
  /// - Returns: to be kept until the job has finished.
  func whenReady(_ body: @escaping @Sendable (JobOperation) -> Void) -> OperationObservation {
    observe(\.isReady, options: [.initial, .new]) { operation, change in
      guard change.newValue == true, let job = operation as? JobOperation, !job.isFinished else { return }
      if job.isCancelled { job.start() } else { body(job) }
    }
  }

  var level: Int {
    switch job.priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }
}
