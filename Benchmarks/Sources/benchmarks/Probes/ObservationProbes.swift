import Foundation
import OwnedOperations

extension Probe {
  /// Creating, starting and freeing operations by hand.
  static var observation: [Probe] {
    [
      Probe("start-operation") { count in
        for _ in 0..<count { Operation().start() }
      },
      Probe("start-owned") { count in
        let lifetime = OwnerLifetime()
        for _ in 0..<count { OwnedOperation(lifetime: lifetime).start() }
      },
      Probe("start-owned-observed") { count in
        let lifetime = OwnerLifetime()
        for _ in 0..<count { startObserved(lifetime) }
      },
    ]
  }

  static func startObserved(_ lifetime: OwnerLifetime) {
    let operation = OwnedOperation(lifetime: lifetime)
    let observation = operation.observe(\.isFinished) { _, change in blackHole(change.newValue) }
    operation.start()
    observation.invalidate()
  }
}
