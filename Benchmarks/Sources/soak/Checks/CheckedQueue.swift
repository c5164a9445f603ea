import Foundation
import OwnedOperations
import Synchronization

/// A queue that work is added to.
struct CheckedQueue: Sendable {
  let queue: OwnerScopedQueue
  let record: QueueRecord

  init(_ queue: OwnerScopedQueue, _ name: String, rank: Int, cancelsAll: Bool = false, isSerial: Bool = false) {
    self.queue = queue
    record = QueueRecord(name, rank: rank, cancelsAll: cancelsAll, isSerial: isSerial)
  }

  /// At any time.
  func checkSnapshot(_ ledger: Ledger) {
    let counts = queue.statistics
    let sum = counts.pending + counts.executing + counts.succeeded + counts.failed + counts.cancelled
    if counts.enqueued != sum || counts.pending < 0 || counts.executing < 0 { ledger.report("\(record.name): \(counts) don't add up") }
  }

  /// When all is over.
  func checkCounts(_ ledger: Ledger) {
    let counts = queue.statistics
    if counts.pending != 0 || counts.executing != 0 || queue.operationCount != 0 || !queue.operations.isEmpty {
      ledger.report("\(record.name): \(counts): is idle, and has work")
    }
    if counts.enqueued != counts.succeeded + counts.failed + counts.cancelled { ledger.report("\(record.name): \(counts) don't add up") }
    let (enqueued, ran) = (record.enqueued.load(ordering: .acquiring), record.ran.load(ordering: .acquiring))
    let (uncertain, turns) = (record.uncertain.load(ordering: .acquiring), record.turns.load(ordering: .acquiring))
    if !(enqueued - uncertain...enqueued).contains(counts.enqueued) {
      ledger.report("\(record.name): \(counts): \(enqueued) were added, \(uncertain) of them later, if at all")
    }
    if !(ran...ran + turns).contains(counts.started) {
      ledger.report("\(record.name): \(counts): \(ran) bodies have run, of \(turns) turns some may not have")
    }
  }
}

/// What is known about a queue beside its own statistics. Bodies keep it, and must not keep the queue.
final class QueueRecord: Sendable {
  let name: String
  /// All that it has is cancelled at times, so bodies may go without having run.
  let cancelsAll: Bool
  let isSerial: Bool
  /// A body may wait for work of its queue, and of those with a greater rank: so no two wait for each other.
  let rank: Int

  let enqueued = Atomic<Int>(0)
  let ran = Atomic<Int>(0)
  /// What is added when a delay has passed, or by another job; or never, if the owner has ended by then.
  let uncertain = Atomic<Int>(0)
  /// Turns of asynchronous bodies, which may begin without the body, if cancelled at that very moment.
  let turns = Atomic<Int>(0)

  // See `Tally`.
  let ordinal = Atomic<Int>(0)
  let isInside = Atomic<Bool>(false)

  init(_ name: String, rank: Int, cancelsAll: Bool, isSerial: Bool) {
    self.name = name
    self.rank = rank
    self.cancelsAll = cancelsAll
    self.isSerial = isSerial
  }
}
