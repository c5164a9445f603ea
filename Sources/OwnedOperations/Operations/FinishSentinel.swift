import Foundation
import Synchronization

/// Tells once when a plain operation has finished.
///
/// On Linux it is an operation that depends on the plain one and is in no queue. When the plain one finishes, the base class asks `isReady`
/// of the sentinel, and that question is the news. On platforms with an Objective-C runtime it observes `isFinished`.
///
/// ## Protocol
///
/// A plain operation knows its dependents unretained, and goes through them, under its own lock, when it announces its finish. That is a
/// moment after `isFinished` has become true, so the news may come before the announcement, and the sentinel may go between the two. What
/// makes that safe: whoever holds an armed sentinel keeps it until it has fired or calls `disarm`. Both take it out of the plain
/// operation's list, under that operation's lock, before they let go of it.
///
/// `phase` says who does that. The base class enters itself in two steps, and a removal between the two would find nothing to remove. So as
/// long as `arm` is at it (`arming`), `fire` and `disarm` only turn the phase to `over`. `arm` takes the sentinel out when it finds that.
/// The one that turns `over` also decides whether the news is told: after a `disarm` that came first it is not.
// Safe to share: `phase` is atomic; `watch` is written by `arm`, and read by whoever follows it in turning the phase; the
// rest never changes.
final class FinishSentinel: Operation, @unchecked Sendable {
  private enum Phase: UInt8, AtomicRepresentable {
    case new, arming, armed, over
  }

  private let operation: Operation
  private let body: @Sendable () -> Void
  private let phase = Atomic<Phase>(.new)

  private var watch = FinishWatch()

  init(of operation: Operation, _ body: @escaping @Sendable () -> Void) {
    self.operation = operation
    self.body = body
  }

  /// Begins to watch. If the operation has finished, tells at once.
  func arm() {
    guard turn(.new, to: .arming) else { return }
    watch.begin(self, of: operation)
    if !turn(.arming, to: .armed) { stopWatching() }
  }

  /// Stops watching: the news will not be told if it has not been yet.
  func disarm() {
    _ = end()
  }

  override var isReady: Bool {
    if operation.isFinished { fire() }
    return false
  }

  func fire() {
    if end() { body() }
  }

  /// - Returns: whether it was not over before.
  private func end() -> Bool {
    let former = phase.exchange(.over, ordering: .acquiringAndReleasing)
    if former == .armed { stopWatching() }
    return former != .over
  }

  private func turn(_ expected: Phase, to desired: Phase) -> Bool {
    phase.compareExchange(expected: expected, desired: desired, ordering: .acquiringAndReleasing).exchanged
  }

  private func stopWatching() { watch.end(self, of: operation) }
}
