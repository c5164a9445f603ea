import Foundation

/// Starts commands where the system may have no process or no descriptor to give for the moment. Who is refused waits until one of ours has
/// ended, or for a while, and tries again. So fewer run at a time, and none fails for it.
///
/// Rules:
/// - While somebody waits, whoever comes waits behind it. Only the first in the line tries.
/// - After a refusal fewer than ran then may run, so that the tool's own threads find room. With every look one more may.
/// - A start fails for want of something only when none of ours has run for ``patience``.
final class ProcessStarts: Sendable {
  private struct State {
    var waiting: [@Sendable () -> Void] = []
    /// The first in the line is trying.
    var isTrying = false
    var running = 0
    /// How many may run while somebody waits.
    var most = Int.max
    /// The timer goes round, as long as somebody waits.
    var isLooking = false
    var lastEnd = ContinuousClock.now
    var hasSaid = false
  }

  private static let patience = Duration.seconds(30)
  private static let pause = DispatchTimeInterval.milliseconds(100)
  /// Processes' worth, for threads.
  private static let room = 2

  private let state = Guarded(State())

  /// - Parameters:
  ///   - isStopped: asked before each attempt.
  ///   - body: starts one; it may be called several times.
  /// - Returns: nil if it has been stopped. Otherwise ``ended()`` is to be called once.
  func start<Started>(
    unless isStopped: @autoclosure () -> Bool, _ body: () async throws(ChildProcess.StartFailure) -> Started
  ) async throws(ChildProcess.StartFailure) -> Started? {
    var isFirst = state.withLock { $0.waiting.isEmpty && !$0.isTrying }
    var mayBeTheFirst = true
    while true {
      if !isFirst { await waitForTurn(atTheFront: !mayBeTheFirst) }
      guard !isStopped() else {
        if !isFirst { passTurn() }
        return nil
      }
      do throws(ChildProcess.StartFailure) {
        let started = try await body()
        state.withLock { $0.running += 1 }
        if !isFirst { passTurn() }
        return started
      } catch {
        guard error.isShortage, mayWait(error) else {
          if !isFirst { passTurn() }
          throw error
        }
        state.withLock { state in
          if !isFirst { state.isTrying = false }
          state.most = max(1, min(state.most, state.running - Self.room))
        }
      }
      isFirst = false
      mayBeTheFirst = false
    }
  }

  /// One that was started has ended.
  func ended() {
    let next = state.withLock { state in
      state.running -= 1
      state.lastEnd = .now
      return Self.next(&state)
    }
    next?()
  }

  private func mayWait(_ failure: ChildProcess.StartFailure) -> Bool {
    let (mayWait, mustSay) = state.withLock { state in
      let mayWait = state.running > 0 || ContinuousClock.now - state.lastEnd < Self.patience
      defer { state.hasSaid = state.hasSaid || mayWait }
      return (mayWait, mayWait && !state.hasSaid)
    }
    if mustSay {
      // Not on this thread: standard error may be blocked.
      DispatchQueue.global().async { Console.shared.note("ownedops: \(failure); fewer commands run at a time") }
    }
    return mayWait
  }

  private func waitForTurn(atTheFront: Bool) async {
    await withCheckedContinuation { continuation in
      let mustLook = state.withLock { state in
        state.waiting.insert({ continuation.resume() }, at: atTheFront ? 0 : state.waiting.count)
        defer { state.isLooking = true }
        return !state.isLooking
      }
      if mustLook { look() }
    }
  }

  /// Once in a while: the end of another's process is not announced, and one of ours may have ended before we were in the line.
  private func look() {
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.pause) { [self] in
      let (goesOn, next) = state.withLock { state in
        state.isLooking = !state.waiting.isEmpty
        if state.isLooking { state.most += 1 } else { state.most = .max }
        return (state.isLooking, Self.next(&state))
      }
      next?()
      if goesOn { look() }
    }
  }

  private func passTurn() {
    let next = state.withLock { state in
      state.isTrying = false
      return Self.next(&state)
    }
    next?()
  }

  private static func next(_ state: inout State) -> (@Sendable () -> Void)? {
    guard !state.isTrying, !state.waiting.isEmpty, state.running < state.most else { return nil }
    state.isTrying = true
    return state.waiting.removeFirst()
  }
}
