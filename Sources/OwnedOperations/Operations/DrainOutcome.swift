import Dispatch

/// What comes first: all is done, or it is to be waited for no longer.
final class DrainOutcome: Sendable {
  /// For tests, too, which hold it.
  static let timerQueue = DispatchQueue(label: "OwnedOperations.drains", qos: .userInitiated)

  private let state = Locked(State())

  private struct State {
    var isDone: Bool?
    var waiting: SuspendedTask<Bool, Never>?
  }

  /// The first call counts.
  func settle(_ isDone: Bool) {
    let waiting = state.withLock { state -> SuspendedTask<Bool, Never>? in
      guard state.isDone == nil else { return nil }
      state.isDone = isDone
      return state.waiting.take()
    }
    waiting?.resume(returning: isDone)
  }

  /// - Returns: to be cancelled.
  func settle(after timeout: Duration) -> UptimeTimer {
    let timer = UptimeTimer(on: Self.timerQueue)
    timer.setHandler { self.settle(false) }
    timer.set(Uptime.time(after: timeout.dispatchInterval))
    timer.activate()
    return timer
  }

  /// What a driver does when the time is over, unless the drain is.
  func driven() -> DrivenCall {
    DrivenCall(.timeout, while: { [self] in state.withLock { $0.isDone == nil } }, { self.settle(false) })
  }

  /// Once.
  func settled() async -> Bool {
    await withCheckedContinuation { continuation in
      let task = SuspendedTask(continuation)
      let former = Mutation.drainLooksTooEarly.isOn ? state.withLock { $0.isDone } : nil
      let isDone = state.withLock { state in
        let isDone = Mutation.drainLooksTooEarly.isOn ? former : state.isDone
        if isDone == nil { state.waiting = task }
        return isDone
      }
      if let isDone { continuation.resume(returning: isDone) }
    }
  }
}
