import Dispatch

/// What comes first: all is done, or it is to be waited for no longer.
final class DrainOutcome: @unchecked Sendable {  // guarded by `lock`
  private static let timerQueue = DispatchQueue(label: "OwnedOperations.drains", qos: .userInitiated)

  private let lock = Lock()
  private var isDone: Bool?
  private var waiting: CheckedContinuation<Bool, Never>?

  /// The first call counts.
  func settle(_ isDone: Bool) {
    let continuation = lock.withLock { () -> CheckedContinuation<Bool, Never>? in
      guard self.isDone == nil else { return nil }
      self.isDone = isDone
      return waiting.take()
    }
    continuation?.resume(returning: isDone)
  }

  /// - Returns: to be cancelled.
  func settle(after timeout: Duration) -> UptimeTimer {
    let timer = UptimeTimer(on: Self.timerQueue)
    timer.setHandler { self.settle(false) }
    timer.set(Uptime.time(after: timeout.dispatchInterval))
    timer.activate()
    return timer
  }

  /// The same, for a driver.
  func driven() -> DrivenCall {
    DrivenCall(.timeout, while: { [self] in lock.withLock { isDone == nil } }, { self.settle(false) })
  }

  /// Once.
  func settled() async -> Bool {
    await withCheckedContinuation { continuation in
      let isDone = lock.withLock {
        if self.isDone == nil { waiting = continuation }
        return self.isDone
      }
      if let isDone { continuation.resume(returning: isDone) }
    }
  }
}
