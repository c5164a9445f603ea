import Foundation

/// What an operation waits for, and the way back to it for those it waits for.
///
/// A dependency must reach its dependents when it finishes, but not keep them: it holds their cells. The cell knows its operation unretained, and is
/// emptied in the operation's deinit.
///
/// Everything is guarded by `lock`, which is the innermost: the lock of an operation may be held around it, none is taken inside.
final class DependencyCell: Sendable {
  /// Up to here lists are searched from end to end.
  private static let scanLimit = 8

  private let lock = Lock()
  // Guarded by `lock`, which is what makes their accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) private var dependent: UnretainedReference<OwnedOperation>?
  @exclusivity(unchecked) nonisolated(unsafe) private var entries = DependencyList()
  @exclusivity(unchecked) nonisolated(unsafe) private var removedCount = 0
  @exclusivity(unchecked) nonisolated(unsafe) private var places = PlacesByAddress()
  @exclusivity(unchecked) nonisolated(unsafe) private var sentinels: [ObjectIdentifier: FinishSentinel] = [:]

  init(_ dependent: OwnedOperation) {
    self.dependent = UnretainedReference(dependent)
  }

  /// In the order in which they were added.
  var operations: [Operation] { lock.withLock { entries.operations } }

  func contains(_ operation: Operation) -> Bool {
    lock.withLock { place(of: operation) != nil }
  }

  /// - Returns: false if the operation is there already.
  func insert(_ operation: Operation, isAwaited: Bool) -> Bool {
    lock.withLock {
      guard place(of: operation) == nil else { return false }
      entries.append(DependencyList.Entry(operation: operation, isAwaited: isAwaited))
      if !places.isEmpty {
        places.set(entries.count - 1, for: operation)
      } else if entries.count > Self.scanLimit {
        indexPlaces()
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
      guard let place = place(of: operation) else { return nil }
      let removal = Removal(
        wasAwaited: entries[place].isAwaited, operation: entries[place].operation,
        sentinel: sentinels.removeValue(forKey: ObjectIdentifier(operation)))
      entries[place] = DependencyList.Entry(operation: nil, isAwaited: false)
      removedCount += 1
      if !places.isEmpty { places.remove(operation) }
      if removedCount > Self.scanLimit, removedCount > entries.count / 2 {
        entries.tidyUp()
        removedCount = 0
        if !places.isEmpty { indexPlaces() }
      }
      return removal
    }
  }

  /// The dependency has finished.
  /// - Returns: the dependent if it was waiting for it until now.
  func resolve(_ operation: Operation) -> OwnedOperation? {
    lock.withLock {
      guard let place = place(of: operation), entries[place].isAwaited else { return nil }
      entries[place].isAwaited = false
      return dependent?.retained()
    }
  }

  /// The dependent, if it waits for the operation.
  func waiting(for operation: Operation) -> OwnedOperation? {
    lock.withLock {
      guard let place = place(of: operation), entries[place].isAwaited else { return nil }
      return dependent?.retained()
    }
  }

  func isWaiting(for operation: Operation) -> Bool {
    lock.withLock {
      guard let place = place(of: operation) else { return false }
      return entries[place].isAwaited
    }
  }

  /// Whether the dependent has gone.
  var isClosed: Bool { lock.withLock { dependent == nil } }

  /// - Returns: false if the operation is not waited for any more, or is watched: it may have been removed and added again at the same time.
  func keep(_ sentinel: FinishSentinel, for operation: Operation) -> Bool {
    lock.withLock {
      guard let place = place(of: operation), entries[place].isAwaited, sentinels[ObjectIdentifier(operation)] == nil else { return false }
      sentinels[ObjectIdentifier(operation)] = sentinel
      return true
    }
  }

  func takeSentinel(for operation: Operation) -> FinishSentinel? {
    lock.withLock { sentinels.removeValue(forKey: ObjectIdentifier(operation)) }
  }

  /// In the dependent's deinit. Appends the dependencies, to be let go of.
  func close(into operations: inout [Operation]) {
    var formerEntries = DependencyList()
    var formerSentinels: [ObjectIdentifier: FinishSentinel] = [:]
    lock.withLock {
      dependent = nil
      places = PlacesByAddress()
      swap(&formerEntries, &entries)
      swap(&formerSentinels, &sentinels)
    }
    formerEntries.append(to: &operations)
    for sentinel in formerSentinels.values { sentinel.disarm() }
  }

  // MARK: Under the lock

  private func place(of operation: Operation) -> Int? {
    if !places.isEmpty { return places.place(of: operation) }
    return entries.firstIndex(of: operation)
  }

  private func indexPlaces() {
    places = PlacesByAddress()
    for place in 0..<entries.count {
      if let operation = entries[place].operation { places.set(place, for: operation) }
    }
  }
}
