import Foundation

@testable import OwnedOperations

extension OwnerLifetime {
  /// Never ends: for operations whose owner is beside the point.
  static let forTests = OwnerLifetime(name: "tests")
}

extension OperationOutcome {
  var reason: CancellationReason? {
    if case .cancelled(let reason) = self { reason } else { nil }
  }

  /// For comparisons.
  var kind: String {
    switch self {
    case .succeeded: "succeeded"
    case .failed: "failed"
    case .cancelled: "cancelled"
    }
  }
}

/// A new object for a closure to capture, and the weak reference that shows when it goes.
func keep(_ reference: inout TokenOwner?) -> TokenOwner {
  let object = TokenOwner()
  reference = object
  return object
}

/// Reports about one operation. Tests run side by side, so everyone hears of everything, and picks out its own by name.
final class Reports: Sendable {
  private static let all: Journal<OwnedOperationError> = {
    let journal = Journal<OwnedOperationError>()
    OperationReport.listen { journal.write($0) }
    return journal
  }()

  private let name: String

  init(about name: String) {
    self.name = name
    _ = Self.all
  }

  var errors: [OwnedOperationError] {
    Self.all.entries.filter { $0.description.contains("\"\(name)\"") }
  }
}

/// Runs the bodies at once, each on a thread of its own, from a common start.
func race(_ bodies: [@Sendable () -> Void]) {
  let ready = DispatchSemaphore(value: 0)
  let go = DispatchSemaphore(value: 0)
  let done = DispatchGroup()
  for body in bodies {
    done.enter()
    Thread.detachNewThread {
      ready.signal()
      go.wait()
      body()
      done.leave()
    }
  }
  for _ in bodies { ready.wait() }
  for _ in bodies { go.signal() }
  done.wait()
}
