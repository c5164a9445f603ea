import Foundation

/// Says what is wrong with a call that can't throw, where Foundation would stop the process or wait for ever.
enum OperationReport {
  private final class Listener: Sendable {
    let lock = Lock()
    nonisolated(unsafe) var body: (@Sendable (OwnedOperationError) -> Void)?  // guarded by `lock`
  }

  private static let listener = Listener()

  /// One line on standard error. Any thread.
  static func report(_ error: OwnedOperationError) {
    if let body = listener.lock.withLock({ listener.body }) {
      body(error)
    } else {
      FileHandle.standardError.write(Data("OwnedOperations: \(error)\n".utf8))
    }
  }

  /// For tests: hears of every report instead of standard error, until it is set to nil.
  static func listen(_ body: (@Sendable (OwnedOperationError) -> Void)?) {
    listener.lock.withLock { listener.body = body }
  }
}
