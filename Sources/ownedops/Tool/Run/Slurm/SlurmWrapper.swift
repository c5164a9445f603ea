import Foundation

/// What Slurm starts for a job: this program, in a mode of its own, on a node. It runs the job as the local engine does: arguments as they
/// are, timeout, retries, what the command leaves behind. Then it writes down how it ended.
///
/// Rules:
/// - It touches nothing unless its task is of the run that submitted it.
/// - It says that it has begun, waits for the statuses that it needs, looks what has ended, and only then starts the command.
/// - Whoever writes down an end looks afterwards whether it has begun: one of the two sees the other.
/// - Slurm lifts a dependency on a job that it knows no more, such as a task of an array that was cancelled while it waited. So what has to
///   have succeeded is looked up in its status.
/// - Slurm's SIGTERM ends what runs. Before the command is there, it ends the wrapper.
/// - The last thing it does is to write the status.
/// - Started again, it does nothing if the job had come to its own end, and runs it if Slurm's signal had ended it.
/// - It exits with 0 only if the job has succeeded: what comes after the job waits for that.
enum SlurmWrapper {
  static let command = "__slurm-job"

  /// - Parameter arguments: the directory of the run, the number of the submission, who made it, and of an array the index.
  static func serve(_ arguments: [String]) -> Int32 {
    guard arguments.count == 4, let submission = Int(arguments[1]) else { return ExitStatus.badInput }
    let index = Int(arguments[3]) ?? 0
    do throws(UsageError) {
      return try serve(SlurmFiles(root: arguments[0]), submission, of: arguments[2], index)
    } catch {
      Console.shared.note("ownedops: submission \(submission), job \(index), on \(MachineProcess.current.host): \(error.description)")
      return ExitStatus.failure
    }
  }

  private static func serve(_ files: SlurmFiles, _ submission: Int, of mark: String, _ index: Int) throws(UsageError) -> Int32 {
    guard let task = SlurmTask(files, submission, index) else { throw UsageError("can't read \(files.tasks(submission))") }
    guard task.run == mark else { throw UsageError("\(files.root) is another run's by now") }
    let path = files.status(submission, index)
    // Somebody has asked Slurm to run it again; it is done. Unless Slurm itself has ended it, to run it again.
    if let before = SlurmStatus(path: path), case .ended(let result) = before.course, result != .cancelled(SlurmStatus.bySignal) {
      return result == .succeeded ? ExitStatus.success : ExitStatus.failure
    }
    func refused(because name: String) throws(UsageError) -> Int32 {
      try SlurmFiles.write(SlurmStatus.line("refused", because: name), to: path)
      return ExitStatus.failure
    }
    try SlurmFiles.write(SlurmStatus.line("begun"), to: path)
    // First, because it may take its time, and nothing must come between the look at what has ended and the start.
    guard hasSucceeded(task.needs, files) else { return try refused(because: SlurmStatus.need) }
    if let name = task.ends.first(where: files.hasEnded) { return try refused(because: name) }
    if let deadline = task.deadline, deadline <= WallClock.now { return try refused(because: SlurmStatus.time) }
    // Slurm goes elsewhere if it can't go there.
    guard chdir(task.workingDirectory) == 0 else {
      throw UsageError("can't enter directory \(task.workingDirectory): \(RawFile.message(errno))")
    }
    return try run(task, path)
  }

  /// How long the statuses of what it needs are waited for.
  static let patience = Duration.seconds(60)

  /// Waits for what may be on its way, through a file system that takes its time.
  private static func hasSucceeded(_ needs: [String], _ files: SlurmFiles) -> Bool {
    let deadline = ContinuousClock.now + patience
    for need in needs {
      while true {
        if case .ended(let result)? = files.status(of: need)?.course {
          guard result == .succeeded else { return false }
          break
        }
        guard ContinuousClock.now < deadline else { return false }
        usleep(500_000)
      }
    }
    return true
  }

  private static func run(_ task: SlurmTask, _ path: String) throws(UsageError) -> Int32 {
    // All that is shown is in the log.
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    dup2(nowhere, 1)
    close(nowhere)
    var command = ChildProcess.Command(words: task.command)
    command.directory = task.directory
    command.environment = task.environment
    var job = RunFile.Job(name: task.job, command: command)
    job.timeout = task.timeout
    job.retries = task.retries
    var owners: [RunFile.Owner] = []
    if let deadline = task.deadline {
      owners = [RunFile.Owner(name: task.owner ?? "", end: .after(.seconds(deadline - WallClock.now)))]
      job.owner = 0
    }
    var options = RunOptions()
    options.jobs = 1
    options.grace = task.grace
    options.logDirectory = task.logDirectory
    options.isQuiet = true
    options.keepsLogOnly = true
    let draft = path + ".new"
    let session = try RunSession(
      RunFile(owners: owners, jobs: [job]), options, recorder: nil, results: JobResults(path: draft, apartFrom: []))
    let interruption = Interruption { _, count in DispatchQueue.global(qos: .userInitiated).async { session.interrupt(count) } }
    let summary = withExtendedLifetime(interruption) { session.run() }
    guard session.writeResults(summary) else { throw UsageError("can't write \(draft)") }
    try finish(draft, path)
    return summary.isSuccess ? ExitStatus.success : ExitStatus.failure
  }

  private static func finish(_ draft: String, _ path: String) throws(UsageError) {
    let descriptor = open(draft, O_WRONLY | O_APPEND | O_CLOEXEC)
    guard descriptor >= 0 else { throw UsageError("can't write \(draft): \(RawFile.message(errno))") }
    var error = RawFile.writeAll(SlurmStatus.line("ended"), to: descriptor)
    if error == nil, fsync(descriptor) != 0, errno != EINVAL { error = errno }
    if close(descriptor) != 0, error == nil { error = errno }
    if error == nil, rename(draft, path) != 0 { error = errno }
    if let error { throw UsageError("can't write \(path): \(RawFile.message(error))") }
  }
}
