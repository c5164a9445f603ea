import Foundation

/// The plain operations in schedulers of ours, and what runs each. (Foundation does not tell which are in its own queues.)
///
/// A plain operation is claimed before there is something that runs it, so that one of two schedulers gets it. It is here until it has
/// finished, or its scheduler has given it up.
enum EnqueuedPlainOperations {
  private static let members = Locked<[ObjectIdentifier: WeakReference<OwnedOperation>?]>([:])

  /// - Returns: false if it has been claimed.
  static func claim(_ operation: Operation) -> Bool {
    members.withLock { members in
      guard members[ObjectIdentifier(operation)] == nil else { return false }
      members[ObjectIdentifier(operation)] = .some(nil)
      return true
    }
  }

  /// By whoever has claimed it.
  static func setRunner(_ runner: OwnedOperation, of operation: Operation) {
    let reference = WeakReference(runner)
    members.withLock { $0[ObjectIdentifier(operation)] = reference }
  }

  /// The operation of ours that runs it; nil if it is in no scheduler of ours.
  static func runner(of operation: Operation) -> OwnedOperation? {
    members.withLock { $0[ObjectIdentifier(operation)] ?? nil }?.object
  }

  static func remove(_ operation: Operation) {
    members.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(operation)) }
  }
}
