import Foundation

extension OwnedOperation {
  /// Looks for cycles of operations that wait for each other. It looks at these, what they depend on, and so on, ours and plain.
  /// - Complexity: linear in operations and dependencies.
  /// - Throws: ``OwnerScopedQueueError/dependencyCycle(_:)``, which names the operations of one cycle, each depending on the next.
  public static func checkForCycles(in operations: [Operation]) throws(OwnerScopedQueueError) {
    if let cycle = firstCycle(among: operations) { throw .dependencyCycle(cycle) }
  }

  /// A depth-first search with a stack of its own, so that no chain is too long for it.
  static func firstCycle(among operations: [Operation]) -> [String]? {
    struct Visit {
      let operation: Operation
      let dependencies: [Operation]
      var next = 0
    }
    var isOnPath: [ObjectIdentifier: Bool] = [:]  // false once everything below has been looked at
    isOnPath.reserveCapacity(operations.count)
    var path: [Visit] = []
    for root in operations where isOnPath[ObjectIdentifier(root)] == nil && !root.isFinished {
      isOnPath[ObjectIdentifier(root)] = true
      path.append(Visit(operation: root, dependencies: root.dependencies))
      while let visit = path.last {
        guard visit.next < visit.dependencies.count else {
          isOnPath[ObjectIdentifier(visit.operation)] = false
          path.removeLast()
          continue
        }
        path[path.count - 1].next += 1
        let dependency = visit.dependencies[visit.next]
        switch isOnPath[ObjectIdentifier(dependency)] {
        case true?:
          let start = path.firstIndex { $0.operation === dependency } ?? 0
          return names(of: path[start...].map(\.operation), in: operations)
        case false?:
          continue
        case nil:
          guard !dependency.isFinished else { continue }
          isOnPath[ObjectIdentifier(dependency)] = true
          path.append(Visit(operation: dependency, dependencies: dependency.dependencies))
        }
      }
    }
    return nil
  }

  /// The names. For an operation without one, its type and its place among those asked about, or in the cycle.
  private static func names(of cycle: [Operation], in operations: [Operation]) -> [String] {
    var places: [ObjectIdentifier: Int] = [:]
    for (place, operation) in operations.enumerated() { places[ObjectIdentifier(operation)] = place + 1 }
    return cycle.enumerated().map { place, operation in
      if let name = operation.name, !name.isEmpty { return name }
      return "\(String(describing: type(of: operation))) #\(places[ObjectIdentifier(operation)] ?? operations.count + place + 1)"
    }
  }
}
