import Foundation

/// The processes of one command: it and what it has started, as far as they have stayed in its group.
enum ProcessGroup {
  static func signal(_ group: pid_t, _ number: Int32) { signalProcess(-group, number) }

  /// Sends a signal to one process, which goes on if it was stopped.
  static func signalProcess(_ process: pid_t, _ number: Int32) {
    kill(process, number)
    // A stopped process would not hear of it.
    if number != SIGKILL { kill(process, SIGCONT) }
  }

  static func exists(_ group: pid_t) -> Bool {
    kill(-group, 0) == 0 || errno == EPERM
  }

  /// For a group whose leader has gone: asks the rest to end, then makes it. Returns when none is left.
  /// - Parameter isHurried: asked again and again; once true, there is no grace left.
  static func clear(_ group: pid_t, grace: Duration, isHurried: () -> Bool) async {
    guard exists(group) else { return }
    signal(group, SIGTERM)
    if await isGone(group, within: grace, unless: isHurried) { return }
    signal(group, SIGKILL)
    _ = await isGone(group, within: .seconds(5), unless: { false })
  }

  private static func isGone(_ group: pid_t, within time: Duration, unless isHurried: () -> Bool) async -> Bool {
    let deadline = ContinuousClock.now + time
    var pause = 0.001
    while exists(group) {
      guard ContinuousClock.now < deadline, !isHurried() else { return false }
      // Not `Task.sleep`, which a cancelled task wakes from at once.
      await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + pause) { continuation.resume() }
      }
      pause = min(pause * 2, 0.05)
    }
    return true
  }
}
