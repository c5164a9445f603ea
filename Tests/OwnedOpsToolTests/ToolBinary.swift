import Foundation
import Testing

@testable import OwnedOpsTool

/// The built executable, driven as a user does.
enum ToolBinary {
  struct Outcome {
    /// Negated if it was a signal.
    let status: Int32
    let output: String
    let errors: String
    /// See ``Child/End``.
    let processorTime: Duration
  }

  static let url: URL = {
    let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL.deletingLastPathComponent()
    let directory = bundle ?? URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
    let beside = directory.appendingPathComponent("ownedops")
    guard !FileManager.default.isExecutableFile(atPath: beside.path) else { return beside }
    return URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appendingPathComponent("ownedops")
  }()

  static func run(
    _ arguments: [String], in directory: TemporaryDirectory, input: String? = nil, environment: [String: String] = [:]
  ) async throws -> Outcome {
    try await run(url, arguments, in: directory, input: input, environment: environment)
  }

  /// A shell line in which `$OWNEDOPS` is the executable.
  static func shell(_ line: String, in directory: TemporaryDirectory) async throws -> Outcome {
    try await run(URL(fileURLWithPath: "/bin/sh"), ["-c", line], in: directory, input: nil, environment: ["OWNEDOPS": url.path])
  }

  /// What runs the executable as somebody who is not root: nothing but itself, unless that is root. Nil: root can't be left.
  static let unprivileged: String? = {
    guard geteuid() == 0 else { return "exec" }
    let line = "exec setpriv --reuid=65534 --regid=65534 --clear-groups"
    let probe = try? TemporaryDirectory()
    defer { probe?.remove() }
    guard let probe else { return nil }
    let status = try? Child(["/bin/sh", "-c", "\(line) \"$0\" --version", url.path], in: probe).waitForStatus()
    return status == 0 ? line : nil
  }()

  private static func run(
    _ program: URL, _ arguments: [String], in directory: TemporaryDirectory, input: String?, environment: [String: String]
  ) async throws -> Outcome {
    let files = try TemporaryDirectory()
    defer { files.remove() }
    try files.write("in", input ?? "")
    let child = try Child(
      [program.path] + arguments, in: directory, environment: environment, input: files.path + "/in", output: files.path + "/out",
      errors: files.path + "/err")
    let end = await child.end()
    return Outcome(status: end.status, output: files.read("out"), errors: files.read("err"), processorTime: end.processorTime)
  }
}

/// A process that a test has started. Not with Foundation's `Process`, which loses memory for each, and waits for all that have inherited
/// a socket of its own: for the tool's guard, too.
struct Child: Sendable {
  let identifier: pid_t

  /// Starts a program whose standard descriptors are files.
  init(
    _ words: [String], in directory: TemporaryDirectory, environment: [String: String] = [:], input: String = "/dev/null",
    output: String = "/dev/null", errors: String = "/dev/null"
  ) throws {
    let nowhere = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nowhere) }
    // The shell opens the files, then is the program.
    let line = #"in=$1 out=$2 err=$3; shift 3; exec "$@" <"$in" >"$out" 2>"$err""#
    var command = ChildProcess.Command(words: ["/bin/sh", "-c", line, "sh", input, output, errors] + words)
    command.directory = directory.path
    command.environment = try environment.merging(["LSAN_OPTIONS": LeakSuppressions.options.get()]) { changed, _ in changed }
    identifier = try ChildProcess.start(command, output: nowhere, keepsError: true)
  }

  struct End: Sendable {
    /// Negated if it was a signal.
    let status: Int32
    /// Of all its threads, and of those processes that it has waited for. Unlike the time on the wall it says how much there was to do,
    /// whatever else the machine does.
    let processorTime: Duration
  }

  /// Call it once. The process is killed when the test's time is over, so that one that hangs fails its test instead of holding up all
  /// others.
  func end() async -> End {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: waitForEnd()) }
      }
    } onCancel: {
      kill(identifier, SIGKILL)
    }
  }

  /// The same; negated if it was a signal.
  func status() async -> Int32 { await end().status }

  /// The same, on this thread.
  @discardableResult
  func waitForStatus() -> Int32 { waitForEnd().status }

  private func waitForEnd() -> End { ProcessorTime.waitForEnd(of: identifier) }
}

/// What work has cost.
enum ProcessorTime {
  /// Of this thread so far. Between two calls must be no `await`, which may go on with another.
  static var ofThread: Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Duration.seconds(Int(time.tv_sec)) + Duration.nanoseconds(Int(time.tv_nsec))
  }

  static func waitForEnd(of process: pid_t) -> Child.End {
    var status: Int32 = 0
    var usage = rusage()
    while wait4(process, &status, 0, &usage) < 0, errno == EINTR {}
    let signal = status & 0x7f
    return Child.End(
      status: signal == 0 ? status >> 8 & 0xff : -signal, processorTime: duration(usage.ru_utime) + duration(usage.ru_stime))
  }

  private static func duration(_ time: timeval) -> Duration {
    Duration.seconds(Int(time.tv_sec)) + Duration.microseconds(Int(time.tv_usec))
  }
}

/// For the leak check of an executable that was built with AddressSanitizer. What it takes for a leak when an object with weak references
/// is alive at the exit is the record of these, to which Swift keeps a pointer in a form that the check can't read.
private enum LeakSuppressions {
  static let options = Result {
    let path = ToolBinary.url.deletingLastPathComponent().appendingPathComponent("ownedops-tests.lsan").path
    try Data("leak:formWeakReference\n".utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    return "suppressions=\(path):print_suppressions=0"
  }
}

/// A directory of a test's own.
final class TemporaryDirectory: Sendable {
  let path: String

  /// - Parameter parent: where it is to be, if there is such a directory.
  init(in parent: String? = nil) throws {
    let parent = parent.flatMap { access($0, W_OK) == 0 ? $0 : nil } ?? NSTemporaryDirectory()
    var template = Array((parent + "/ownedops-tests.XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// With `rm`, which knows long paths.
  func remove() {
    _ = try? Child(["/bin/rm", "-rf", path], in: self).waitForStatus()
  }

  func write(_ name: String, _ text: String) throws { try write(name, Data(text.utf8)) }

  func write(_ name: String, _ data: Data) throws {
    let url = URL(fileURLWithPath: path + "/" + name)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    // Not with `Data`, which has every file reach the disk.
    let descriptor = open(url.path, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
    guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
    defer { close(descriptor) }
    let written = data.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
    guard written == data.count else { throw CocoaError(.fileWriteUnknown) }
  }

  /// A file of zeros that takes no room.
  func writeSparse(_ name: String, size: Int) throws {
    try write(name, "")
    guard truncate(path + "/" + name, off_t(size)) == 0 else { throw CocoaError(.fileWriteUnknown) }
  }

  /// Empty if there is no such file.
  func read(_ name: String) -> String {
    String(decoding: RawFile.contents(of: path + "/" + name) ?? [], as: UTF8.self)
  }

  func contains(_ name: String) -> Bool { access(path + "/" + name, F_OK) == 0 }

  /// The processes whose numbers stand in a file.
  func processes(in name: String) -> [pid_t] { read(name).split(whereSeparator: \.isWhitespace).compactMap { pid_t($0) } }
}

/// A named pipe that a test listens to while processes hold its other end.
struct ListeningPipe {
  private let descriptor: Int32

  init(_ name: String, in directory: TemporaryDirectory) throws {
    let path = directory.path + "/" + name
    guard mkfifo(path, 0o600) == 0 else { throw CocoaError(.fileWriteUnknown) }
    // Opened without waiting for a writer, read with.
    descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw CocoaError(.fileNoSuchFile) }
    _ = fcntl(descriptor, F_SETFL, 0)
  }

  /// All that comes until no process holds the other end any more, after one has opened it, or until the test's time is over. Call it
  /// once.
  func readToEnd() async -> String {
    let isOver = Guarded(false)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        Thread.detachNewThread { [descriptor] in
          continuation.resume(returning: Self.readToEnd(descriptor) { isOver.withLock { $0 } })
        }
      }
    } onCancel: {
      isOver.withLock { $0 = true }
    }
  }

  private static func readToEnd(_ descriptor: Int32, unless isOver: () -> Bool) -> String {
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    while !isOver() {
      // Before the first writer there is an end, too, for who reads; not for who polls.
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&entry, 1, 500) > 0 else { continue }
      let count = read(descriptor, &piece, piece.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += piece[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

enum Processes {
  /// Whether it may run any more of its program: not if it has been killed, and takes its time to go.
  static func isRunning(_ process: pid_t) -> Bool {
    guard !hasExited(process) else { return false }
    guard let fields = fields(of: process) else { return !isShown }
    // The ninth field of all: flags. PF_EXITING.
    if fields.count > 6, let flags = UInt64(fields[6]), flags & 0x4 != 0 { return false }
    return !isToBeKilled(process)
  }

  /// A zombie counts as gone: it runs nothing, and holds nothing any more.
  static func hasExited(_ process: pid_t) -> Bool {
    guard kill(process, 0) == 0 else { return true }
    guard let fields = fields(of: process) else { return isShown }
    return fields.first == "Z"
  }

  private static var isShown: Bool { FileManager.default.fileExists(atPath: "/proc/self/stat") }

  /// From the state on. What comes before is a name in parentheses that may hold anything.
  private static func fields(of process: pid_t) -> [Substring]? {
    let bytes = RawFile.contents(of: "/proc/\(process)/stat")
    guard let text = bytes.map({ String(decoding: $0, as: UTF8.self) }), let end = text.lastIndex(of: ")") else { return nil }
    return text[end...].dropFirst().split(separator: " ")
  }

  /// SIGKILL has come, and has not had its effect.
  private static func isToBeKilled(_ process: pid_t) -> Bool {
    let text = String(decoding: RawFile.contents(of: "/proc/\(process)/status") ?? [], as: UTF8.self)
    return text.split(separator: "\n").contains { line in
      guard line.hasPrefix("SigPnd:") || line.hasPrefix("ShdPnd:") else { return false }
      let signals = UInt64(line.dropFirst(7).trimmingCharacters(in: .whitespaces), radix: 16) ?? 0
      return signals & 0x100 != 0
    }
  }
}

/// Whether the tests and the executable were built with a sanitizer, which is slow and keeps memory on purpose.
enum Sanitizer {
  static let isActive = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
}
