import Foundation

/// What an operation waits for, and the way back to it for those it waits for.
///
/// A dependency must reach its dependents when it finishes, but not keep them: it holds their cells. The cell knows its operation
/// unretained, and is emptied in the operation's deinit.
///
/// Everything is guarded by `lock`, which is the innermost: the lock of an operation may be held around it, none is taken inside.
final class DependencyCell: Sendable {
  /// Up to here lists are searched from end to end.
  private static let scanLimit = 8

  private let lock = Lock()
  /// Here, and not in memory of its own, because most operations have one. `lock` makes its accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) private var guarded: Guarded

  private struct Guarded: ~Copyable {
    var dependent: UnretainedReference<OwnedOperation>?
    var entries = DependencyList()
    var removedCount = 0
    /// Of the operations in `entries`; empty while these are few.
    var places = PointerMap<Int>()
    var sentinels: [ObjectIdentifier: FinishSentinel] = [:]

    func place(of operation: Operation) -> Int? {
      places.isEmpty ? entries.firstIndex(of: operation) : places[operation]
    }

    mutating func indexPlaces() {
      places.removeAll()
      for place in 0..<entries.count {
        if let operation = entries[place].operation { places[operation] = place }
      }
    }
  }

  init(_ dependent: OwnedOperation) {
    guarded = Guarded(dependent: UnretainedReference(dependent))
  }

  /// In the order in which they were added.
  var operations: [Operation] { lock.withLock { guarded.entries.operations } }

  func contains(_ operation: Operation) -> Bool {
    lock.withLock { guarded.place(of: operation) != nil }
  }

  /// - Returns: false if the operation is there already.
  func insert(_ operation: Operation, isAwaited: Bool) -> Bool {
    lock.withLock {
      guard guarded.place(of: operation) == nil else { return false }
      guarded.entries.append(DependencyList.Entry(operation: operation, isAwaited: isAwaited))
      if !guarded.places.isEmpty {
        guarded.places[operation] = guarded.entries.count - 1
      } else if guarded.entries.count > Self.scanLimit {
        guarded.indexPlaces()
      }
      return true
    }
  }

  struct Removal {
    let wasAwaited: Bool
    let operation: Operation?
    let sentinel: FinishSentinel?
  }

  /// - Returns: nil if the operation is not there. What is in the removal is to be released outside locks.
  func remove(_ operation: Operation) -> Removal? {
    lock.withLock {
      guard let place = guarded.place(of: operation) else { return nil }
      let removal = Removal(
        wasAwaited: guarded.entries[place].isAwaited, operation: guarded.entries[place].operation,
        sentinel: guarded.sentinels.removeValue(forKey: ObjectIdentifier(operation)))
      guarded.entries[place] = DependencyList.Entry(operation: nil, isAwaited: false)
      guarded.removedCount += 1
      if !guarded.places.isEmpty { guarded.places[operation] = nil }
      if guarded.removedCount > Self.scanLimit, guarded.removedCount > guarded.entries.count / 2 {
        guarded.entries.tidyUp()
        guarded.removedCount = 0
        if !guarded.places.isEmpty { guarded.indexPlaces() }
      }
      return removal
    }
  }

  /// The dependency has finished.
  /// - Returns: the dependent if it was waiting for it until now.
  func resolve(_ operation: Operation) -> OwnedOperation? {
    lock.withLock {
      guard let place = guarded.place(of: operation), guarded.entries[place].isAwaited else { return nil }
      guarded.entries[place].isAwaited = false
      return guarded.dependent?.retained()
    }
  }

  /// The dependent, if it waits for the operation.
  func waiting(for operation: Operation) -> OwnedOperation? {
    lock.withLock {
      guard let place = guarded.place(of: operation), guarded.entries[place].isAwaited else { return nil }
      return guarded.dependent?.retained()
    }
  }

  func isWaiting(for operation: Operation) -> Bool {
    lock.withLock {
      guard let place = guarded.place(of: operation) else { return false }
      return guarded.entries[place].isAwaited
    }
  }

  /// Whether the dependent has gone.
  var isClosed: Bool { lock.withLock { guarded.dependent == nil } }

  /// - Returns: false if the operation is not waited for any more, or is watched. It may have been removed and added again at the same
  ///   time.
  func keep(_ sentinel: FinishSentinel, for operation: Operation) -> Bool {
    lock.withLock {
      guard let place = guarded.place(of: operation), guarded.entries[place].isAwaited,
        guarded.sentinels[ObjectIdentifier(operation)] == nil
      else { return false }
      guarded.sentinels[ObjectIdentifier(operation)] = sentinel
      return true
    }
  }

  func takeSentinel(for operation: Operation) -> FinishSentinel? {
    lock.withLock { guarded.sentinels.removeValue(forKey: ObjectIdentifier(operation)) }
  }

  /// In the dependent's deinit. Appends the dependencies, to be let go of.
  func close(into operations: inout [Operation]) {
    var formerEntries = DependencyList()
    var formerSentinels: [ObjectIdentifier: FinishSentinel] = [:]
    lock.withLock {
      guarded.dependent = nil
      guarded.places.removeAll()
      swap(&formerEntries, &guarded.entries)
      swap(&formerSentinels, &guarded.sentinels)
    }
    formerEntries.append(to: &operations)
    for sentinel in formerSentinels.values { sentinel.disarm() }
  }
}
