import Foundation

/// The directory of a run on a cluster, beside its journal, which all nodes see.
///
/// Rules:
/// - A submission is one call of `sbatch`: a job, or an array of several. It has a number, which no other of this directory has.
/// - The next one's is higher by as many as it has jobs: job `I` of submission `N` is number `N + I`.
/// - Only who has the journal's lease writes here, but for `status`, `logs` and `slurm.log`.
/// - `graph.json` and `run.json` are what the run was begun with; `attach` reads them. `job.sh` calls the wrapper.
/// - `submissions` gets a line before `sbatch` is called, and one with Slurm's number when that is known.
/// - `tasks/N` holds what the wrapper has to know, a line for each job. It is there before `sbatch` is called, and never changed.
/// - A task names its run. A wrapper of another run, which had files of these names before, does nothing.
/// - `status/N.I` is the wrapper's: of job `I` of submission `N`. It is written when the job begins, and again when it ends or must not
///   begin.
/// - `ended/NAME`: work of that name must not begin any more. It is there before `scancel` is called, and never goes.
/// - `NAME` is `RUN.all`, `RUN.failed` (all but what runs always), `RUN.oP` (of the owner at place `P`), or `N.I`.
/// - `submissions` and `slurm.log` grow. All other files but logs come into being at once: they are written elsewhere and renamed.
/// - Files of jobs are spread over directories of a thousand numbers each, arrays among them.
struct SlurmFiles: Sendable {
  let root: String
  /// Returns the error, or nil.
  var synchronize: @Sendable (Int32) -> Int32? = { JournalFile.synchronize($0) }

  static func root(of journal: String) -> String { JournalFile.target(of: journal) + ".slurm" }

  var graph: String { root + "/graph.json" }
  var settings: String { root + "/run.json" }
  var script: String { root + "/job.sh" }
  var submissions: String { root + "/submissions" }
  /// What Slurm itself says of jobs, and wrappers that can't begin.
  var messages: String { root + "/slurm.log" }
  func tasks(_ submission: Int) -> String { "\(root)/tasks/\(submission / 1000)/\(submission)" }
  func status(_ submission: Int, _ index: Int) -> String { "\(root)/status/\((submission + index) / 1000)/\(submission).\(index)" }
  /// Of a need of a task. Nil if it is none.
  func status(of need: String) -> SlurmStatus? {
    let parts = need.split(separator: ".").compactMap { Int($0) }
    return parts.count == 2 ? SlurmStatus(path: status(parts[0], parts[1])) : nil
  }
  func logs(_ submission: Int, _ index: Int) -> String { "\(root)/logs/\((submission + index) / 1000)" }
  func ended(_ name: String) -> String { "\(root)/ended/\(name)" }

  func create() throws(UsageError) {
    for directory in [root, root + "/ended"] { try Self.makeDirectory(directory) }
    // The program is an argument: another login node may have it elsewhere.
    let line = "exec \"$1\" \(SlurmWrapper.command) \"$2\" \"$3\" \"$4\" \"${5:+$SLURM_ARRAY_TASK_ID}\""
    try Self.write(Array("#!/bin/sh\n\(line)\n".utf8), to: script)
  }

  /// For the files of a submission of so many jobs.
  func makeRoom(for submission: Int, jobs: Int = 1) throws(UsageError) {
    var paths = [tasks(submission)]
    for index in 0..<jobs where index == 0 || (submission + index) % 1000 == 0 {
      paths += [status(submission, index), logs(submission, index) + "/"]
    }
    for path in paths { try Self.makeDirectory(String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)])) }
  }

  private static func makeDirectory(_ path: String) throws(UsageError) {
    guard mkdir(path, 0o777) != 0, errno != EEXIST else { return }
    if errno == ENOENT, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
      try makeDirectory(String(path[..<slash]))
      guard mkdir(path, 0o777) != 0, errno != EEXIST else { return }
    }
    throw UsageError("can't create \(path): \(RawFile.message(errno))")
  }

  /// All at once, or nothing.
  static func write(_ bytes: [UInt8], to path: String) throws(UsageError) {
    let draft = path + ".new"
    let descriptor = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw UsageError("can't create \(path): \(RawFile.message(errno))") }
    var error = RawFile.writeAll(bytes, to: descriptor)
    if error == nil, fsync(descriptor) != 0, errno != EINVAL { error = errno }
    if close(descriptor) != 0, error == nil { error = errno }
    if error == nil, rename(draft, path) != 0 { error = errno }
    guard let error else { return }
    unlink(draft)
    throw UsageError("can't write \(path): \(RawFile.message(error))")
  }

  /// Nothing of that name begins from now on.
  /// - Returns: the error, or nil.
  func end(_ name: String) -> Int32? {
    let descriptor = open(ended(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { return errno }
    close(descriptor)
    return nil
  }

  /// Asked through the directory, opened anew. Over NFS that has the node ask the server whether the directory has changed, and forget what
  /// it knows not to be there. By the path alone it may go on to know that for half a minute.
  func hasEnded(_ name: String) -> Bool {
    let directory = open(root + "/ended", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return access(ended(name), F_OK) == 0 }
    defer { close(directory) }
    return faccessat(directory, name, F_OK, 0) == 0
  }

  // MARK: Submissions

  struct Submission: Sendable {
    let number: Int
    /// Of the runner that made it: its part of the names in `ended`.
    let mark: String
    /// Names.
    let jobs: [String]
    /// The number of the one after it.
    var next: Int { number + jobs.count }
    /// Slurm's number; nil if the runner did not come to hear it.
    var identifier: String?

    /// Slurm's name for one of its jobs.
    func identifier(of index: Int) -> String? { identifier.map { jobs.count == 1 ? $0 : "\($0)_\(index)" } }

    /// By which Slurm is asked for it.
    var comment: String { SlurmFiles.comment(mark, number) }
  }

  static func comment(_ mark: String, _ submission: Int) -> String { "ownedops:\(mark):\(submission)" }

  func note(_ submission: Submission, attempts: [Int]) throws(UsageError) {
    var line = JournalLine("submission")
    line.add("number", submission.number)
    line.add("run", submission.mark)
    line.add("jobs", list: submission.jobs)
    line.add("attempts", list: attempts.map(String.init))
    // Who does not know of it after a power failure would submit it once more.
    try append(line, mustLast: true)
  }

  func note(_ submission: Int, identifier: String) throws(UsageError) {
    var line = JournalLine("identifier")
    line.add("number", submission)
    line.add("slurm", identifier)
    try append(line)
  }

  private func append(_ line: JournalLine, mustLast: Bool = false) throws(UsageError) {
    let descriptor = open(submissions, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw UsageError("can't write \(submissions): \(RawFile.message(errno))") }
    defer { close(descriptor) }
    let error = JournalFile.append(line.bytes, to: descriptor) ?? (mustLast ? synchronize(descriptor) : nil)
    if let error { throw UsageError("can't write \(submissions): \(RawFile.message(error))") }
  }

  /// All that have ever been made, by number. Lines that are not whole are passed over: nothing was done after them.
  func readSubmissions() -> [Int: Submission] {
    var all: [Int: Submission] = [:]
    for line in (RawFile.contents(of: submissions) ?? []).split(separator: UInt8(ascii: "\n")) {
      guard let value = try? JSONParser.parse(Array(line)), let number = value["number"]?.asInteger else { continue }
      if let identifier = value["slurm"]?.asText {
        all[number]?.identifier = identifier
      } else if let mark = value["run"]?.asText, let jobs = value["jobs"]?.asTexts {
        all[number] = Submission(number: number, mark: mark, jobs: jobs)
      }
    }
    return all
  }
}
