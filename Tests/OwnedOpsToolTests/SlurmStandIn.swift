import Foundation
import Testing

@testable import OwnedOpsTool

/// Answers as Slurm's programs do, for what a real cluster can't be made to say. Runs nothing.
final class SlurmStandIn: Sendable {
  typealias Answer = SlurmPrograms.Answer

  private struct Submitted {
    let identifier: Int
    let submission: Int
    let count: Int
    let comment: String
  }

  private struct State {
    var submitted: [Submitted] = []
    var calls: [[String]] = []
    var cancelled: Set<String> = []
  }

  private let state = Guarded(State())
  private let files: SlurmFiles
  private let answer: @Sendable (_ words: [String]) -> Answer?
  private let submit: @Sendable (_ jobs: [String], _ words: [String]) -> Answer?
  private let stateOf: @Sendable (_ job: String, _ submission: Int) -> String?
  private let polled: @Sendable () -> Void
  private let showsComments: Bool

  /// - Parameters:
  ///   - answer: what a program says, if it has no effect at all.
  ///   - submit: what `sbatch` says, if not that all is well.
  ///   - stateOf: what `squeue` says of a job, nil for nothing; with `COMPLETED` there is a status, too.
  ///   - polled: called by `squeue` when it knows what it will say, and has not said it.
  ///   - showsComments: as they were given; or there are others in their places.
  init(
    _ files: SlurmFiles, answer: @escaping @Sendable (_ words: [String]) -> Answer? = { _ in nil },
    submit: @escaping @Sendable (_ jobs: [String], _ words: [String]) -> Answer? = { _, _ in nil },
    polled: @escaping @Sendable () -> Void = {}, showsComments: Bool = true,
    stateOf: @escaping @Sendable (_ job: String, _ submission: Int) -> String?
  ) {
    self.files = files
    self.showsComments = showsComments
    self.answer = answer
    self.submit = submit
    self.polled = polled
    self.stateOf = stateOf
  }

  func calls(of program: String) -> [[String]] { state.withLock { $0.calls.filter { $0.first == program } } }

  /// Has it from an earlier runner.
  func has(_ submission: SlurmFiles.Submission) {
    guard let identifier = submission.identifier.flatMap({ Int($0) }) else { return }
    state.withLock {
      $0.submitted.append(
        Submitted(identifier: identifier, submission: submission.number, count: submission.jobs.count, comment: submission.comment))
    }
  }

  func call(_ words: [String]) -> Answer {
    state.withLock { $0.calls.append(words) }
    if let answer = answer(words) { return answer }
    switch words.first {
    case "sbatch": return add(words)
    case "squeue":
      let text = rows
      polled()
      return Answer(status: 0, text: text)
    default:
      state.withLock { $0.cancelled.formUnion(words) }
      return Answer(status: 0, text: "")
    }
  }

  private func add(_ words: [String]) -> Answer {
    func value(of option: String) -> Substring? { words.first { $0.hasPrefix(option) }?.dropFirst(option.count) }
    let last = value(of: "--array=0-").flatMap { Int($0) } ?? 0
    guard let submission = words.compactMap({ Int($0) }).last else { return Answer(status: 1, text: "sbatch: error: no submission") }
    let jobs = (0...last).compactMap { SlurmTask(files, submission, $0)?.job }
    if let answer = submit(jobs, words) { return answer }
    let comment = String(value(of: "--comment=") ?? "")
    let identifier = state.withLock { state in
      let identifier = 100 + state.submitted.count
      state.submitted.append(Submitted(identifier: identifier, submission: submission, count: last + 1, comment: comment))
      return identifier
    }
    return Answer(status: 0, text: "\(identifier)\n")
  }

  private var rows: String {
    var text = ""
    let (submitted, cancelled) = state.withLock { ($0.submitted, $0.cancelled) }
    for job in submitted {
      for index in 0..<job.count {
        guard let task = SlurmTask(files, job.submission, index), var said = stateOf(task.job, job.submission) else { continue }
        let identifier = "\(job.identifier)\(job.count > 1 ? "_\(index)" : "")"
        if cancelled.contains(identifier) { said = "CANCELLED" }
        // Once: a wrapper writes it once, and the runner may be about to read it.
        if said == "COMPLETED", SlurmStatus(path: files.status(job.submission, index)) == nil {
          Self.end(job.submission, index, files, exit: #""exitStatus":0"#)
        }
        text += "\(identifier)|\(said)|\(showsComments ? job.comment : "project x")|n1|None\n"
      }
    }
    return text
  }

  /// Writes what a wrapper would.
  static func end(_ submission: Int, _ index: Int, _ files: SlurmFiles, result: String = "succeeded", exit: String) {
    let document =
      "{\"jobs\":[{\"name\":\"x\",\"result\":\"\(result)\",\"attempts\":[{\"begin\":1000,\"end\":1002.5,\(exit)}]}]}\n"
    try? SlurmFiles.write(Array(document.utf8) + SlurmStatus.line("ended"), to: files.status(submission, index))
  }
}

/// Slurm's programs as scripts: they take one job, which somebody holds until it is cancelled, as `cancelled` says.
struct SlurmScripts {
  let environment: [String: String]

  /// - Parameter looking: what `squeue` does when it has told how things are.
  init(in directory: TemporaryDirectory, looking: String = "true") throws {
    // What others look at is there whole or not at all.
    let place = "> $$.new; mv $$.new"
    for (name, body) in [
      ("scontrol", "echo MaxArraySize = 1"), ("scancel", "echo \"$@\" \(place) cancelled"),
      ("sbatch", "for word; do case $word in --comment=*) echo \"7 ${word#--comment=}\" \(place) jobs ;; esac; done; echo 7"),
      (
        "squeue",
        """
        [ -e jobs ] || exit 0; read -r id comment < jobs
        if [ -e cancelled ]; then echo "$id|CANCELLED|$comment||None"; else echo "$id|PENDING|$comment||JobHeldUser"; fi
        \(looking)
        """
      ),
    ] {
      try directory.write("bin/\(name)", "#!/bin/sh\ncd \(directory.path)\n\(body)\n")
      guard chmod(directory.path + "/bin/\(name)", 0o755) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }
    environment = ["PATH": "\(directory.path)/bin:\(ProcessInfo.processInfo.environment["PATH"] ?? "")"]
  }
}

/// A run of which Slurm says what a test wants it to.
struct SlurmTrial {
  let file: RunFile
  let files: SlurmFiles
  let journal: String

  init(_ graph: String, in directory: TemporaryDirectory) throws {
    try self.init(RunFile(Data(graph.utf8), source: "graph"), in: directory)
  }

  init(_ file: RunFile, in directory: TemporaryDirectory) throws {
    self.file = file
    journal = directory.path + "/j"
    files = SlurmFiles(root: SlurmFiles.root(of: journal))
    try files.create()
  }

  /// Leaves behind what a runner does that is killed when Slurm has its jobs, each a submission of its own.
  /// - Returns: the submissions, in the order of the jobs.
  func die(after jobs: [String]) throws -> [SlurmFiles.Submission] {
    let hold = try RunJournal(JournalOptions(path: journal), file, engine: SlurmCommand.engine)
    try hold.begin(keeper: nil, grace: .seconds(1), keepsOrphans: false, engine: SlurmCommand.engine) {}
    defer { hold.abandon() }
    return try jobs.enumerated().map { number, job in
      var submission = SlurmFiles.Submission(number: number, mark: hold.mark.text, jobs: [job])
      try files.makeRoom(for: number)
      try SlurmFiles.write(SlurmTrial.task(job, of: hold.mark.text, files).line, to: files.tasks(number))
      try files.note(submission, attempts: [1])
      #expect(hold.submit(job, attempt: 1) == nil)
      submission.identifier = "\(50 + number)"
      try files.note(number, identifier: "\(50 + number)")
      return submission
    }
  }

  /// Slurm, where `squeue` is at work when `sbatch` is called for the job `next`, and says what it saw before.
  /// - Parameter answer: of that call; nil: that all is well.
  func standInWhereNextIsSubmittedWhileAsked(
    answer: SlurmPrograms.Answer? = nil, stateOf: @escaping @Sendable (_ job: String, _ submission: Int) -> String?
  ) -> SlurmStandIn {
    let files = files
    let (hasLooked, hasAnswered) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let polls = Guarded(0)
    return SlurmStandIn(
      files,
      submit: { jobs, _ in
        guard jobs == ["next"] else { return nil }
        hasLooked.wait()
        if answer != nil { hasAnswered.signal() }
        return answer
      },
      polled: {
        let isFirst = polls.withLock { polls in
          polls += 1
          return polls == 1
        }
        guard isFirst else { return }
        hasLooked.signal()
        if answer != nil { return hasAnswered.wait() }
        // The runner writes it down when it has heard of it.
        while !files.readSubmissions().values.contains(where: { $0.jobs == ["next"] && $0.identifier != nil }) { usleep(1000) }
      }, stateOf: stateOf)
  }

  static func task(_ job: String, of run: String, _ files: SlurmFiles, _ command: [String] = ["x"]) -> SlurmTask {
    SlurmTask(
      run: run, job: job, workingDirectory: "/", command: command, directory: nil, environment: [:], timeout: nil, retries: 0,
      grace: .seconds(1), logDirectory: files.root, ends: [])
  }

  /// How a runner comes to a journal.
  enum Beginning {
    case new, resume, attach
  }

  /// - Parameter births: of processes that owners end with, as an earlier runner knew them.
  /// - Returns: what the journal says afterwards.
  func run(
    _ slurm: SlurmStandIn, _ beginning: Beginning = .new, patience: Duration = .zero, limits: String = "MaxArraySize = 1001",
    mostInScancel: Int? = nil, births: [String: String] = [:], prepare: (RunJournal) throws -> Void = { _ in }
  ) throws -> Journal {
    var how = JournalOptions(path: journal)
    how.resumes = beginning != .new
    how.attaches = beginning == .attach
    let hold = try RunJournal(how, file, engine: SlurmCommand.engine)
    let known = try JournalReader.read(journal)
    var past = SlurmSession.Past(file, files, known, of: beginning == .attach ? known.runs.first?.run.identifier : nil)
    past.births = births
    try hold.begin(keeper: nil, grace: .seconds(1), keepsOrphans: false, engine: SlurmCommand.engine) {}
    try prepare(hold)
    var options = RunOptions()
    options.keepsGoing = true
    options.isQuiet = true
    var limits = SlurmLimits(limits)
    limits.mostInScancel = mostInScancel ?? limits.mostInScancel
    let session = SlurmSession(
      file, options, SlurmOptions(), limits: limits, files: files, journal: hold, results: nil, begin: WallClock.now, past: past,
      patience: patience, call: { slurm.call($0) })
    // A test that waits for what does not come fails.
    let mailbox = session.mailbox
    let impatience = DispatchWorkItem { mailbox.post(.interrupted(2)) }
    DispatchQueue.global().asyncAfter(deadline: .now() + 120, execute: impatience)
    _ = session.run()
    impatience.cancel()
    _ = hold.end(unwritten: [])
    _ = session.finishPrinting(with: "")
    return try JournalReader.read(journal)
  }
}
