import Foundation

/// What an operation waits for or has waited for, in order. The first entry needs no memory of its own: most operations wait for one other.
struct DependencyList {
  struct Entry {
    /// Nil once removed: places don't move until the list is tidied up.
    var operation: Operation?
    var isAwaited: Bool
  }

  private var first: Entry?
  private var others: [Entry] = []

  var count: Int { first == nil ? 0 : others.count + 1 }

  /// The place must be less than `count`.
  subscript(place: Int) -> Entry {
    get { place == 0 ? first.unsafelyUnwrapped : others[place - 1] }
    set {
      if place == 0 { first = newValue } else { others[place - 1] = newValue }
    }
  }

  mutating func append(_ entry: Entry) {
    if first == nil { first = entry } else { others.append(entry) }
  }

  /// Linear.
  func firstIndex(of operation: Operation) -> Int? {
    guard let first else { return nil }
    if first.operation === operation { return 0 }
    return others.firstIndex { $0.operation === operation }.map { $0 + 1 }
  }

  /// Appends the operations that have not been removed.
  func append(to operations: inout [Operation]) {
    if let operation = first?.operation { operations.append(operation) }
    for entry in others {
      if let operation = entry.operation { operations.append(operation) }
    }
  }

  var operations: [Operation] {
    var operations: [Operation] = []
    operations.reserveCapacity(count)
    append(to: &operations)
    return operations
  }

  /// Leaves the places of removed entries out.
  mutating func tidyUp() {
    others.removeAll { $0.operation == nil }
    if first?.operation == nil { first = others.isEmpty ? nil : others.removeFirst() }
  }
}
