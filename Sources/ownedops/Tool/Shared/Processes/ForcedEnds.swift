import Foundation

/// Brings processes, or groups of them, to their end: each is asked (`SIGTERM`), made to when its grace is over (`SIGKILL`), and given up
/// if it is still there a while after that: it hangs in the kernel. However late this is called, nothing is given up before it was killed.
struct ForcedEnds<Target: Hashable> {
  private static var patience: Duration { .seconds(1) }

  private var asked: [Target: ContinuousClock.Instant] = [:]
  private var killed: [Target: ContinuousClock.Instant] = [:]

  func hasGivenUp(_ target: Target) -> Bool {
    killed[target].map { .now - $0 >= Self.patience } ?? false
  }

  /// Sends what is due. To be called again and again while the target is there.
  /// - Parameter grace: counts from the first call; none, and it is killed in this one.
  mutating func end(_ target: Target, grace: Duration, _ signal: (Int32) -> Void) {
    let now = ContinuousClock.now
    let isFirst = asked[target] == nil
    let began = asked[target] ?? now
    asked[target] = began
    if now - began >= grace {
      if killed[target] == nil { killed[target] = now }
      signal(SIGKILL)
    } else if isFirst {
      signal(SIGTERM)
    }
  }
}

extension ForcedEnds<ProcessTable.Process> {
  mutating func end(_ process: ProcessTable.Process, grace: Duration) {
    end(process, grace: grace) { ProcessGroup.signalProcess(process.number, $0) }
  }
}
