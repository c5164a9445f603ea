import Dispatch
import Foundation

/// The wrapper that projects write for themselves: whoever queues work registers under an identifier when it is made, unregisters in its
/// deinit, and blocks look the identifier up before they do anything.
final class SafeDispatch: @unchecked Sendable {  // the table is guarded by the lock
  static let shared = SafeDispatch()

  private let lock = NSLock()
  private var identifiers: Set<String> = []

  func register() -> String {
    let identifier = UUID().uuidString
    lock.withLock { _ = identifiers.insert(identifier) }
    return identifier
  }

  func unregister(_ identifier: String) {
    lock.withLock { _ = identifiers.remove(identifier) }
  }

  func isRegistered(_ identifier: String) -> Bool {
    lock.withLock { identifiers.contains(identifier) }
  }
}

extension DispatchQueue {
  /// Runs the block if the identifier is still registered then. The block should hold its owner weakly: it may go between check and use.
  func safeAsync(_ identifier: String, execute block: @escaping @Sendable () -> Void) {
    async {
      guard SafeDispatch.shared.isRegistered(identifier) else { return }
      block()
    }
  }
}
