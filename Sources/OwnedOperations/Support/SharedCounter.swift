import Synchronization

/// Counts what many threads do. An object of its own, so that it does not lie beside what they only read.
final class SharedCounter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add() { count.add(1, ordering: .releasing) }
}
