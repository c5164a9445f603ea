#if !canImport(Darwin)
  import Foundation

  /// The C library's calls that differ between platforms, or that its headers hide from Swift. The hidden ones are looked up by their
  /// names.
  enum System {
    // MARK: Descriptors

    /// A pipe that commands don't inherit, in one step where there is one: between two another thread may start a command.
    /// - Returns: as `pipe`.
    static func openPipe(_ ends: inout [Int32]) -> Int32 {
      if let function = pipeFunction { return function(&ends, O_CLOEXEC) }
      guard pipe(&ends) == 0 else { return -1 }
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      return 0
    }

    private typealias OpenPipe = @convention(c) (UnsafeMutablePointer<Int32>, Int32) -> Int32

    private static let pipeFunction = dlsym(nil, "pipe2").map { unsafeBitCast($0, to: OpenPipe.self) }

    /// A file in memory, which has no name, and needs no room on a disk. Nil with `errno` if there is none to be had, or no such call.
    static func openMemory() -> Int32? {
      guard let function = memoryFunction else { return nil }
      let closeOnExec: UInt32 = 1
      let descriptor = function("ownedops", closeOnExec)
      return descriptor >= 0 ? descriptor : nil
    }

    private typealias OpenMemory = @convention(c) (UnsafePointer<CChar>, UInt32) -> Int32

    private static let memoryFunction = dlsym(nil, "memfd_create").map { unsafeBitCast($0, to: OpenMemory.self) }

    /// A pair of connected sockets that commands don't inherit.
    /// - Returns: as `socketpair`.
    static func openSockets(_ ends: inout [Int32]) -> Int32 {
      socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    }

    /// Sets room aside behind the end of a file, which stays where it is.
    /// - Returns: the error; nil also where there is no such call.
    static func setAside(_ count: Int, behind size: Int, of descriptor: Int32) -> Int32? {
      guard let function = allocateFunction else { return nil }
      let keepSize: Int32 = 1
      while function(descriptor, keepSize, off_t(size), off_t(count)) != 0 {
        guard errno == EINTR else { return errno }
      }
      return nil
    }

    private typealias Allocate = @convention(c) (Int32, Int32, off_t, off_t) -> Int32

    private static let allocateFunction = dlsym(nil, "fallocate").map { unsafeBitCast($0, to: Allocate.self) }

    // MARK: Limits

    /// Of descriptors that are open at a time. Nil if that isn't told.
    static var descriptorLimit: rlim_t? { limit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue)) }

    /// Of the length of a file. Nil if that isn't told.
    static var fileLengthLimit: rlim_t? { limit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue)) }

    private static func limit(_ resource: __rlimit_resource_t) -> rlim_t? {
      var limit = rlimit()
      return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : nil
    }

    // MARK: What has been used

    /// By this process.
    static var ownUsage: rusage {
      var usage = rusage()
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
      return usage
    }

    /// In bytes.
    static func peakMemory(in usage: rusage) -> Int { Int(usage.ru_maxrss) * 1024 }

    /// Of this process since it became this program, which `ru_maxrss` doesn't tell. Nil if that isn't told.
    static var ownPeakMemory: Int? {
      guard let file = fopen("/proc/self/status", "re") else { return nil }
      defer { fclose(file) }
      var line = [CChar](repeating: 0, count: 256)
      while fgets(&line, Int32(line.count), file) != nil {
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard text.hasPrefix("VmHWM:") else { continue }
        return text.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }.map { $0 * 1024 }
      }
      return nil
    }

    // MARK: Memory

    /// From now on large blocks go back to the system when they are freed. Left alone, the C library keeps blocks of the size of the first
    /// one that was.
    static func returnLargeBlocks() {
      guard let symbol = dlsym(nil, "mallopt") else { return }
      // What is larger is mapped by itself, and setting the limit, to what it is at the beginning, keeps it from growing.
      let (mapThreshold, limit): (Int32, Int32) = (-3, 128 << 10)
      _ = unsafeBitCast(symbol, to: (@convention(c) (Int32, Int32) -> Int32).self)(mapThreshold, limit)
    }

    // MARK: Signals

    static func isIgnored(_ signal: Int32) -> Bool {
      var action = sigaction()
      guard sigaction(signal, nil, &action) == 0 else { return false }
      return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// As `poll`, with these signals blocked meanwhile and no others.
    /// - Parameter time: nil: for ever.
    /// - Returns: nil if there is no such call.
    static func poll(_ polled: inout [pollfd], _ time: Duration?, blocking signals: sigset_t) -> Int32? {
      guard let function = pollFunction else { return nil }
      var signals = signals
      guard let time else { return function(&polled, nfds_t(polled.count), nil, &signals) }
      let (seconds, attoseconds) = time.components
      // Not before its time.
      var limit = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
      limit.tv_nsec = min(limit.tv_nsec + 1000, 999_999_999)
      return function(&polled, nfds_t(polled.count), &limit, &signals)
    }

    private typealias Poll =
      @convention(c) (
        UnsafeMutablePointer<pollfd>?, nfds_t, UnsafePointer<timespec>?, UnsafePointer<sigset_t>?
      ) -> Int32

    private static let pollFunction = dlsym(nil, "ppoll").map { unsafeBitCast($0, to: Poll.self) }

    // MARK: Children

    /// A child that has exited, and its status as `wait` tells it. It stays one until ``reap(_:)``.
    static func nextExit() -> (process: pid_t, status: Int32)? {
      var information = siginfo_t()
      while waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) != 0 {
        guard errno == EINTR else { return nil }
      }
      let child = information._sifields._sigchld
      guard child.si_pid > 0 else { return nil }
      return (child.si_pid, information.si_code == CLD_EXITED ? child.si_status << 8 : child.si_status)
    }

    /// - Returns: what it has used; nil if that isn't told.
    static func reap(_ process: pid_t) -> rusage? {
      var usage = rusage()
      var status: Int32 = 0
      while wait4(process, &status, 0, &usage) < 0 { guard errno == EINTR else { return nil } }
      return usage
    }

    /// From now on orphans of our children are ours.
    static func adoptOrphans() {
      // Swift imports no variadic functions, and this is one. Its arguments are passed as those of any other.
      typealias ProcessControl = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
      guard let symbol = dlsym(nil, "prctl") else { return }
      let setChildSubreaper: Int32 = 36
      _ = unsafeBitCast(symbol, to: ProcessControl.self)(setChildSubreaper, 1, 0, 0, 0)
    }

    // MARK: Priorities

    private static let process = __priority_which_t(PRIO_PROCESS.rawValue)

    /// The nice value of this thread. Here each has one of its own, and GCD sets those of its threads where it may.
    static var threadPriority: Int32 { getpriority(process, 0) }

    /// Does nothing where that isn't allowed.
    static func setThreadPriority(_ value: Int32) {
      guard threadPriority != value else { return }
      _ = setpriority(process, 0, value)
    }

    // MARK: This process

    /// The environment as it is now: pairs `NAME=value`, and nil behind the last.
    static var environment: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? {
      dlsym(nil, "environ")?.load(as: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?.self)
    }

    /// Where its program is. Nil if that isn't told.
    static var programPath: String? {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = buffer.withUnsafeMutableBytes {
        readlink("/proc/self/exe", $0.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: CChar.self), $0.count)
      }
      return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    // MARK: What the C library fills in

    static func makeThread() -> pthread_t { pthread_t() }

    static func makeSpawnActions() -> posix_spawn_file_actions_t { posix_spawn_file_actions_t() }

    static func makeSpawnAttributes() -> posix_spawnattr_t { posix_spawnattr_t() }

    // MARK: Starting programs

    /// `POSIX_SPAWN_SETSID`.
    private static let newSession: Int32 = 0x80

    /// A session of its own.
    static let spawnFlags = newSession

    /// - Returns: false if the system offers no way to start a program in a directory.
    static func addDirectory(_ directory: String, to actions: inout posix_spawn_file_actions_t) -> Bool {
      guard let function = addDirectoryFunction else { return false }
      return function(&actions, directory) == 0
    }

    private typealias AddDirectory = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>) -> Int32

    private static let addDirectoryFunction = dlsym(nil, "posix_spawn_file_actions_addchdir_np").map {
      unsafeBitCast($0, to: AddDirectory.self)
    }
  }
#endif
