import Foundation
import OwnedOperations

struct RunOptions: Sendable {
  var file = ""
  /// Names of jobs; empty: all.
  var targets: [String] = []
  var isDryRun = false
  var isLive = false
  var results: String?
  /// In bytes, for jobs that say what they need.
  var memory = Int(clamping: ProcessInfo.processInfo.physicalMemory)
  var mostLoad: Double?
  /// How often to tell what runs, where there is no terminal.
  var progressInterval = Duration.seconds(30)
  var jobs = max(1, ProcessInfo.processInfo.activeProcessorCount)
  var keepsGoing = false
  var keepsOrphans = false
  var grace = Duration.seconds(5)
  var logDirectory: String?
  var isQuiet = false
  var pictures = PictureOptions()
  var journal: JournalOptions?
  /// Nil: on this machine.
  var slurm: SlurmOptions?
  /// The output of jobs goes to their logs and nowhere else.
  var keepsLogOnly = false

  static let syntax = CommandSyntax(
    name: "run", operands: "FILE [JOB ...]",
    summary: "Runs a graph of commands from a JSON file; - reads standard input. With names of jobs, runs these and what they need.",
    options: [
      .init(names: ["--jobs", "-j"], value: "N", help: "commands at a time (default: as many as there are processors)"),
      .init(names: ["--memory"], value: "SIZE", help: "what jobs with \"memory\" may take together, such as 8G (default: all there is)"),
      .init(names: ["--load", "-l"], value: "N", help: "begin no further command while one runs and the load average is N or more"),
      .init(names: ["--dry-run", "-n"], help: "run nothing; print the commands in an order in which they could run, as a script for sh"),
      .init(names: ["--keep-going", "-k"], help: "after a failure, go on with what does not depend on it"),
      .init(names: ["--grace"], value: "TIME", help: "how long a command has from SIGTERM to SIGKILL (default: 5s)"),
      .init(names: ["--keep-orphans"], help: "leave alone what a command leaves running when it ends by itself"),
      .init(names: ["--log-dir"], value: "DIR", help: "also write the output of each job to a file there, as it comes"),
      .init(names: ["--live"], help: "show output as it comes, each line behind the name of its job"),
      .init(names: ["--results"], value: "FILE", help: "write what has become of every job as JSON; see Documentation/JSON.md"),
      .init(
        names: ["--progress"], value: "TIME",
        help: "how often to tell what runs, where standard error is no terminal (default: 30s); a terminal shows it in one line"),
      .init(names: ["--quiet", "-q"], help: "show only jobs that do not succeed, and no progress"),
    ] + PictureOptions.syntax + JournalOptions.syntax + SlurmOptions.syntax,
    details: """
      The file:
        { "owners": [ { "name": "site", "maxConcurrent": 2 },
                      { "name": "preview", "parent": "site", "endsWhen": { "process": 4242 } } ],
          "jobs": [ { "name": "fetch", "owner": "site", "command": ["cp", "-r", "in", "work"] },
                    { "name": "render", "owner": "preview", "after": ["fetch"], "command": ["sh", "-c", "make html"],
                      "priority": "high", "directory": "work", "environment": { "LANG": "C" }, "timeout": "30s", "retries": 1,
                      "cpus": 2, "memory": "1.5G" },
                    { "name": "tidy", "after": ["render"], "when": "always", "command": ["rm", "-rf", "work"] } ] }

      "endsWhen" is { "process": PID }, { "fileRemoved": PATH } or { "after": TIME }. When an owner ends, its pending jobs are cancelled and its
      running commands get SIGTERM, then SIGKILL. "maxConcurrent" counts the owner's own jobs. A "timeout" is for all attempts of a job
      together. What a command leaves running when it ends gets SIGTERM, then SIGKILL, unless --keep-orphans is given.

      A job with "when": "always" (else "success") runs once what it comes after has ended, however: failed, cancelled, or never begun because
      something else failed. When its own owner ends, or at Ctrl-C, it is cancelled like all others.

      A job takes "cpus" (default: 1) of --jobs, and "memory" (default: nothing) of --memory; one that wants more than there is runs alone.

      Output is shown whole when a job ends, unless --live is given; of one that failed, the command is shown as well, ready to be pasted. A
      job whose output could not be kept (a full disk) has failed. A command's input is /dev/null, and it has no terminal. Fewer than --jobs
      run at a time where the system has no more processes or descriptors to give (ulimit -u, -n).

      Ctrl-C ends all owners and waits for what runs; once more kills it at once.

      With --journal a process of its own starts the commands and writes down how they end, also when this one is killed: they go on then.
      --resume waits for them, and goes on: what has succeeded is not run again unless its command, directory, environment or dependencies
      have changed, or what it depends on runs again. It says so. Only if that other process is killed, too, may a job run twice; it is named
      then. The journal is that of the whole file: with names of jobs, the others wait in it until they are run. --dry-run leaves it alone,
      and prints what is done, too. When the journal can't be written no more jobs are started, and the exit status is 1. See ownedops status --help.

      With --engine slurm jobs run on a cluster: each is submitted with sbatch, as many as --window holds, and dependencies are Slurm's; "cpus",
      "memory", "timeout" and "priority" are passed on, as are "gpus", "partition", "account", "constraint" and "slurm": [OPTION ...] of a
      job. All nodes have to see this program, the working directory, and the journal's with JOURNAL.slurm beside it (without --journal:
      the working directory). When an owner ends, what is Slurm's of it is cancelled. Killed, or left with --detach, what was submitted goes
      on; ownedops attach JOURNAL goes on with the rest. Slurm's failures (a lost node, out of memory) are named; after the loss of a node
      its jobs are submitted again, three times at most, with what comes after them. Pictures and results are as here. What Slurm decides
      (--jobs, --memory, --load, --keep-orphans, --live) is refused, and with --detach so is what is written at the end.

      Exit status: 0 all succeeded; 1 some failed or were cancelled, or output, pictures or the journal could not be written; 2 bad input,
      nothing was run; 129, 130, 131, 143 ended by SIGHUP, SIGINT (Ctrl-C), SIGQUIT or SIGTERM.
      """,
    examples: [
      "ownedops run build.json --jobs 4 --keep-going", "ownedops run build.json test docs --live",
      "ownedops run build.json --journal build.journal --resume",
      "ownedops run build.json --engine slurm --partition all --journal build.journal",
      "generate-jobs | ownedops run - --log-dir logs --results results.json",
    ], completion: .files)

  /// For a part of a graph, on a node of a cluster.
  init() {}

  init(_ arguments: Arguments) throws(UsageError) {
    guard let first = arguments.operands.first else { throw Arguments.missingFile(of: "run") }
    file = String(decoding: first, as: UTF8.self)
    targets = arguments.operands.dropFirst().map { String(decoding: $0, as: UTF8.self) }
    isDryRun = arguments.has("--dry-run")
    isLive = arguments.has("--live")
    results = arguments.text("--results")
    memory = try arguments.size("--memory") ?? memory
    if let text = arguments.text("--load") {
      guard let load = Double(text), load > 0, load.isFinite else { throw UsageError("--load: \"\(text)\" is not a number above 0") }
      mostLoad = load
    }
    progressInterval = try arguments.duration("--progress") ?? progressInterval
    guard progressInterval > .zero else { throw UsageError("--progress: it must be longer than nothing") }
    jobs = try arguments.positiveInteger("--jobs") ?? jobs
    keepsGoing = arguments.has("--keep-going")
    keepsOrphans = arguments.has("--keep-orphans")
    grace = try arguments.duration("--grace") ?? grace
    logDirectory = arguments.text("--log-dir")
    isQuiet = arguments.has("--quiet")
    pictures = PictureOptions(arguments)
    journal = try JournalOptions(arguments)
    slurm = try SlurmOptions(arguments)
  }
}

enum RunCommand {
  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let options = try RunOptions(arguments)
    if let slurm = options.slurm, !options.isDryRun { return try SlurmCommand.run(options, slurm) }
    let whole = try RunFile(path: options.file)
    let selection = try options.targets.isEmpty ? nil : whole.selection(for: options.targets)
    let file = selection.map { selection in whole.keeping { selection[$0] } } ?? whole
    guard !options.isDryRun else {
      Console.shared.write(file.script)
      return ExitStatus.success
    }
    let inputs = (options.file == "-" ? [] : [options.file]) + (options.journal?.files ?? [])
    let pictures = try PictureFiles(options.pictures, apartFrom: inputs)
    var results: JobResults?
    if let path = options.results { results = try JobResults(path: path, apartFrom: inputs + pictures.paths) }
    if let directory = options.logDirectory {
      try JobLogs(directory: directory).check(file, apartFrom: inputs + pictures.paths + [options.results].compactMap { $0 })
    }
    try DescriptorBudget.check()
    try ThreadProbe.check()
    let journal: RunJournal? = if let options = options.journal { try RunJournal(options, whole, selection: selection) } else { nil }
    for note in journal?.notes ?? [] { Console.shared.note("ownedops: \(note)") }
    let session = try RunSession(file, options, recorder: pictures.recorder, journal: journal, results: results)
    let interruption = Interruption { _, count in
      // The note comes first, since it says what still runs, and since the interruption may be the end: what has been said by then is
      // written. It isn't written on this thread: whoever reads it may be slow.
      if count == 1 { Console.shared.noteLater("ownedops: \(session.interruptionNote)") }
      DispatchQueue.global(qos: .userInitiated).async { session.interrupt(count) }
    }
    defer { Console.shared.finishNotes() }
    let progress = progress(of: session.counter, options)
    let summary = session.run()
    progress?.stop()
    let hasResults = session.writeResults(summary)
    let hasPictures = pictures.write() && hasResults
    guard session.finishPrinting(with: summary.line) else {
      // The printing thread is in the midst of a write that may never end.
      _exit(interruption.exitStatus ?? ExitStatus.failure)
    }
    if let status = interruption.exitStatus { return status }
    return summary.isSuccess && hasPictures ? ExitStatus.success : ExitStatus.failure
  }

  static func progress(of counter: RunCounter, _ options: RunOptions) -> ProgressLine? {
    let console = Console.shared
    guard !options.isQuiet else { return nil }
    if console.errorIsTerminal { return ProgressLine { counter.progress.line(width: Console.columns(of: 2)) } }
    let interval = DispatchTimeInterval.milliseconds(Int(options.progressInterval.inSeconds * 1000) + 1)
    return ProgressLine(every: interval) { console.note(counter.progress.line(width: 140)) }
  }
}
