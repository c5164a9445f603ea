/// What is said of jobs that have ended, wherever they ran.
enum RunReport {
  static func line(_ name: String, _ result: JobOperation.Result, _ seconds: Double?) -> String {
    let console = Console.shared
    let shown = Array(name.utf8).escapedName
    let time = seconds.map { " (\(Shown.seconds($0)))" } ?? ""
    return switch result {
    case .succeeded: "\(console.coloured("succeeded", "32")) \(shown)\(time)\n"
    case .failed(let reason): "\(console.coloured("failed", "31")) \(shown): \(reason.controlsEscaped)\(time)\n"
    case .cancelled(let reason): "\(console.coloured("cancelled", "33")) \(shown): \(reason.controlsEscaped)\(time)\n"
    }
  }

  static func result(_ end: JobSchedule.End?, of file: RunFile) -> JobOperation.Result {
    switch end {
    case .succeeded: .succeeded
    case .failed(let reason): .failed(reason)
    case .cancelled(let reason, _): .cancelled(reason)
    case .blocked(let other): .cancelled("\(file.jobs[other].name) did not succeed")
    // All have ended when this is asked.
    case nil: .cancelled("it has not ended")
    }
  }

  /// For `--results`.
  static func record(
    of place: Int, in file: RunFile, _ result: JobOperation.Result, succeededBefore: Bool, _ attempts: [JobResults.Attempt]
  ) -> JobResults.Job {
    let (outcome, reason): (String, String?) =
      switch result {
      case .succeeded: ("succeeded", nil)
      case .failed(let reason): ("failed", reason)
      case .cancelled(let reason): ("cancelled", reason)
      }
    let job = file.jobs[place]
    let seconds = attempts.first.flatMap { first in attempts.last.map { $0.end - first.begin } }
    return JobResults.Job(
      name: job.name, owner: job.owner.map { file.owners[$0].name }, command: job.command.words, directory: job.command.directory,
      result: outcome, reason: reason, succeededBefore: succeededBefore ? true : nil, seconds: seconds, attempts: attempts)
  }

  private static let mostCancelledShown = 50

  /// - Parameters:
  ///   - ends: by place.
  ///   - before: how many had succeeded in an earlier run.
  ///   - neverBegun: told of each job that was cancelled before it began, and why.
  /// - Returns: the counts, and a line for each of these jobs, as far as they are not too many.
  static func summary(
    _ ends: [JobSchedule.End?], of file: RunFile, before: Int, neverBegun: (_ place: Int, _ reason: String) -> Void
  ) -> (summary: RunSummary, text: String) {
    var summary = RunSummary()
    summary.before = before
    var text = ""
    for (place, end) in ends.enumerated() {
      let job = file.jobs[place]
      switch result(end, of: file) {
      case .succeeded: summary.succeeded += 1
      case .failed: summary.failed.append(job.name)
      case .cancelled(let reason):
        summary.cancelled += 1
        // What had begun has been shown.
        if case .cancelled(_, hasBegun: true)? = end { continue }
        neverBegun(place, reason)
        summary.neverBegun += 1
        if summary.neverBegun <= mostCancelledShown { text += line(job.name, .cancelled(reason), nil) }
      }
    }
    if summary.neverBegun > mostCancelledShown { text += "and \(Shown.count(summary.neverBegun - mostCancelledShown)) more cancelled\n" }
    return (summary, text)
  }
}

struct RunSummary: Sendable {
  var succeeded = 0
  /// How many of these the journal knew of.
  var before = 0
  var failed: [String] = []
  var cancelled = 0
  var neverBegun = 0
  var journalIsComplete = true

  var isSuccess: Bool { failed.isEmpty && cancelled == 0 && journalIsComplete }

  var line: String {
    let before = before > 0 ? " (\(Shown.count(before)) before)" : ""
    var line = "\(Shown.count(succeeded)) succeeded\(before), \(Shown.count(failed.count)) failed, \(Shown.count(cancelled)) cancelled"
    if !failed.isEmpty {
      line += "; failed: " + failed.prefix(20).map { Array($0.utf8).escapedName }.joined(separator: ", ")
      if failed.count > 20 { line += " and \(Shown.count(failed.count - 20)) more" }
    }
    return line + "\n"
  }
}
