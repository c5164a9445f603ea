import Foundation

/// Exits and signals, for a process of one thread.
enum KeeperSignals {
  /// How many times SIGTERM has come.
  ///
  /// Written by the handler alone, which runs in the only thread, and only while that waits.
  nonisolated(unsafe) private(set) static var terminations: Int32 = 0

  /// From now on exits and SIGTERM come only while ``wait`` waits, and end it.
  static func prepare() {
    terminations = 0
    var blocked = sigset_t()
    sigemptyset(&blocked)
    sigaddset(&blocked, SIGCHLD)
    sigaddset(&blocked, SIGTERM)
    sigprocmask(SIG_BLOCK, &blocked, nil)
    signal(SIGCHLD) { _ in }
    signal(SIGTERM) { _ in KeeperSignals.terminations += 1 }
  }

  /// - Returns: as `poll`.
  static func wait(_ polled: inout [pollfd], _ time: Duration?) -> Int32 {
    var nothingBlocked = sigset_t()
    sigemptyset(&nothingBlocked)
    if let result = System.poll(&polled, time, blocking: nothingBlocked) { return result }
    // What comes just before is noticed a moment later.
    var before = sigset_t()
    sigprocmask(SIG_SETMASK, &nothingBlocked, &before)
    defer { sigprocmask(SIG_SETMASK, &before, nil) }
    return poll(&polled, nfds_t(polled.count), Int32(min(10, (time ?? .seconds(1)).inSeconds * 1000)))
  }

  /// A child that has exited. It is not waited for: it stays one until ``reap(_:)``.
  static func nextExit() -> (process: pid_t, exit: ChildReaper.Exit)? {
    System.nextExit().map { ($0.process, ChildReaper.exit($0.status)) }
  }

  /// - Returns: what it has used; nil where the system does not tell.
  static func reap(_ process: pid_t) -> ProcessUsage? { System.reap(process).map { ProcessUsage($0) } }
}
