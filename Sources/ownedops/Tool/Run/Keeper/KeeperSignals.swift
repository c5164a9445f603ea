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
    #if os(Linux)
      if let function = pollFunction {
        guard let time else { return function(&polled, nfds_t(polled.count), nil, &nothingBlocked) }
        let (seconds, attoseconds) = time.components
        // Not before its time.
        var limit = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        limit.tv_nsec = min(limit.tv_nsec + 1000, 999_999_999)
        return function(&polled, nfds_t(polled.count), &limit, &nothingBlocked)
      }
    #endif
    // What comes just before is noticed a moment later.
    var before = sigset_t()
    sigprocmask(SIG_SETMASK, &nothingBlocked, &before)
    defer { sigprocmask(SIG_SETMASK, &before, nil) }
    return poll(&polled, nfds_t(polled.count), Int32(min(10, (time ?? .seconds(1)).inSeconds * 1000)))
  }

  /// A child that has exited. It is not waited for: it stays one until ``reap(_:)``.
  static func nextExit() -> (process: pid_t, exit: ChildReaper.Exit)? {
    #if os(Linux)
      var information = siginfo_t()
      while waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) != 0 {
        guard errno == EINTR else { return nil }
      }
      let child = information._sifields._sigchld
      guard child.si_pid > 0 else { return nil }
      return (child.si_pid, information.si_code == CLD_EXITED ? .status(child.si_status) : .signal(child.si_status))
    #else
      var status: Int32 = 0
      let process = waitpid(-1, &status, WNOHANG)
      guard process > 0 else { return nil }
      return (process, status & 0x7f == 0 ? .status(status >> 8 & 0xff) : .signal(status & 0x7f))
    #endif
  }

  /// - Returns: what it has used; nil where the system does not tell.
  static func reap(_ process: pid_t) -> ProcessUsage? {
    #if os(Linux)
      var usage = rusage()
      var status: Int32 = 0
      while wait4(process, &status, 0, &usage) < 0 { guard errno == EINTR else { return nil } }
      return ProcessUsage(usage)
    #else
      return nil
    #endif
  }

  #if os(Linux)
    private typealias Poll =
      @convention(c) (
        UnsafeMutablePointer<pollfd>?, nfds_t, UnsafePointer<timespec>?, UnsafePointer<sigset_t>?
      ) -> Int32

    /// Looked up, because the header hides it from Swift.
    private static let pollFunction = dlsym(nil, "ppoll").map { unsafeBitCast($0, to: Poll.self) }
  #endif
}
