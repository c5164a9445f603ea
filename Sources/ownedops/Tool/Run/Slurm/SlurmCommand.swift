import Foundation
import OwnedOperations

/// `ownedops run --engine slurm`, from the options to the exit status.
enum SlurmCommand {
  static let engine = "slurm"

  static func run(_ options: RunOptions, _ slurm: SlurmOptions) throws(UsageError) -> Int32 {
    var options = options
    let document = try RunFile.document(at: options.file)
    let whole = try RunFile(document, source: options.file == "-" ? "standard input" : options.file)
    if slurm.detaches { try checkDetaching(whole) }
    try SlurmPrograms.check()
    try DescriptorBudget.check()
    let limits = try limits()
    if let directory = options.logDirectory { options.logDirectory = AbsolutePath.of(directory) }
    // Without a name of its own the journal lasts as long as the run.
    let isPassing = options.journal == nil
    var journal = options.journal ?? JournalOptions(path: "ownedops-\(RunMark().text).journal")
    journal.path = AbsolutePath.of(journal.path)
    let inputs = (options.file == "-" ? [] : [options.file]) + journal.files
    let pictures = try PictureFiles(options.pictures, apartFrom: inputs)
    let results = try options.results.map { path throws(UsageError) in try JobResults(path: path, apartFrom: inputs + pictures.paths) }
    if let directory = options.logDirectory {
      let logs = try JobLogs(directory: directory)
      try logs.check(whole, apartFrom: inputs + pictures.paths + [options.results].compactMap { $0 })
    }
    let selection = try options.targets.isEmpty ? nil : whole.selection(for: options.targets)
    let files = SlurmFiles(root: SlurmFiles.root(of: journal.path))
    let path = journal.path
    let hold = try RunJournal(
      journal, whole, selection: selection, engine: engine,
      check: { known throws(UsageError) in
        // The journal forgets what is under way of a job that has changed.
        guard !SlurmSession.Past(whole, files, known).underWay.isEmpty, RawFile.contents(of: files.graph) != document else { return }
        throw UsageError(
          "--resume: jobs of \(path) are with Slurm as another file had them; first see them end with ownedops attach \(path)")
      })
    do throws(UsageError) {
      let settings = SlurmSettings(options, slurm, run: hold.mark.text, owners: whole.owners)
      let file = selection.map { selection in whole.keeping { selection[$0] } } ?? whole
      let past = SlurmSession.Past(file, files, try JournalReader.read(journal.path))
      try files.create()
      try SlurmFiles.write(document, to: files.graph)
      try SlurmFiles.write(settings.bytes, to: files.settings)
      let session = SlurmSession(
        file, options, slurm, limits: limits, files: files, journal: hold, results: results, begin: settings.begin, past: past)
      let status = try run(session, hold, pictures)
      if isPassing, session.allIsKnown, hold.failure == nil { remove(journal.path, files) }
      return status
    } catch {
      hold.abandon()
      if isPassing { remove(journal.path, files) }
      throw error
    }
  }

  private static func remove(_ journal: String, _ files: SlurmFiles) {
    try? FileManager.default.removeItem(atPath: files.root)
    unlink(journal)
  }

  /// Who leaves can't see a process exit, or a file go.
  static func checkDetaching(_ file: RunFile) throws(UsageError) {
    for owner in file.owners {
      switch owner.end {
      case .process?, .fileRemoved?:
        throw UsageError(
          "--detach: owner \"\(owner.name)\" ends with a process or a file, which nobody would look at; only \"endsWhen\" \"after\" goes with it"
        )
      case .after?, nil: break
      }
    }
  }

  /// The cluster's limits. Before there are any jobs, makes sure that the cluster can be asked what has become of them.
  static func limits() throws(UsageError) -> SlurmLimits {
    let limits = SlurmLimits(try answer(to: ["scontrol", "show", "config"]))
    _ = try answer(to: SlurmRow.words)
    return limits
  }

  /// Waits for a controller that is away; what is wrong with Slurm itself is an error.
  private static func answer(to words: [String]) throws(UsageError) -> String {
    var hasSaid = false
    while true {
      let answer = SlurmPrograms.run(words)
      if answer.isGood { return answer.text }
      guard answer.isPassing else { throw UsageError("--engine slurm: \(words[0]): \(answer.message)") }
      if !hasSaid { Console.shared.note("ownedops: Slurm does not answer (\(answer.message)); waiting for it") }
      hasSaid = true
      usleep(2_000_000)
    }
  }

  static func run(_ session: SlurmSession, _ journal: RunJournal, _ pictures: PictureFiles) throws(UsageError) -> Int32 {
    let (options, mailbox, printer) = (session.options, session.mailbox, session.printer)
    try journal.begin(keeper: nil, grace: options.grace, keepsOrphans: false, engine: engine) { mailbox.post(.leaseLost) }
    for note in journal.notes { Console.shared.note("ownedops: \(note)") }
    let interruption = Interruption { _, count in
      // Before the interruption, which may be the end: what has been said by then is written.
      if count == 1 { Console.shared.noteLater("ownedops: interrupted: cancelling all that is with Slurm; once more does not wait for it") }
      // Perhaps all is over but for a reader who doesn't read.
      if count > 1 { printer.giveUp(after: .milliseconds(500)) }
      mailbox.post(.interrupted(count))
    }
    defer { Console.shared.finishNotes() }
    let progress = RunCommand.progress(of: session.counter, options)
    var summary = session.run()
    progress?.stop()
    if session.hasLostLease {
      journal.abandon()
      return ExitStatus.failure
    }
    if session.leaves { return leave(session, journal, interruption) }
    if session.allIsKnown {
      summary.journalIsComplete = journal.end(unwritten: [])
    } else {
      // To be attached to.
      journal.abandon()
    }
    let hasResults = session.writeResults(summary)
    let hasPictures = draw(pictures, journal.path, since: session.begin)
    session.sayWhatIsLeft()
    guard session.finishPrinting(with: summary.line) else { _exit(interruption.exitStatus ?? ExitStatus.failure) }
    if let status = interruption.exitStatus { return status }
    return summary.isSuccess && hasResults && hasPictures ? ExitStatus.success : ExitStatus.failure
  }

  /// From what is written down, also by earlier runners of the run.
  private static func draw(_ pictures: PictureFiles, _ journal: String, since begin: Double) -> Bool {
    guard let recorder = pictures.recorder else { return true }
    do throws(UsageError) {
      recorder.replace(with: JournalPicture.record(of: try JournalReader.read(journal), since: begin))
    } catch {
      Console.shared.note("ownedops: can't draw what ran when: \(error)")
      return false
    }
    return pictures.write()
  }

  private static func leave(_ session: SlurmSession, _ journal: RunJournal, _ interruption: Interruption) -> Int32 {
    let failure = journal.failure
    journal.abandon()
    let (unsubmitted, submitted) = session.left
    var line = "\(Shown.count(submitted, "job")) with Slurm"
    if unsubmitted > 0 { line += ", \(Shown.count(unsubmitted)) not submitted: they wait for ownedops attach" }
    line += "\ngo on with: ownedops attach \(ShellText.quoted(journal.path))\n"
    guard session.finishPrinting(with: line) else { _exit(interruption.exitStatus ?? ExitStatus.failure) }
    return failure == nil ? ExitStatus.success : ExitStatus.failure
  }
}

extension SlurmSession {
  /// All is known, and nothing is with Slurm.
  var allIsKnown: Bool { allHaveEnded && leftovers.isEmpty && doubtful.isEmpty }

  /// For who did not wait.
  func sayWhatIsLeft() {
    let names = active.compactMap { identifier(of: $0) } + leftovers
    guard !names.isEmpty else { return }
    Console.shared.note("ownedops: Slurm has not said that these have ended: \(Resumption.list(names.sorted()))")
  }
}

extension SlurmSession.Past {
  /// - Parameter run: the identifier of its first runner, for who goes on with it. What has ended since then, and not well, is left alone.
  init(_ file: RunFile, _ files: SlurmFiles, _ journal: Journal, of run: String? = nil) {
    let all = files.readSubmissions()
    nextSubmission = all.values.map(\.next).max() ?? 0
    // By the order of the lines: clocks of nodes and of runners differ, and are set.
    let first = run.map { run in journal.runs.firstIndex { $0.run.identifier == run } ?? journal.runs.count }
    if let first {
      isSameRun = true
      runners = journal.runs[first...].map(\.run.identifier)
    }
    var last: [String: (submission: Int, index: Int)] = [:]
    for number in all.keys.sorted() {
      for (index, name) in (all[number]?.jobs ?? []).enumerated() { last[name] = (number, index) }
    }
    for (place, job) in file.jobs.enumerated() {
      guard let known = journal.place(of: job.name).map({ journal.jobs[$0] }), known.run >= 0 else { continue }
      // One that was another engine's, and did not come to begin, has a submission of an earlier time at best.
      if known.isUnderWay, journal.runs[known.run].run.engine == SlurmCommand.engine, let (submission, index) = last[job.name] {
        underWay.append((place, submission, index, known))
        submissions[submission] = all[submission]
      } else if let first, known.run >= first, known.endedAt != nil {
        statuses[place] = last[job.name]
        if known.state == .failed { ends[place] = .failed(known.reason) }
        if known.state == .cancelled { ends[place] = .cancelled(known.reason, hasBegun: known.startedAt != nil) }
      }
    }
  }
}
