import Foundation

/// Starts commands. Not with Foundation's `Process`, which offers no choice of session. Here each command leads a session of its own, and
/// in it a process group, so that a signal reaches its children and their children. A session of its own has no terminal: who wants one
/// gets an error, and isn't stopped for being in the background of ours.
enum ChildProcess {
  struct Command: Sendable {
    var words: [String]
    var directory: String?
    var environment: [String: String] = [:]
  }

  /// Why a command did not start.
  struct StartFailure: Error, CustomStringConvertible {
    let description: String
    /// The system has no more of something that it may have again when others have ended.
    var isShortage = false

    init(_ description: String) { self.description = description }

    init(_ what: String, error: Int32) {
      description = "\(what): \(RawFile.message(error))"
      isShortage = [EAGAIN, ENOMEM, EMFILE, ENFILE].contains(error)
    }
  }

  /// What the tool was started with, and so what commands get, whichever thread starts them.
  private static let priority = System.threadPriority

  /// To be called first, on the thread that the process began with.
  static func rememberPriority() { _ = priority }

  /// Starts the command as the leader of a new session and process group.
  /// - Parameters:
  ///   - input: becomes standard input; `/dev/null` if nil.
  ///   - output: becomes standard output and standard error.
  ///   - keepsError: standard error is ours.
  static func start(_ command: Command, input: Int32? = nil, output: Int32, keepsError: Bool = false) throws(StartFailure) -> pid_t {
    var actions = System.makeSpawnActions()
    var attributes = System.makeSpawnAttributes()
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
    if !keepsError { posix_spawn_file_actions_adddup2(&actions, output, 2) }
    if let directory = command.directory, !System.addDirectory(directory, to: &actions) {
      throw StartFailure("can't start \(command.words[0]) in \(directory): the system offers no way to")
    }

    // What we ignore or block is not for them to inherit.
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    for signal in [SIGPIPE, SIGXFSZ] + Interruption.signals { sigaddset(&signals, signal) }
    posix_spawnattr_setsigdefault(&attributes, &signals)
    let flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK) | System.spawnFlags
    posix_spawnattr_setflags(&attributes, Int16(flags))

    System.setThreadPriority(priority)
    var process: pid_t = 0
    let error = withArguments(command.words) { words in
      withEnvironment(command.environment) { environment in
        let path = path(of: command)
        return StartsUnderWay.shared.during { posix_spawnp(&process, path, &actions, &attributes, words, environment) }
      }
    }
    guard error == 0 else { throw failure(error, command) }
    return process
  }

  /// The system looks commands up in our `PATH`; where the job sets its own, we look.
  private static func path(of command: Command) -> String {
    let name = command.words[0]
    guard !name.utf8.contains(UInt8(ascii: "/")), let path = command.environment["PATH"] else { return name }
    for directory in path.split(separator: ":", omittingEmptySubsequences: false) {
      let candidate = (directory.isEmpty ? "." : String(directory)) + "/" + name
      if access(candidate, X_OK) == 0 { return candidate }
    }
    return "/nonexistent/" + name
  }

  private static func failure(_ error: Int32, _ command: Command) -> StartFailure {
    let name = command.words[0]
    if let directory = command.directory {
      var status = stat()
      if stat(directory, &status) != 0 { return StartFailure("can't enter directory \(directory): \(RawFile.message(errno))") }
      if status.st_mode & S_IFMT != S_IFDIR { return StartFailure("can't enter directory \(directory): it is none") }
    }
    switch error {
    case ENOENT: return StartFailure("no such command: \(name)")
    case EACCES: return StartFailure("can't run \(name): not an executable file, or no permission")
    default: return StartFailure("can't start \(name)", error: error)
    }
  }

  private typealias Strings = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>

  private static func withArguments<Result>(_ words: [String], _ body: (Strings) -> Result) -> Result {
    withStrings(words.map { strdup($0) }, body)
  }

  /// - Parameter strings: freed afterwards.
  private static func withStrings<Result>(_ strings: [UnsafeMutablePointer<CChar>?], _ body: (Strings) -> Result) -> Result {
    defer { for string in strings { free(string) } }
    var ended = strings + [nil]
    // The array is not empty, so there is a base address.
    return ended.withUnsafeMutableBufferPointer { buffer in body(buffer.baseAddress.unsafelyUnwrapped) }
  }

  /// What was there when the first command was started, in bytes, because it need not be text: pairs `NAME=value`, each with its NUL.
  /// Nobody changes it.
  private static let inherited: [[CChar]] = {
    var pairs: [[CChar]] = []
    var next = System.environment
    while let place = next, let pair = place.pointee {
      pairs.append(Array(UnsafeBufferPointer(start: pair, count: strlen(pair) + 1)))
      next = place + 1
    }
    return pairs
  }()

  private static func withEnvironment<Result>(_ changes: [String: String], _ body: (Strings) -> Result) -> Result {
    let names = changes.keys.map { "\($0)=".utf8.map { CChar(bitPattern: $0) } }
    let kept = names.isEmpty ? inherited : inherited.filter { pair in !names.contains { pair.starts(with: $0) } }
    return withStrings(kept.map { strdup($0) } + changes.map { strdup("\($0.key)=\($0.value)") }, body)
  }
}
