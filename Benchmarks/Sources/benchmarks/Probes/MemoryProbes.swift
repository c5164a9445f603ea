import Foundation
import OwnedOperations

extension Probe {
  /// What things take that are there at the same time. Each prints a `MemoryFootprint` and ends the process.
  static var memory: [Probe] {
    [
      Probe("pending-ours") { count in
        let queue = OwnerScopedQueue()
        queue.isSuspended = true
        let screen = Screen()
        try reportGrowth(count) { index in
          queue.async(owner: screen) { screen in screen.visit(index) }
        }
      },
      Probe("pending-gcd") { count in
        let queue = DispatchQueue(label: "gcd", attributes: .concurrent)
        queue.suspend()
        let screen = Screen()
        try reportGrowth(count) { index in
          queue.async { screen.visit(index) }
        }
      },
      Probe("pending-gcd-weak") { count in
        let queue = DispatchQueue(label: "weak", attributes: .concurrent)
        queue.suspend()
        let screen = Screen()
        try reportGrowth(count) { index in
          queue.async { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          }
        }
      },
      Probe("pending-foundation") { count in
        let queue = OperationQueue()
        queue.isSuspended = true
        let screen = Screen()
        try reportGrowth(count) { index in
          queue.addOperation { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          }
        }
      },
      Probe("bare-owned") { count in
        let lifetime = OwnerLifetime()
        try reportGrowthOfObjects(count) { OwnedOperation(lifetime: lifetime) }
      },
      Probe("bare-operation") { count in try reportGrowthOfObjects(count) { Operation() } },
      Probe("living-owners") { count in try reportGrowthOfObjects(count) { TokenHolder() } },
    ]
  }

  private static func reportGrowthOfObjects(_ count: Int, _ make: () -> AnyObject) throws {
    let first = make()
    // The array's own memory doesn't count: its pages are touched before.
    var objects = [AnyObject](repeating: first, count: count)
    try reportGrowth(count) { index in objects[index] = make() }
  }

  private static func reportGrowth(_ count: Int, _ body: (Int) throws -> Void) throws -> Never {
    try body(0)
    let before = try MemoryFootprint.current()
    for index in 0..<count { try body(index) }
    let growth = try MemoryFootprint.current().growth(since: before, per: count)
    FileHandle.standardOutput.write(try JSONEncoder().encode(growth))
    exit(0)
  }
}
