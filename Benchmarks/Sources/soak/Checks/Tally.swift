import Synchronization

/// Up to 64 bodies that belong together, a bit for each. Every one of them captures the tally, so it goes when all have been released.
///
/// - A bit that is set already: the body has run twice.
/// - A tally goes with bits missing though nobody has ended the owner or cancelled anything: a body was lost.
/// - A tally that is still there when all is over: a body was not released.
/// - In the serial queue one body runs at a time, those of a tally in order.
/// - No start after the end has returned, as far as it can be told from outside, where a body that was decided to start before the end may
///   have its first instruction after it: nothing that was added after the end starts; and in the serial queue, where no more than one body
///   is under way at any time, no more than one starts after the end has returned. `ordinal` numbers the starts there.
final class Tally: Sendable {
  enum Expectation {
    /// Unless the owner ends, or the queue is one in which all is cancelled at times.
    case all
    /// Dependents of what fails, bodies of queues that are dropped suspended, and the like.
    case any
    /// Was added after the end.
    case none
  }

  private let ledger: Ledger
  private let queue: QueueRecord?
  private let mark: OwnerMark
  private let count: Int
  private let expectation: Expectation
  private let bits = Atomic<UInt64>(0)

  init(_ count: Int, for mark: OwnerMark, in queue: QueueRecord?, _ ledger: Ledger, _ expectation: Expectation = .all) {
    self.ledger = ledger
    self.queue = queue
    self.mark = mark
    self.count = count
    self.expectation = expectation
    ledger.live.add(1, ordering: .relaxed)
    ledger.operations.add(count, ordering: .relaxed)
    queue?.enqueued.add(count, ordering: .relaxed)
  }

  deinit {
    let ran = bits.load(ordering: .acquiring).nonzeroBitCount
    queue?.ran.add(ran, ordering: .relaxed)
    if ran < count, mustAllRun {
      ledger.report(
        "\(count - ran) of \(count) bodies in \(queue?.name ?? "GCD") were released without having run, though nobody cancelled them")
    }
    ledger.live.subtract(1, ordering: .releasing)
  }

  private var mustAllRun: Bool {
    guard case .all = expectation, !(queue?.cancelsAll ?? false) else { return false }
    return !mark.isExpendable.load(ordering: .acquiring)
  }

  /// For a caller who has waited for all that the owner has in the queue.
  func checkIsComplete() {
    let ran = bits.load(ordering: .acquiring).nonzeroBitCount
    if ran < count, mustAllRun {
      ledger.report("\(count - ran) of \(count) bodies in \(queue?.name ?? "GCD") have not run when a wait for them returns")
    }
  }

  func hasRun(_ index: Int) -> Bool { bits.load(ordering: .acquiring) & UInt64(1) << UInt64(index) != 0 }

  /// What each body calls first.
  @inline(__always)
  func run(_ index: Int) {
    if case .none = expectation { ledger.report("a body has started in \(queue?.name ?? "GCD") that was added after the end of its owner") }
    let bit = UInt64(1) << UInt64(index)
    let before = bits.bitwiseOr(bit, ordering: .acquiringAndReleasing).oldValue
    if before & bit != 0 { ledger.report("a body has run twice in \(queue?.name ?? "GCD")") }
  }

  /// What each job of the serial queue does, instead of `run`. Its body must not wait for anything.
  func runSerially(_ index: Int) {
    guard let queue else { return run(index) }
    if queue.isInside.exchange(true, ordering: .acquiringAndReleasing) { ledger.report("two bodies at a time in \(queue.name)") }
    let ordinal = queue.ordinal.add(1, ordering: .acquiringAndReleasing).newValue
    if mark.ordinalAtEnd.load(ordering: .acquiring) < ordinal - 1 {
      ledger.report("a body has started in \(queue.name) after the end of its owner has returned")
    }
    if bits.load(ordering: .acquiring) != UInt64(1) << UInt64(index) - 1 {
      ledger.report("bodies of an owner out of order in \(queue.name)")
    }
    run(index)
    queue.isInside.store(false, ordering: .releasing)
  }
}

/// What is known of an owner's end. Outlives the owner.
final class OwnerMark: Sendable {
  /// Set before anybody ends the owner or cancels its work.
  let isExpendable = Atomic<Bool>(false)
  /// How many bodies had started in the serial queue when the end had returned.
  let ordinalAtEnd = Atomic<Int>(.max)
}
