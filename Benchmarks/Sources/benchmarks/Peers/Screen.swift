import OwnedOperations
import Synchronization

/// The owner in all contenders, those included that know nothing of owners. Each contender has one of its own, because a weak reference
/// anywhere makes an object slower to retain everywhere.
final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token()
  private let visits = Atomic<Int>(0)

  /// The work of a job where only the cost of getting there is of interest. Every 1024th is counted, so that it shows that all have
  /// run, and threads don't fight for a counter.
  @inline(never)
  func visit(_ index: Int) {
    if index & 1023 == 0 { visits.add(1, ordering: .relaxed) }
  }

  /// The visits counted since the last time.
  func takeVisits() -> Int { visits.exchange(0, ordering: .acquiringAndReleasing) }

  /// Throws unless jobs 0..<count have each visited once since the last time.
  func checkVisits(_ count: Int) throws {
    try WrongResult.check(takeVisits(), is: Self.visits(of: count), "counted jobs")
  }

  /// How many of the jobs 0..<count are counted.
  static func visits(of count: Int) -> Int { (count + 1023) / 1024 }
}
