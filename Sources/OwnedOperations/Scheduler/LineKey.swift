/// What the scheduler knows a line by: jobs of one owner of which one runs at a time, see `SerialLine`. It keeps nothing.
final class LineKey: Sendable {
  nonisolated(unsafe) var isClosed = false  // guarded by the queue's lock

  /// Of normal priority.
  static let level = PriorityLevel.of(.normal)
}
