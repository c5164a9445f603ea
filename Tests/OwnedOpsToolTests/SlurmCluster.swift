import Foundation
import Testing

@testable import OwnedOpsTool

/// Two nodes on this machine's loopback, for all tests of the cluster engine. See `Tests/Cluster/slurm`.
struct SlurmCluster: Sendable {
  let directory: String
  let configuration: String

  /// Where not, the tests are skipped. CI sees to it that it is there.
  static let isAvailable: Bool = {
    let environment = ProcessInfo.processInfo.environment
    guard geteuid() == 0, !Sanitizer.isActive, environment["OWNED_OPERATIONS_WITHOUT_SLURM"] == nil else { return false }
    let directories = (environment["PATH"] ?? "").split(separator: ":")
    return ["slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol", "scancel"].allSatisfy { name in
      directories.contains { access("\($0)/\(name)", X_OK) == 0 }
    }
  }()

  static let notice: Comment = "no Slurm here, or not root: install slurm-wlm and munge to run these"

  /// Started once; it goes when this process does, however it ends.
  static let shared = Result { try start() }

  private static let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("Cluster/slurm").path

  private static func start() throws -> SlurmCluster {
    let place = try TemporaryDirectory()
    chmod(place.path, 0o755)
    let status = try Child([script, "start", place.path], in: place, errors: place.path + "/start.err").waitForStatus()
    guard status == 0 else { throw UsageError("the cluster does not start: \(place.read("start.err"))") }
    // Reads until this process holds the pipe no more.
    guard let pipe = Pipe.open() else { throw UsageError("no pipe") }
    let line = #"read -r _; "$0" stop "$1"; rm -rf "$1""#
    let nowhere = open("/dev/null", O_RDWR | O_CLOEXEC)
    _ = try ChildProcess.start(.init(words: ["/bin/sh", "-c", line, script, place.path]), input: pipe.reading, output: nowhere)
    close(nowhere)
    close(pipe.reading)
    return SlurmCluster(directory: place.path, configuration: place.path + "/slurm.conf")
  }

  var environment: [String: String] { ["SLURM_CONF": configuration] }

  /// Runs one of Slurm's programs.
  @discardableResult
  func ask(_ words: String..., in directory: TemporaryDirectory) async throws -> String {
    let line = "SLURM_CONF=\(ShellText.quoted(configuration)) " + words.map(ShellText.quoted).joined(separator: " ")
    return try await ToolBinary.shell(line, in: directory).output
  }

  /// What is waiting or running.
  func jobs(in directory: TemporaryDirectory) async throws -> [Substring] {
    try await ask("squeue", "--me", "--noheader", "--array", "--format=%i %T %N %j", in: directory).split(separator: "\n")
  }

  func run(
    _ arguments: String..., in directory: TemporaryDirectory, input: String? = nil, environment more: [String: String] = [:]
  ) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(arguments, in: directory, input: input, environment: environment.merging(more) { $1 })
  }

  /// Starts the tool; what it shows goes to `out` and `err`.
  func start(_ arguments: String..., in directory: TemporaryDirectory, environment more: [String: String] = [:]) throws -> Child {
    try Child(
      [ToolBinary.url.path] + arguments, in: directory, environment: environment.merging(more) { $1 }, output: directory.path + "/out",
      errors: directory.path + "/err")
  }

  /// The controller goes, and comes back after so long, when something has been seen.
  func withoutController(for time: Duration, in directory: TemporaryDirectory, _ hasSeen: () -> Bool) async throws {
    let number = (RawFile.contents(of: self.directory + "/slurmctld.pid") ?? []).filter { $0 >= 0x30 && $0 <= 0x39 }
    guard let process = pid_t(String(decoding: number, as: UTF8.self)) else { throw UsageError("no number of the controller") }
    kill(process, SIGTERM)
    // The next one wants its port and its files.
    while !Processes.hasExited(process) { try await Task.sleep(for: .milliseconds(20)) }
    try await Task.sleep(for: time)
    let result: Result<Void, any Error>
    do { result = .success(try await directory.until("it is missed") { hasSeen() }) } catch { result = .failure(error) }
    try await ask("slurmctld", in: directory)
    try result.get()
  }
}

/// Graphs for these tests.
enum SlurmGraph {
  static func job(_ name: String, _ words: [String], _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(words)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  static func shell(_ name: String, _ line: String, _ more: String = "") -> String { job(name, ["sh", "-c", line], more) }

  static func text(_ jobs: [String], owners: String = "") -> String {
    "{\(owners.isEmpty ? "" : "\"owners\":[\(owners)],")\"jobs\":[\(jobs.joined(separator: ",\n"))]}"
  }
}

extension TemporaryDirectory {
  /// Asks again and again; fails after a minute.
  func until(_ what: String, _ holds: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while try await !holds() {
      guard ContinuousClock.now < deadline else { throw UsageError("\(what): not within a minute; \(read("out")) \(read("err"))") }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  func lines(_ name: String) -> [Substring] { read(name).split(separator: "\n") }
}
