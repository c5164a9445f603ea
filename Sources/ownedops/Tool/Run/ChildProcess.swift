import Foundation

/// Starts commands. Not with Foundation's `Process`, which offers no choice of process group: each command leads a group of its own here, so that a signal
/// reaches its children and their children.
enum ChildProcess {
  struct Command: Sendable {
    var words: [String]
    var directory: String?
    var environment: [String: String] = [:]
  }

  /// Why a command did not start.
  struct StartFailure: Error, CustomStringConvertible {
    let description: String
  }

  /// Starts the command as the leader of a new process group.
  /// - Parameters:
  ///   - input: becomes standard input; `/dev/null` if nil.
  ///   - output: becomes standard output and standard error.
  ///   - joinsGroup: false leaves it in ours, and its standard error ours.
  static func start(_ command: Command, input: Int32? = nil, output: Int32, ownGroup: Bool = true) throws(StartFailure) -> pid_t {
    #if canImport(Darwin)
      var actions: posix_spawn_file_actions_t?
      var attributes: posix_spawnattr_t?
    #else
      var actions = posix_spawn_file_actions_t()
      var attributes = posix_spawnattr_t()
    #endif
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    if let input {
      posix_spawn_file_actions_adddup2(&actions, input, 0)
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    }
    posix_spawn_file_actions_adddup2(&actions, output, 1)
    if ownGroup { posix_spawn_file_actions_adddup2(&actions, output, 2) }
    if let directory = command.directory, !addDirectory(directory, to: &actions) {
      throw StartFailure(description: "can't start \(command.words[0]) in \(directory): the system offers no way to")
    }

    // What we ignore or block is not for them to inherit.
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    for signal in [SIGPIPE] + Interruption.signals { sigaddset(&signals, signal) }
    posix_spawnattr_setsigdefault(&attributes, &signals)
    var flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK)
    if ownGroup {
      flags |= Int32(POSIX_SPAWN_SETPGROUP)
      posix_spawnattr_setpgroup(&attributes, 0)
    }
    #if canImport(Darwin)
      flags |= Int32(POSIX_SPAWN_CLOEXEC_DEFAULT)
    #endif
    posix_spawnattr_setflags(&attributes, Int16(flags))

    var process: pid_t = 0
    let error = withArguments(command.words) { words in
      withEnvironment(command.environment) { environment in
        posix_spawnp(&process, path(of: command), &actions, &attributes, words, environment)
      }
    }
    guard error == 0 else { throw StartFailure(description: explanation(of: error, command)) }
    return process
  }

  #if canImport(Darwin)
    private static func addDirectory(_ directory: String, to actions: inout posix_spawn_file_actions_t?) -> Bool {
      posix_spawn_file_actions_addchdir_np(&actions, directory) == 0
    }
  #else
    private typealias AddDirectory = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>) -> Int32

    /// Looked up, because the header hides it from Swift.
    private static let addDirectoryFunction = dlsym(nil, "posix_spawn_file_actions_addchdir_np").map {
      unsafeBitCast($0, to: AddDirectory.self)
    }

    private static func addDirectory(_ directory: String, to actions: inout posix_spawn_file_actions_t) -> Bool {
      guard let function = addDirectoryFunction else { return false }
      return function(&actions, directory) == 0
    }
  #endif

  /// The system looks commands up in our `PATH`; where the job sets its own, we look.
  private static func path(of command: Command) -> String {
    let name = command.words[0]
    guard !name.contains("/"), let path = command.environment["PATH"] else { return name }
    for directory in path.split(separator: ":", omittingEmptySubsequences: false) {
      let candidate = (directory.isEmpty ? "." : String(directory)) + "/" + name
      if access(candidate, X_OK) == 0 { return candidate }
    }
    return "/nonexistent/" + name
  }

  private static func explanation(of error: Int32, _ command: Command) -> String {
    let name = command.words[0]
    if let directory = command.directory {
      var status = stat()
      if stat(directory, &status) != 0 { return "can't enter directory \(directory): \(RawFile.message(errno))" }
      if status.st_mode & S_IFMT != S_IFDIR { return "can't enter directory \(directory): it is none" }
    }
    switch error {
    case ENOENT: return "no such command: \(name)"
    case EACCES: return "can't run \(name): not an executable file, or no permission"
    default: return "can't start \(name): \(RawFile.message(error))"
    }
  }

  private typealias Strings = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>

  private static func withArguments<Result>(_ words: [String], _ body: (Strings) -> Result) -> Result {
    var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    pointers.append(nil)
    defer { for pointer in pointers { free(pointer) } }
    // The array is not empty, so there is a base address.
    return pointers.withUnsafeMutableBufferPointer { buffer in body(buffer.baseAddress.unsafelyUnwrapped) }
  }

  /// What was there when the tool began; nobody changes it.
  private static let inherited = ProcessInfo.processInfo.environment
  private static let inheritedWords = inherited.map { "\($0.key)=\($0.value)" }

  private static func withEnvironment<Result>(_ changes: [String: String], _ body: (Strings) -> Result) -> Result {
    guard !changes.isEmpty else { return withArguments(inheritedWords, body) }
    return withArguments(inherited.merging(changes) { $1 }.map { "\($0.key)=\($0.value)" }, body)
  }
}

/// This program, run by itself.
enum SelfProcess {
  static let path: String = {
    #if os(Linux)
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = buffer.withUnsafeMutableBytes {
        readlink("/proc/self/exe", $0.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: CChar.self), $0.count)
      }
      if count > 0 { return String(decoding: buffer.prefix(count), as: UTF8.self) }
    #endif
    return Bundle.main.executablePath ?? CommandLine.arguments[0]
  }()

  /// The one that runs, for a signal to be passed on.
  static let current = Guarded<pid_t?>(nil)

  /// Runs it with these arguments, and gives what it wrote to standard output. Blocks.
  static func output(of arguments: [[UInt8]], program: String = path, input: String? = nil) throws(UsageError) -> Data {
    let output = TemporaryFile.open()
    guard output >= 0 else { throw UsageError("can't create a temporary file: \(RawFile.message(errno))") }
    defer { close(output) }
    var source: Int32?
    defer { if let source { close(source) } }
    if let input {
      let file = TemporaryFile.open()
      guard file >= 0 else { throw UsageError("can't create a temporary file: \(RawFile.message(errno))") }
      source = file
      if let error = RawFile.writeAll(Array(input.utf8), to: file) {
        throw UsageError("can't write a temporary file: \(RawFile.message(error))")
      }
      lseek(file, 0, SEEK_SET)
    }
    do throws(ChildProcess.StartFailure) {
      let words = [program] + arguments.map { String(decoding: $0, as: UTF8.self) }
      let process = try ChildProcess.start(.init(words: words), input: source, output: output, ownGroup: false)
      current.withLock { $0 = process }
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
      current.withLock { $0 = nil }
    } catch {
      throw UsageError(error.description)
    }
    lseek(output, 0, SEEK_SET)
    return FileHandle(fileDescriptor: output, closeOnDealloc: false).readDataToEndOfFile()
  }
}

/// A file without a name.
enum TemporaryFile {
  private static let directory = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"

  /// - Returns: a descriptor, or -1 with `errno`.
  static func open() -> Int32 {
    var template = Array((directory + "/ownedops.XXXXXX").utf8CString)
    let descriptor = mkstemp(&template)
    guard descriptor >= 0 else { return -1 }
    unlink(template)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    return descriptor
  }
}
