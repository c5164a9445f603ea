import OwnedOperations
import Synchronization

/// Captured by a completion block, which has to be called once before it is released.
final class Completion: Sendable {
  private let ledger: Ledger
  private let count = Atomic<Int>(0)

  init(_ ledger: Ledger) {
    self.ledger = ledger
    ledger.live.add(1, ordering: .relaxed)
  }

  deinit {
    let count = count.load(ordering: .acquiring)
    if count != 1 { ledger.report("an operation has completed \(count) times") }
    ledger.live.subtract(1, ordering: .releasing)
  }

  func happen() { count.add(1, ordering: .releasing) }
}

/// Doesn't finish before it is cancelled, or out of time.
final class EndlessOperation: OwnedOperation, @unchecked Sendable {  // constants
  private let tally: Tally

  init(_ tally: Tally, _ completion: Completion, _ lifetime: OwnerLifetime) {
    self.tally = tally
    super.init(lifetime: lifetime)
    completionBlock = { completion.happen() }
  }

  override var isAsynchronous: Bool { true }
  override func perform() throws { tally.run(0) }
  override func didCancel(_ reason: CancellationReason) { finish() }
}
