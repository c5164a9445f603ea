/// Says what is wrong with a call that can't throw, where Foundation would stop the process or wait for ever.
enum OperationReport {
  private struct State {
    var listener: (@Sendable (OwnedOperationError) -> Void)?
  }

  private static let state = Locked(State())

  /// One line on standard error. Any thread.
  static func report(_ error: OwnedOperationError) {
    if let body = state.withLock({ $0.listener }) {
      body(error)
    } else {
      Platform.writeToStandardError("OwnedOperations: \(error)\n")
    }
  }

  /// For tests: hears of every report instead of standard error, until it is set to nil.
  static func listen(_ body: (@Sendable (OwnedOperationError) -> Void)?) {
    state.withLock { $0.listener = body }
  }
}
