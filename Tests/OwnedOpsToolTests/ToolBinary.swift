import Foundation
import Testing

/// The built executable, driven as a user does.
enum ToolBinary {
  struct Outcome {
    /// Negated if it was a signal.
    let status: Int32
    let output: String
    let errors: String
  }

  static let url: URL = {
    let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL.deletingLastPathComponent()
    let directory = bundle ?? URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
    let beside = directory.appendingPathComponent("ownedops")
    guard !FileManager.default.isExecutableFile(atPath: beside.path) else { return beside }
    return URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appendingPathComponent("ownedops")
  }()

  /// What the executable is given: ours, with changes.
  static func environment(_ changes: [String: String]) -> [String: String] {
    ProcessInfo.processInfo.environment.merging(changes) { $1 }
  }

  static func run(
    _ arguments: [String], in directory: TemporaryDirectory, input: String? = nil, environment: [String: String] = [:]
  ) async throws -> Outcome {
    try await run(url, arguments, in: directory, input: input, environment: environment)
  }

  /// A shell line in which `$OWNEDOPS` is the executable.
  static func shell(_ line: String, in directory: TemporaryDirectory) async throws -> Outcome {
    try await run(URL(fileURLWithPath: "/bin/sh"), ["-c", line], in: directory, input: nil, environment: ["OWNEDOPS": url.path])
  }

  private static func run(
    _ program: URL, _ arguments: [String], in directory: TemporaryDirectory, input: String?, environment: [String: String]
  ) async throws -> Outcome {
    let files = try TemporaryDirectory()
    defer { files.remove() }
    let process = Process()
    process.executableURL = program
    process.arguments = arguments
    process.currentDirectoryURL = URL(fileURLWithPath: directory.path)
    process.environment = Self.environment(environment)
    try files.write("in", input ?? "")
    try files.write("out", "")
    try files.write("err", "")
    process.standardInput = try FileHandle(forReadingFrom: URL(fileURLWithPath: files.path + "/in"))
    process.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: files.path + "/out"))
    process.standardError = try FileHandle(forWritingTo: URL(fileURLWithPath: files.path + "/err"))
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      process.terminationHandler = { _ in continuation.resume() }
      do { try process.run() } catch { continuation.resume(throwing: error) }
    }
    let status = process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
    return Outcome(status: status, output: files.read("out"), errors: files.read("err"))
  }
}

/// A directory of a test's own.
final class TemporaryDirectory: Sendable {
  let path: String

  init() throws {
    var template = Array((NSTemporaryDirectory() + "/ownedops-tests.XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// With `rm`, which knows long paths.
  func remove() {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/rm")
    process.arguments = ["-rf", path]
    try? process.run()
    process.waitUntilExit()
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
    String(decoding: FileManager.default.contents(atPath: path + "/" + name) ?? Data(), as: UTF8.self)
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

  /// All that comes until no process holds the other end any more. Call it once, when one has opened it.
  func readToEnd() async -> String {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread { [descriptor] in
        let data = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true).readDataToEndOfFile()
        continuation.resume(returning: String(decoding: data, as: UTF8.self))
      }
    }
  }
}

enum Processes {
  /// A zombie counts as gone: it runs nothing.
  static func isRunning(_ process: pid_t) -> Bool {
    guard kill(process, 0) == 0 else { return false }
    guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8), let end = status.lastIndex(of: ")") else {
      return !FileManager.default.fileExists(atPath: "/proc/self/stat")
    }
    return !status[end...].dropFirst(2).hasPrefix("Z")
  }
}
