import Foundation

/// A journal in words, and in JSON.
struct StatusReport {
  static let mostShown = 20
  /// Of what a job has put out.
  private static let mostLines = 10

  private let journal: Journal
  private let now: Double

  init(_ journal: Journal, now: Double = WallClock.now) {
    self.journal = journal
    self.now = now
  }

  // MARK: Words

  var text: String {
    var text = counts + "\n"
    for line in workers { text += line + "\n" }
    if !journal.tornLines.isEmpty {
      text += "\(Shown.count(journal.tornLines.count, "line")) not whole, passed over\n"
    }
    text += section(isCutOff ? "cut off" : "running", journal.jobs.filter(isRunning)) { job in
      guard let start = job.startedAt else { return isCutOff ? "may not have begun" : "is being started" }
      guard !isCutOff else { return "began \(Shown.seconds(max(0, now - start))) ago, and nobody has seen its end" }
      let process = job.process.map { ", process \($0)" } ?? ""
      return "for \(Shown.seconds(max(0, now - start)))\(process)\(job.attempt > 1 ? ", attempt \(job.attempt)" : "")"
    }
    text += section("with \(engine ?? "")", journal.jobs.filter(isWithEngine)) { job in
      job.submittedAt.map { "for \(Shown.seconds(max(0, now - $0)))" } ?? ""
    }
    text += section("failed", journal.jobs.filter(Self.hasFailed)) { job in
      reason(job)
    } more: { job in
      // By code points: a carriage return and a line feed are one character.
      var lines = job.output.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
      if lines.last?.isEmpty == true { lines.removeLast() }
      return lines.suffix(Self.mostLines).map { line in
        "    " + String(line.last == "\r" ? line.dropLast() : line).controlsEscaped
      }.joined(separator: "\n")
    }
    text += section("cancelled", journal.jobs.filter { $0.state == .cancelled }) { job in reason(job) }
    text += section("waiting", journal.jobs.filter { $0.state == .waiting }) { job in
      let others = waitsFor(job)
      return others.isEmpty ? "for nothing but its turn" : "for \(Resumption.list(others))"
    }
    return text
  }

  /// Where the jobs of the last run are; nil: on a machine.
  private var engine: String? { journal.runs.last?.run.engine }

  /// Nobody has seen it begin yet: it may wait there for a node, or for what it comes after.
  private func isWithEngine(_ job: Journal.Job) -> Bool { engine != nil && job.state == .submitted }

  private func isRunning(_ job: Journal.Job) -> Bool { job.isUnderWay && !isWithEngine(job) }

  private static func hasFailed(_ job: Journal.Job) -> Bool { job.state == .failed || job.state == .exited && !job.hasSucceeded }

  private func reason(_ job: Journal.Job) -> String {
    guard job.reason.isEmpty, let exit = job.exit?.exit else { return job.reason.controlsEscaped }
    switch exit {
    case .status(let status): return "exit status \(status)"
    case .signal(let signal): return "killed by signal \(signal)"
    }
  }

  /// What it depends on and has not succeeded; or not ended, where that is enough.
  private func waitsFor(_ job: Journal.Job) -> [String] {
    job.definition.after.filter { name in
      guard let other = journal.place(of: name).map({ journal.jobs[$0] }) else { return false }
      guard job.definition.runsAlways else { return !other.hasSucceeded }
      return other.state == .waiting || other.isUnderWay
    }
  }

  private var counts: String {
    var parts = ["\(Shown.count(journal.jobs.count { $0.hasSucceeded })) of \(Shown.count(journal.jobs.count, "job")) succeeded"]
    let others: [(String, (Journal.Job) -> Bool)] = [
      (isCutOff ? "cut off" : "running", isRunning), ("with \(engine ?? "")", isWithEngine), ("failed", Self.hasFailed),
      ("cancelled", { $0.state == .cancelled }), ("waiting", { $0.state == .waiting }),
    ]
    for (name, holds) in others {
      let count = journal.jobs.count(where: holds)
      if count > 0 { parts.append("\(Shown.count(count)) \(name)") }
    }
    return parts.joined(separator: ", ")
  }

  /// Runner and keeper have gone: nobody will say what became of the jobs that were under way.
  private var isCutOff: Bool {
    guard let last = journal.runs.last, last.run.engine == nil, !last.isKept else { return false }
    return last.isEnded || presence(last.run.runner) == .gone && last.run.keeper.map { presence($0) == .gone } ?? true
  }

  private enum Presence {
    case atWork, gone, elsewhere
  }

  private func presence(_ process: MachineProcess) -> Presence {
    process.isHere ? process.isRunning ? .atWork : .gone : .elsewhere
  }

  private var workers: [String] {
    guard let last = journal.runs.last else { return ["no runner has been at work"] }
    guard !last.isEnded else {
      return [
        last.isKept || last.run.engine != nil
          ? "the last run has ended" : "the last run has ended without its keeper; run again with --resume"
      ]
    }
    var lines: [String] = []
    let run = last.run
    switch presence(run.runner) {
    case .atWork: lines.append("process \(run.runner.number) is at work")
    case .elsewhere:
      lines.append("process \(run.runner.number) on \(run.runner.host) was last heard of \(Shown.seconds(max(0, now - last.lastTime))) ago")
    case .gone where run.engine != nil:
      lines.append("the runner, process \(run.runner.number), has left; go on with ownedops attach")
    case .gone: lines.append("the runner, process \(run.runner.number), has gone before its end; run again with --resume")
    }
    if let keeper = run.keeper, !last.isKept, presence(run.runner) == .gone {
      lines.append(
        presence(keeper) == .atWork
          ? "its keeper, process \(keeper.number), waits for what runs" : "its keeper, process \(keeper.number), has gone, too")
    }
    return lines
  }

  private func section(
    _ title: String, _ jobs: [Journal.Job], _ what: (Journal.Job) -> String, more: (Journal.Job) -> String = { _ in "" }
  ) -> String {
    guard !jobs.isEmpty else { return "" }
    var text = "\n\(title):\n"
    for job in jobs.prefix(Self.mostShown) {
      let name = Array(job.definition.name.utf8).escapedName
      let what = what(job)
      text += "  \(name)\(what.isEmpty ? "" : ": \(what)")\n"
      let more = more(job)
      if !more.isEmpty { text += more + "\n" }
    }
    if jobs.count > Self.mostShown { text += "  and \(Shown.count(jobs.count - Self.mostShown)) more\n" }
    return text
  }

  // MARK: JSON

  var json: String {
    var counts: [String] = []
    for state in ["waiting", "submitted", "running", "exited", "succeeded", "failed", "cancelled"] {
      counts.append("\"\(state)\":\(journal.jobs.count { $0.state.rawValue == state })")
    }
    var text =
      "{\"version\":1,\"graph\":\(TraceDocument.quoted(journal.graph)),\"counts\":{\(counts.joined(separator: ","))},\n\"runners\":["
    text += journal.runs.map { run in
      var text = "{\"host\":\(TraceDocument.quoted(run.run.runner.host)),\"process\":\(run.run.runner.number)"
      text += ",\"start\":\(Shown.decimal(run.start, 6)),\"ended\":\(run.isEnded)"
      if let keeper = run.run.keeper { text += ",\"keeper\":\(keeper.number)" }
      if run.run.runner.isHere { text += ",\"isRunning\":\(run.run.runner.isRunning)" }
      return text + "}"
    }.joined(separator: ",")
    text += "],\n\"jobs\":[\n"
    text += journal.jobs.map(json).joined(separator: ",\n")
    return text + "\n]}\n"
  }

  private func json(_ job: Journal.Job) -> String {
    var text = "{\"name\":\(TraceDocument.quoted(job.definition.name)),\"state\":\"\(job.state.rawValue)\""
    func add(_ key: String, _ value: String?) { if let value { text += ",\"\(key)\":\(value)" } }
    add("owner", job.definition.owner.map(TraceDocument.quoted))
    add("when", job.definition.runsAlways ? "\"always\"" : nil)
    add("attempt", job.attempt > 0 ? "\(job.attempt)" : nil)
    add("process", job.process.map { "\($0)" })
    switch job.exit?.exit {
    case .status(let status): add("status", "\(status)")
    case .signal(let signal): add("signal", "\(signal)")
    case nil: break
    }
    add("reason", job.reason.isEmpty ? nil : TraceDocument.quoted(job.reason))
    add("output", job.output.isEmpty ? nil : TraceDocument.quoted(job.output))
    add("submitted", job.submittedAt.map { Shown.decimal($0, 6) })
    add("started", job.startedAt.map { Shown.decimal($0, 6) })
    add("ended", job.endedAt.map { Shown.decimal($0, 6) })
    let others = job.state == .waiting ? waitsFor(job) : []
    add("waitsFor", others.isEmpty ? nil : "[\(others.map(TraceDocument.quoted).joined(separator: ","))]")
    return text + "}"
  }
}
