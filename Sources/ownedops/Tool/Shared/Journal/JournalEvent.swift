import Foundation

/// The journal of a run: a file that gets one line of JSON for each event.
///
/// Rules of the file:
/// - Line 1 is `journal`: format version, hash of the graph, numbers of owners and jobs.
/// - Then an `owner` line for each owner and a `job` line for each job, in the order of the graph.
/// - These lines come into being at once: they are written elsewhere and given the journal's name.
/// - All other lines are events, each with its `time`, in seconds since 1970.
/// - A line is one `write(2)` in append mode. Who wrote it goes on when that has returned.
/// - Nothing is ever changed but by cutting off a last line that has no end.
/// - A `job` line that comes again replaces the job's definition, and forgets what became of it.
/// - Unknown keys and events are passed over. What is changed in meaning gets another version.
///
/// Rules of a job, by its last line:
/// - nothing, `job`, `again`: waits.
/// - `submitted`: is to be started; the line is there before it is. The runner writes it.
/// - `started`: a process of it has been there. The keeper writes it.
/// - `exited`: with exit status or signal, written before its process is waited for. The keeper writes it.
/// - `succeeded`, `failed`, `cancelled`: what the runner made of it, all attempts taken together.
/// - An `exited` with status 0 and without `stopped` counts as `succeeded` where the runner came to write nothing.
///
/// Rules of a run:
/// - It begins with `run`, before anything of it is submitted.
/// - `kept` is the keeper's last line: whatever was submitted and not started by then never will be.
/// - `ended` is the runner's last line.
/// - A run without `kept` whose keeper is gone leaves in doubt what was submitted or started and has not exited.
enum JournalEvent: Equatable, Sendable {
  case run(JournalRun)
  case submitted(job: String, attempt: Int)
  case started(job: String, attempt: Int, process: pid_t)
  case exited(job: String, attempt: Int, JournalExit)
  case succeeded(job: String, attempts: Int)
  case failed(job: String, attempts: Int, reason: String, output: String)
  case cancelled(job: String, reason: String)
  /// It is to run though it may have run before.
  case again(job: String, reason: String)
  case kept(run: String)
  case ended(run: String)

  static let version = 1

  func line(at time: Double = WallClock.now) -> [UInt8] {
    var line: JournalLine
    func begin(_ event: String, _ job: String, attempt: Int? = nil) -> JournalLine {
      var line = JournalLine(event)
      line.add("job", job)
      if let attempt { line.add("attempt", attempt) }
      return line
    }
    switch self {
    case .run(let run):
      line = JournalLine("run")
      run.add(to: &line)
    case .submitted(let job, let attempt): line = begin("submitted", job, attempt: attempt)
    case .started(let job, let attempt, let process):
      line = begin("started", job, attempt: attempt)
      line.add("process", Int(process))
    case .exited(let job, let attempt, let exit):
      line = begin("exited", job, attempt: attempt)
      exit.add(to: &line)
    case .succeeded(let job, let attempts): line = begin("succeeded", job, attempt: attempts)
    case .failed(let job, let attempts, let reason, let output):
      line = begin("failed", job, attempt: attempts)
      line.add("reason", reason)
      line.add("output", endOf: output)
    case .cancelled(let job, let reason):
      line = begin("cancelled", job)
      line.add("reason", reason)
    case .again(let job, let reason):
      line = begin("again", job)
      line.add("reason", reason)
    case .kept(let run):
      line = JournalLine("kept")
      line.add("run", run)
    case .ended(let run):
      line = JournalLine("ended")
      line.add("run", run)
    }
    line.add("time", time: time)
    return line.bytes
  }

  /// Nil for what is no event, or none that is known.
  init?(_ line: JSONValue) {
    guard let event = line["event"]?.asText else { return nil }
    let reason = line["reason"]?.asText ?? ""
    let attempt = line["attempt"]?.asInteger ?? 1
    switch event {
    case "run":
      guard let run = JournalRun(line) else { return nil }
      self = .run(run)
      return
    case "kept", "ended":
      guard let run = line["run"]?.asText else { return nil }
      self = event == "kept" ? .kept(run: run) : .ended(run: run)
      return
    default: break
    }
    guard let job = line["job"]?.asText else { return nil }
    switch event {
    case "submitted": self = .submitted(job: job, attempt: attempt)
    case "started":
      self = .started(job: job, attempt: attempt, process: pid_t(truncatingIfNeeded: line["process"]?.asInteger ?? 0))
    case "exited":
      guard let exit = JournalExit(line) else { return nil }
      self = .exited(job: job, attempt: attempt, exit)
    case "succeeded": self = .succeeded(job: job, attempts: attempt)
    case "failed": self = .failed(job: job, attempts: attempt, reason: reason, output: line["output"]?.asText ?? "")
    case "cancelled": self = .cancelled(job: job, reason: reason)
    case "again": self = .again(job: job, reason: reason)
    default: return nil
    }
  }
}

/// How an attempt has ended.
struct JournalExit: Equatable, Sendable {
  var exit: ChildReaper.Exit
  /// It had been asked to end.
  var wasStopped = false
  /// Why, if the keeper did so by itself.
  var reason: String?
  /// The end of what it put out, if no runner was there to read it.
  var output: String?

  /// Whether this is success where no runner says otherwise.
  var isSuccess: Bool { exit == .status(0) && !wasStopped }

  init(_ exit: ChildReaper.Exit, wasStopped: Bool = false, reason: String? = nil, output: String? = nil) {
    self.exit = exit
    self.wasStopped = wasStopped
    self.reason = reason
    self.output = output
  }

  fileprivate init?(_ line: JSONValue) {
    if let status = line["status"]?.asInteger {
      exit = .status(Int32(truncatingIfNeeded: status))
    } else if let signal = line["signal"]?.asInteger {
      exit = .signal(Int32(truncatingIfNeeded: signal))
    } else {
      return nil
    }
    wasStopped = line["stopped"]?.asBool ?? false
    reason = line["reason"]?.asText
    output = line["output"]?.asText
  }

  fileprivate func add(to line: inout JournalLine) {
    switch exit {
    case .status(let status): line.add("status", Int(status))
    case .signal(let signal): line.add("signal", Int(signal))
    }
    if wasStopped { line.add("stopped", true) }
    if let reason { line.add("reason", reason) }
    if let output { line.add("output", endOf: output) }
  }
}

/// One time that a runner worked on the journal.
struct JournalRun: Equatable, Sendable {
  /// Tells it from all others; all that it starts bears it in its environment.
  let identifier: String
  let runner: MachineProcess
  /// Nil where jobs have no keeper of this kind.
  let keeper: MachineProcess?
  /// From SIGTERM to SIGKILL.
  let grace: Duration
  let keepsOrphans: Bool
  /// Where its jobs run; nil: on the runner's machine.
  var engine: String?

  init(identifier: String, runner: MachineProcess, keeper: MachineProcess?, grace: Duration, keepsOrphans: Bool) {
    self.identifier = identifier
    self.runner = runner
    self.keeper = keeper
    self.grace = grace
    self.keepsOrphans = keepsOrphans
  }

  fileprivate init?(_ line: JSONValue) {
    guard let identifier = line["run"]?.asText, let runner = MachineProcess(line, prefix: "") else { return nil }
    self.identifier = identifier
    self.runner = runner
    keeper = MachineProcess(line, prefix: "keeper")
    grace = .milliseconds(line["grace"]?.asInteger ?? 5000)
    keepsOrphans = line["keepsOrphans"]?.asBool ?? false
    engine = line["engine"]?.asText
  }

  fileprivate func add(to line: inout JournalLine) {
    line.add("run", identifier)
    runner.add(to: &line, prefix: "")
    keeper?.add(to: &line, prefix: "keeper")
    line.add("grace", Int(min(grace.inSeconds, 1e9) * 1000))
    if keepsOrphans { line.add("keepsOrphans", true) }
    if let engine { line.add("engine", engine) }
  }
}
