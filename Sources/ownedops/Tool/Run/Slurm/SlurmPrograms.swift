import Foundation

/// Runs Slurm's programs, each for its answer.
enum SlurmPrograms {
  /// Calls one of them. Blocks until it has answered.
  typealias Call = @Sendable (_ words: [String]) -> Answer

  struct Answer: Sendable {
    /// Nil if it did not answer in time, and was killed.
    let status: Int32?
    /// What it put out, errors among it.
    let text: String

    var isGood: Bool { status == 0 }

    /// In one line, for people.
    var message: String {
      guard status != nil else { return "no answer within \(Shown.seconds(SlurmPrograms.patience.inSeconds))" }
      let lines = text.split(separator: "\n").map { line in
        var line = line
        for prefix in SlurmPrograms.names.map({ "\($0): " }) + ["error: "] where line.hasPrefix(prefix) {
          line = line.dropFirst(prefix.count)
        }
        return String(line)
      }
      return lines.isEmpty ? "exit status \(status ?? 0)" : lines.joined(separator: "; ")
    }

    /// It may go well the next time, and nobody knows whether it has had its effect.
    var isPassing: Bool {
      guard status != nil else { return true }
      return Self.passing.contains { text.range(of: $0, options: .caseInsensitive) != nil }
    }

    private static let passing = [
      "Unable to contact slurm controller", "Socket timed out", "Connection refused", "Communication connection failure",
      "Zero Bytes were transmitted", "Unexpected message received", "temporarily unable", "temporarily unavailable", "standby mode",
      "MaxSubmitJob", "GrpSubmitJobs", "MaxJobCount", "authentication error", "Message send failure", "Message receive failure",
      "reached limit", "rate limit", "Transport endpoint",
    ]

    /// More than this user may have, at least for now.
    var isAboutTooMany: Bool { text.contains("MaxSubmitJob") || text.contains("GrpSubmitJobs") }

    /// A job that it is to come after is not what it was a moment ago: ended and forgotten.
    var isAboutDependencies: Bool { text.contains("ependency problem") || text.contains("nvalid dependency") }
  }

  static let names = ["sbatch", "squeue", "scontrol", "scancel"]
  static let patience = Duration.seconds(60)

  /// Refuses to begin where something is missing.
  static func check() throws(UsageError) {
    let environment = ProcessInfo.processInfo.environment
    let directories = (environment["PATH"] ?? "").split(separator: ":")
    let missing = names.filter { name in !directories.contains { access("\($0)/\(name)", X_OK) == 0 } }
    guard missing.isEmpty else {
      throw UsageError(
        "--engine slurm: no \(missing.joined(separator: ", ")) on PATH; install Slurm's programs (Debian: slurm-client), or load its module"
      )
    }
    let clusters = environment["SLURM_CLUSTERS"] ?? ""
    guard environment["SBATCH_CLUSTERS"].map({ $0 == clusters }) ?? true else {
      throw UsageError(
        "--engine slurm: SBATCH_CLUSTERS is for sbatch alone, so jobs would be looked for elsewhere; set SLURM_CLUSTERS, for all")
    }
    guard !clusters.contains(","), clusters != "all" else {
      throw UsageError("--engine slurm: SLURM_CLUSTERS is \"\(clusters)\"; it must name one cluster")
    }
    // They change what is asked for on the command line, or what is shown.
    for name in ["ACCOUNT", "ARRAY_UNIQUE", "FORMAT2", "LICENSES", "NAMES", "PARTITION", "QOS", "SORT", "STATES", "USERS"] {
      unsetenv("SQUEUE_\(name)")
    }
    for name in ["ACCOUNT", "BATCH", "CTLD", "FULL", "HURRY", "INTERACTIVE", "NAME", "PARTITION", "QOS", "STATE", "USER", "WCKEY"] {
      unsetenv("SCANCEL_\(name)")
    }
    for name in ["ARRAY_INX", "WAIT", "TEST_ONLY"] { unsetenv("SBATCH_\(name)") }
  }

  /// The cluster that all programs ask, and jobs are submitted to; nil: the one that is here.
  static var cluster: String? { ProcessInfo.processInfo.environment["SLURM_CLUSTERS"] }

  static func use(cluster: String?) {
    unsetenv("SBATCH_CLUSTERS")
    if let cluster { setenv("SLURM_CLUSTERS", cluster, 1) } else { unsetenv("SLURM_CLUSTERS") }
  }

  /// A path as Slurm wants it where it would put numbers of jobs in place of `%j` and the like. With a backslash in it, it does not, and
  /// takes one of two away.
  static func pattern(_ path: String) -> String {
    path.contains("\\") ? path.replacingOccurrences(of: "\\", with: "\\\\") : path.replacingOccurrences(of: "%", with: "%%")
  }

  /// Blocks until it has answered.
  static func run(_ words: [String]) -> Answer {
    // Not on a disk, which may be full. Nobody would notice that an answer was cut off, and jobs that it does not name would be lost.
    let output = System.openMemory() ?? TemporaryFile.open()
    guard output >= 0 else {
      let isShortage = [EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT].contains(errno)
      return Answer(status: isShortage ? nil : 1, text: "can't create a temporary file: \(RawFile.message(errno))")
    }
    defer { close(output) }
    let process: pid_t
    do throws(ChildProcess.StartFailure) {
      process = try ChildReaper.shared.start { () throws(ChildProcess.StartFailure) -> pid_t in
        try ChildProcess.start(.init(words: words), output: output)
      }
    } catch {
      return Answer(status: error.isShortage ? nil : 1, text: error.description)
    }
    let course = Guarded((isOver: false, isLate: false))
    DispatchQueue.global().asyncAfter(deadline: .now() + patience.inSeconds) {
      course.withLock { course in
        guard !course.isOver else { return }
        course.isLate = true
        ProcessGroup.signal(process, SIGKILL)
      }
    }
    let exit = ChildReaper.shared.waitForExit(of: process)
    let isLate = course.withLock { course in
      course.isOver = true
      return course.isLate
    }
    lseek(output, 0, SEEK_SET)
    let text = String(decoding: RawFile.contents(of: output) ?? [], as: UTF8.self)
    switch exit {
    case .status(let status) where !isLate: return Answer(status: status, text: text)
    default: return Answer(status: nil, text: text)
    }
  }
}
