import Foundation

/// What a wrapper has to know of a job.
struct SlurmTask: Equatable, Sendable {
  /// Of the runner that submits it.
  let run: String
  let job: String
  /// Of the runner's; all paths of the job are relative to it.
  let workingDirectory: String
  let command: [String]
  let directory: String?
  let environment: [String: String]
  let timeout: Duration?
  let retries: Int
  let grace: Duration
  /// Where its log is to be.
  let logDirectory: String
  /// It does not begin when one of these has ended.
  let ends: [String]
  /// Nor unless these have succeeded: submission and index, as in the names of their statuses.
  var needs: [String] = []
  /// When its owner ends by the clock, in seconds since 1970.
  var deadline: Double?
  var owner: String?

  var line: [UInt8] {
    var line = JournalLine("task")
    line.add("run", run)
    line.add("job", job)
    line.add("in", workingDirectory)
    line.add("command", list: command)
    if let directory { line.add("directory", directory) }
    if !environment.isEmpty { line.add("environment", map: environment) }
    if let timeout { line.add("timeout", Self.milliseconds(timeout)) }
    line.add("retries", retries)
    line.add("grace", Self.milliseconds(grace))
    line.add("logs", logDirectory)
    line.add("ends", list: ends)
    if !needs.isEmpty { line.add("needs", list: needs) }
    if let deadline { line.add("deadline", time: deadline) }
    if let owner { line.add("owner", owner) }
    return line.bytes
  }

  private static func milliseconds(_ duration: Duration) -> Int { Int((min(duration.inSeconds, 1e12) * 1000).rounded(.up)) }
}

extension SlurmTask {
  init?(_ line: [UInt8]) {
    guard let value = try? JSONParser.parse(line), let run = value["run"]?.asText, let job = value["job"]?.asText,
      let directory = value["in"]?.asText,
      let command = value["command"]?.asTexts, !command.isEmpty, let logs = value["logs"]?.asText, let ends = value["ends"]?.asTexts
    else { return nil }
    self.init(
      run: run, job: job, workingDirectory: directory, command: command, directory: value["directory"]?.asText,
      environment: value["environment"]?.asTextMap ?? [:], timeout: value["timeout"]?.asInteger.map { .milliseconds($0) },
      retries: value["retries"]?.asInteger ?? 0, grace: .milliseconds(value["grace"]?.asInteger ?? 5000), logDirectory: logs, ends: ends,
      needs: value["needs"]?.asTexts ?? [], deadline: value["deadline"]?.asTime, owner: value["owner"]?.asText)
  }

  /// Of a submission, the job with that index.
  init?(_ files: SlurmFiles, _ submission: Int, _ index: Int) {
    let lines = (RawFile.contents(of: files.tasks(submission)) ?? []).split(separator: UInt8(ascii: "\n"))
    guard lines.indices.contains(index) else { return nil }
    self.init(Array(lines[index]))
  }
}

/// What a wrapper has written down of its job.
///
/// While the job runs it is one line, which says so. When it has ended there is the document of `--results` before that line, with this one
/// job.
struct SlurmStatus: Sendable {
  enum Course: Equatable, Sendable {
    case begun
    /// It found that it must not begin: because of this name in `ended`, of ``SlurmStatus/need`` or ``SlurmStatus/time``.
    case refused(String)
    case ended(JobOperation.Result)
  }

  /// Why a job was cancelled whose wrapper got a signal of Slurm's.
  static let bySignal = "interrupted"

  /// In place of a name in `ended`: what it comes after has not succeeded.
  static let need = "need"

  /// In place of a name in `ended`: the time of its owner is over.
  static let time = "time"

  let course: Course
  let host: String
  var attempts: [JobResults.Attempt] = []

  static func line(_ event: String, because name: String? = nil) -> [UInt8] {
    var line = JournalLine(event)
    line.add("host", MachineProcess.current.host)
    if let name { line.add("because", name) }
    return line.bytes
  }

  /// Nil if there is none.
  init?(path: String) {
    guard let bytes = RawFile.contents(of: path) else { return nil }
    self.init(bytes)
  }

  init?(_ bytes: [UInt8]) {
    let newline = UInt8(ascii: "\n")
    guard bytes.last == newline else { return nil }
    let start = bytes.dropLast().lastIndex(of: newline).map { $0 + 1 } ?? 0
    guard let line = try? JSONParser.parse(Array(bytes[start...])), let event = line["event"]?.asText else { return nil }
    host = line["host"]?.asText ?? ""
    switch event {
    case "begun": course = .begun
    case "refused": course = .refused(line["because"]?.asText ?? "")
    default:
      guard let document = try? JSONParser.parse(Array(bytes[..<start])), case .list(let jobs)? = document["jobs"]?.content,
        let job = jobs.first, let result = job["result"]?.asText
      else { return nil }
      let reason = job["reason"]?.asText ?? ""
      course = .ended(result == "succeeded" ? .succeeded : result == "failed" ? .failed(reason) : .cancelled(reason))
      if case .list(let list)? = job["attempts"]?.content { attempts = list.compactMap { JobResults.Attempt($0) } }
    }
  }

  var hasEnded: Bool { if case .ended = course { true } else { false } }
}
