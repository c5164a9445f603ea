import Foundation
import Synchronization

/// Processes that this program has started, and that are not to outlive it when it is interrupted.
///
/// Foundation gives each a group of its own, and the terminal interrupts only that of this program.
enum ChildProcess {
  /// Two at most run at once: one that measures, and a server. 0: none.
  private static let first = Atomic<pid_t>(0)
  private static let second = Atomic<pid_t>(0)

  static func start(_ process: Process) throws {
    for number in [SIGINT, SIGTERM, SIGHUP] {
      // Nothing but what a signal handler may call.
      signal(number) { number in
        let (first, second) = (ChildProcess.first.load(ordering: .relaxed), ChildProcess.second.load(ordering: .relaxed))
        if first > 0 { kill(first, SIGTERM) }
        if second > 0 { kill(second, SIGTERM) }
        _exit(128 + number)
      }
    }
    try process.run()
    replace(0, by: process.processIdentifier)
  }

  /// Returns when it has ended.
  static func wait(for process: Process) {
    process.waitUntilExit()
    replace(process.processIdentifier, by: 0)
  }

  private static func replace(_ former: pid_t, by new: pid_t) {
    if first.compareExchange(expected: former, desired: new, ordering: .relaxed).exchanged { return }
    _ = second.compareExchange(expected: former, desired: new, ordering: .relaxed)
  }
}
