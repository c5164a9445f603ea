import Foundation

/// The processes of one command: it and what it has started, as far as they have stayed in its group.
enum ProcessGroup {
  static func signal(_ group: pid_t, _ number: Int32) {
    kill(-group, number)
    // A stopped process would not hear of it.
    if number == SIGTERM { kill(-group, SIGCONT) }
  }

  static func exists(_ group: pid_t) -> Bool {
    kill(-group, 0) == 0 || errno == EPERM
  }

  /// For a group whose leader has gone: asks the rest to end, then makes it. Returns when none is left.
  static func clear(_ group: pid_t, grace: Duration) async {
    guard exists(group) else { return }
    signal(group, SIGTERM)
    if await isGone(group, within: grace) { return }
    signal(group, SIGKILL)
    _ = await isGone(group, within: .seconds(5))
  }

  private static func isGone(_ group: pid_t, within time: Duration) async -> Bool {
    let deadline = ContinuousClock.now + time
    var pause = 0.001
    while exists(group) {
      guard ContinuousClock.now < deadline else { return false }
      // Not `Task.sleep`, which a cancelled task wakes from at once.
      await withCheckedContinuation { continuation in
        DispatchQueue.global().asyncAfter(deadline: .now() + pause) { continuation.resume() }
      }
      pause = min(pause * 2, 0.05)
    }
    return true
  }
}
