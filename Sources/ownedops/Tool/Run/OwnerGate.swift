import Foundation
import OwnedOperations

/// Lets no more jobs of one owner into the queue than may run at once. The queue has one such number for all owners; here each has its own.
///
/// A job comes when it is ready. Until it is let in it is in no queue, and waits in the order of priorities, then of arrival.
final class OwnerGate: Sendable {
  private struct State {
    var running = 0
    var waiting: [[JobOperation]] = Array(repeating: [], count: 5)
    var heads = Array(repeating: 0, count: 5)

    mutating func next() -> JobOperation? {
      for level in 0..<5 where heads[level] < waiting[level].count {
        let job = waiting[level][heads[level]]
        heads[level] += 1
        if heads[level] == waiting[level].count {
          waiting[level].removeAll()
          heads[level] = 0
        }
        return job
      }
      return nil
    }
  }

  private let limit: Int
  private let queue: OwnerScopedQueue
  private let state = Guarded(State())

  init(limit: Int, queue: OwnerScopedQueue) {
    self.limit = limit
    self.queue = queue
  }

  /// Watches over the job until it is ready.
  /// - Returns: to be kept until the job has finished.
  func receive(_ job: JobOperation) -> OperationObservation {
    job.observe(\.isReady, options: [.initial, .new]) { [self] operation, change in
      guard change.newValue == true, let job = operation as? JobOperation else { return }
      arrive(job)
    }
  }

  private func arrive(_ job: JobOperation) {
    guard !job.isFinished else { return }
    guard !job.isCancelled else {
      // It finishes without having run.
      job.start()
      return
    }
    let isLetIn = state.withLock { state in
      guard state.running < limit else {
        state.waiting[job.level].append(job)
        return false
      }
      state.running += 1
      return true
    }
    if isLetIn, !letIn(job) { didEnd() }
  }

  /// - Returns: false if the owner has ended, and the job with it.
  private func letIn(_ job: JobOperation) -> Bool {
    do throws(OwnerScopedQueueError) {
      try queue.enqueue([job])
      return true
    } catch {
      return false
    }
  }

  /// A job that was let in has run.
  func didEnd() {
    while true {
      let next = state.withLock { state in
        state.running -= 1
        let next = state.next()
        if next != nil { state.running += 1 }
        return next
      }
      guard let next, !letIn(next) else { return }
    }
  }
}

extension JobOperation {
  fileprivate var level: Int {
    switch job.priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }
}
