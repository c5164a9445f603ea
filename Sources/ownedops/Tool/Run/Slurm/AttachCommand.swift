import Foundation
import OwnedOperations

/// `ownedops attach`: goes on with a run on a cluster whose runner has gone.
enum AttachCommand {
  static let syntax = CommandSyntax(
    name: "attach", operands: "JOURNAL",
    summary: "Goes on with a graph of commands on a cluster whose runner was killed, or has left: as if it had never been away.",
    options: [
      .init(names: ["--take-over"], help: "go on with a journal whose runner, on another machine, has been silent for 60 s"),
      .init(names: ["--results"], value: "FILE", help: "write what has become of every job as JSON; see Documentation/JSON.md"),
      .init(names: ["--progress"], value: "TIME", help: "how often to tell what runs, where standard error is no terminal (default: 30s)"),
      .init(names: ["--quiet", "-q"], help: "show only jobs that do not succeed, and no progress"),
    ] + PictureOptions.syntax,
    details: """
      JOURNAL is that of an ownedops run --engine slurm --journal JOURNAL. What it was begun with (the graph, names of jobs, --keep-going,
      --log-dir, --window and what is Slurm's) is read from JOURNAL.slurm. Nothing is run again: what was submitted goes on and is waited
      for, what had not been submitted is, and what has failed stays so; for another try there is run --resume. Owners that had ended have
      ended here, too, and of a run that was interrupted the rest is cancelled. Pictures show the run from its beginning.

      An owner that ends with a process is watched on the machine where the run began, and only there. Exit statuses are those of run.
      """, examples: ["ownedops attach build.journal"], completion: .files)

  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    guard arguments.operands.count == 1 else { throw UsageError("attach: give one JOURNAL; see ownedops attach --help") }
    let path = AbsolutePath.of(String(decoding: arguments.operands[0], as: UTF8.self))
    let files = SlurmFiles(root: SlurmFiles.root(of: path))
    let last = try JournalReader.read(path).runs.last
    guard last?.run.engine == SlurmCommand.engine else {
      throw UsageError("attach: \(path) is no journal of a run on a cluster; see ownedops run --resume")
    }
    guard last?.isEnded != true else { throw UsageError("attach: the run has ended; see ownedops status, or run --resume") }
    let settings = try SlurmSettings(files.settings)
    let document = try RunFile.document(at: files.graph)
    let whole = try RunFile(document, source: files.graph)
    try check(whole, settings)
    SlurmPrograms.use(cluster: settings.cluster)
    try SlurmPrograms.check()
    var options = RunOptions()
    options.targets = settings.targets
    options.keepsGoing = settings.keepsGoing
    options.grace = settings.grace
    options.logDirectory = settings.logDirectory
    options.isQuiet = arguments.has("--quiet")
    options.progressInterval = try arguments.duration("--progress") ?? options.progressInterval
    guard options.progressInterval > .zero else { throw UsageError("--progress: it must be longer than nothing") }
    var slurm = SlurmOptions()
    slurm.partition = settings.partition
    slurm.account = settings.account
    slurm.window = settings.window
    var journal = JournalOptions(path: path)
    journal.resumes = true
    journal.attaches = true
    journal.takesOver = arguments.has("--take-over")
    let pictures = try PictureFiles(PictureOptions(arguments), apartFrom: journal.files)
    let others = journal.files + pictures.paths
    let results = try arguments.text("--results").map { path throws(UsageError) in try JobResults(path: path, apartFrom: others) }
    guard chdir(settings.workingDirectory) == 0 else {
      throw UsageError("attach: can't enter \(settings.workingDirectory), where the run began: \(RawFile.message(errno))")
    }
    let limits = try SlurmCommand.limits()
    let selection = try options.targets.isEmpty ? nil : whole.selection(for: options.targets)
    let hold = try RunJournal(
      journal, whole, selection: selection, engine: SlurmCommand.engine,
      check: { known throws(UsageError) in
        // Read before the journal was this runner's, and before Slurm answered.
        let (begun, graph) = (try SlurmSettings(files.settings), try RunFile.document(at: files.graph))
        guard begun == settings, graph == document, known.runs.last?.isEnded != true else {
          throw UsageError("attach: another runner has gone on with \(path) meanwhile; see ownedops status")
        }
      })
    do throws(UsageError) {
      let file = selection.map { selection in whole.keeping { selection[$0] } } ?? whole
      var past = SlurmSession.Past(file, files, try JournalReader.read(path), of: settings.run)
      past.births = settings.births
      let session = SlurmSession(
        file, options, slurm, limits: limits, files: files, journal: hold, results: results, begin: settings.begin, past: past)
      return try SlurmCommand.run(session, hold, pictures)
    } catch {
      hold.abandon()
      throw error
    }
  }

  /// A number of a process says nothing on another machine.
  private static func check(_ file: RunFile, _ settings: SlurmSettings) throws(UsageError) {
    guard settings.host != MachineProcess.current.host else { return }
    for owner in file.owners {
      guard case .process(let process)? = owner.end else { continue }
      throw UsageError(
        "attach: owner \"\(owner.name)\" ends with process \(process) of \(settings.host), which can't be watched from here; attach there")
    }
  }
}
