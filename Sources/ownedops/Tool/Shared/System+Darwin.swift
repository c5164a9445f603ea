#if canImport(Darwin)
  import Foundation

  /// The C library's calls that differ between platforms, or that its headers hide from Swift.
  enum System {
    // MARK: Descriptors

    /// A pipe that commands don't inherit.
    /// - Returns: as `pipe`.
    static func openPipe(_ ends: inout [Int32]) -> Int32 {
      guard pipe(&ends) == 0 else { return -1 }
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      return 0
    }

    /// A file in memory. There is no such call here.
    static func openMemory() -> Int32? { nil }

    /// A pair of connected sockets that commands don't inherit.
    /// - Returns: as `socketpair`.
    static func openSockets(_ ends: inout [Int32]) -> Int32 {
      guard socketpair(AF_UNIX, SOCK_STREAM, 0, &ends) == 0 else { return -1 }
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      return 0
    }

    /// Sets room aside behind the end of a file, which stays where it is. There is no such call here.
    static func setAside(_ count: Int, behind size: Int, of descriptor: Int32) -> Int32? { nil }

    // MARK: Limits

    /// Of descriptors that are open at a time. Nil if that isn't told.
    static var descriptorLimit: rlim_t? { limit(RLIMIT_NOFILE) }

    /// Of the length of a file. Nil if that isn't told.
    static var fileLengthLimit: rlim_t? { limit(RLIMIT_FSIZE) }

    private static func limit(_ resource: Int32) -> rlim_t? {
      var limit = rlimit()
      return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : nil
    }

    // MARK: What has been used

    /// By this process.
    static var ownUsage: rusage {
      var usage = rusage()
      getrusage(RUSAGE_SELF, &usage)
      return usage
    }

    /// In bytes.
    static func peakMemory(in usage: rusage) -> Int { Int(usage.ru_maxrss) }

    /// Of this process since it became this program. `ru_maxrss` tells that here.
    static var ownPeakMemory: Int? { nil }

    // MARK: Memory

    /// It does that by itself.
    static func returnLargeBlocks() {}

    // MARK: Signals

    static func isIgnored(_ signal: Int32) -> Bool {
      var action = sigaction()
      guard sigaction(signal, nil, &action) == 0 else { return false }
      return unsafeBitCast(action.__sigaction_u.__sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// As `poll`, with these signals blocked meanwhile and no others. There is no such call here.
    static func poll(_ polled: inout [pollfd], _ time: Duration?, blocking signals: sigset_t) -> Int32? { nil }

    // MARK: Children

    /// A child that has exited, and its status as `wait` tells it.
    static func nextExit() -> (process: pid_t, status: Int32)? {
      var status: Int32 = 0
      let process = waitpid(-1, &status, WNOHANG)
      return process > 0 ? (process, status) : nil
    }

    /// Nothing is left to do, or to be told, after ``nextExit()`` here.
    static func reap(_ process: pid_t) -> rusage? { nil }

    /// Orphans of our children go elsewhere here.
    static func adoptOrphans() {}

    // MARK: Priorities

    /// The nice value is the process's, and nobody changes it.
    static var threadPriority: Int32 { 0 }

    static func setThreadPriority(_: Int32) {}

    // MARK: This process

    /// The environment as it is now: pairs `NAME=value`, and nil behind the last.
    static var environment: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? { _NSGetEnviron().pointee }

    /// Where its program is. `Bundle` tells that here.
    static var programPath: String? { nil }

    // MARK: What the C library fills in

    static func makeThread() -> pthread_t? { nil }

    static func makeSpawnActions() -> posix_spawn_file_actions_t? { nil }

    static func makeSpawnAttributes() -> posix_spawnattr_t? { nil }

    // MARK: Starting programs

    /// `POSIX_SPAWN_SETSID`.
    private static let newSession: Int32 = 0x400

    /// A session of its own, and no descriptors but those that are given.
    static let spawnFlags = newSession | Int32(POSIX_SPAWN_CLOEXEC_DEFAULT)

    /// - Returns: false if the system offers no way to start a program in a directory.
    static func addDirectory(_ directory: String, to actions: inout posix_spawn_file_actions_t?) -> Bool {
      posix_spawn_file_actions_addchdir_np(&actions, directory) == 0
    }
  }
#endif
