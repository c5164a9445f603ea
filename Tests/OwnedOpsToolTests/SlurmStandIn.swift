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
  private let submit: @Sendable (_ jobs: [String], _ words: [String]) -> Answer?
  private let stateOf: @Sendable (_ job: String, _ submission: Int) -> String?
  private let polled: @Sendable () -> Void

  /// - Parameters:
  ///   - submit: what `sbatch` says, if not that all is well.
  ///   - stateOf: what `squeue` says of a job, nil for nothing; with `COMPLETED` there is a status, too.
  ///   - polled: called by `squeue` when it knows what it will say, and has not said it.
  init(
    _ files: SlurmFiles, submit: @escaping @Sendable (_ jobs: [String], _ words: [String]) -> Answer? = { _, _ in nil },
    polled: @escaping @Sendable () -> Void = {}, stateOf: @escaping @Sendable (_ job: String, _ submission: Int) -> String?
  ) {
    self.files = files
    self.submit = submit
    self.polled = polled
    self.stateOf = stateOf
  }

  func calls(of program: String) -> [[String]] { state.withLock { $0.calls.filter { $0.first == program } } }

  func call(_ words: [String]) -> Answer {
    state.withLock { $0.calls.append(words) }
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
        if said == "COMPLETED" { Self.end(job.submission, index, files, exit: #""exitStatus":0"#) }
        text += "\(identifier)|\(said)|\(job.comment)|n1|None\n"
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

/// A run of which Slurm says what a test wants it to.
struct SlurmTrial {
  let file: RunFile
  let files: SlurmFiles
  let journal: String

  init(_ graph: String, in directory: TemporaryDirectory) throws {
    file = try RunFile(Data(graph.utf8), source: "graph")
    journal = directory.path + "/j"
    files = SlurmFiles(root: SlurmFiles.root(of: journal))
    try files.create()
  }

  static func task(_ job: String, of run: String, _ files: SlurmFiles, _ command: [String] = ["x"]) -> SlurmTask {
    SlurmTask(
      run: run, job: job, workingDirectory: "/", command: command, directory: nil, environment: [:], timeout: nil, retries: 0,
      grace: .seconds(1), logDirectory: files.root, ends: [])
  }

  /// - Returns: what the journal says afterwards.
  func run(_ slurm: SlurmStandIn, patience: Duration = .zero, limits: String = "MaxArraySize = 1001") throws -> Journal {
    let hold = try RunJournal(JournalOptions(path: journal), file, engine: SlurmCommand.engine)
    try hold.begin(keeper: nil, grace: .seconds(1), keepsOrphans: false, engine: SlurmCommand.engine) {}
    var options = RunOptions()
    options.keepsGoing = true
    options.isQuiet = true
    let session = SlurmSession(
      file, options, SlurmOptions(), limits: SlurmLimits(limits), files: files, journal: hold, results: nil, begin: WallClock.now,
      past: SlurmSession.Past(), patience: patience, call: { slurm.call($0) })
    // A test that waits for what does not come fails.
    let mailbox = session.mailbox
    let impatience = DispatchWorkItem { mailbox.post(.interrupted(2)) }
    DispatchQueue.global().asyncAfter(deadline: .now() + 30, execute: impatience)
    _ = session.run()
    impatience.cancel()
    _ = hold.end(unwritten: [])
    _ = session.finishPrinting(with: "")
    return try JournalReader.read(journal)
  }
}
