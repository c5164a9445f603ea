import Foundation
import OwnedOperations

/// One run of a graph, from the first owner to the last process.
final class RunSession: Sendable {
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(name: String, parent: OwnerLifetime) { lifetimeToken = OwnerLifetime.Token(name: name, parent: parent) }
  }

  private struct State {
    var operations: [JobOperation] = []
    var observations: [OperationObservation] = []
    var firstFailure: String?
    /// Why an owner ended by itself, by place.
    var endings: [Int: String] = [:]
    var interruptions = 0
    /// What jobs have left behind, once it is waited for.
    var orphans: Int?
  }

  private let file: RunFile
  private let options: RunOptions
  private let root = OwnerLifetime(name: "run")
  private let owners: [Owner]
  private let gates: [OwnerGate?]
  private let queue: OwnerScopedQueue
  private let watch = OwnerWatch()
  private let state = Guarded(State())
  private let logs: JobLogs?
  private let memory = OutputMemory()
  private let printer: OutputPrinter
  /// Nil where nothing but the number of commands is limited.
  private let resources: ResourceGate?

  let counter: RunCounter
  let results: JobResults?
  let recorder: JobRecorder?
  let host: any CommandHost
  let journal: RunJournal?
  let starts = ProcessStarts()
  let budget: DescriptorBudget
  var grace: Duration { options.grace }

  init(
    _ file: RunFile, _ options: RunOptions, recorder: JobRecorder?, journal: RunJournal? = nil, results: JobResults? = nil
  ) throws(UsageError) {
    self.file = file
    self.options = options
    self.results = results
    counter = RunCounter(total: file.jobs.count, done: journal?.resumption.doneCount ?? 0) { file.jobs[$0].name }
    self.recorder = recorder
    do throws(UsageError) {
      logs = if let directory = options.logDirectory { try JobLogs(directory: directory) } else { nil }
    } catch {
      journal?.abandon()
      throw error
    }
    self.journal = journal
    host = try Self.makeHost(file, options, journal, root)
    let keepsLogs = options.logDirectory != nil
    let queue = OwnerScopedQueue(
      name: "ownedops.run", maxConcurrentOperationCount: DescriptorBudget.mostJobs(wanted: options.jobs, logs: keepsLogs))
    self.queue = queue
    let budget = DescriptorBudget(queue, wanted: options.jobs, logs: keepsLogs)
    self.budget = budget
    printer = OutputPrinter { output in
      if output.isInFile { budget.letGo() }
      output.release()
    }
    let enqueue: @Sendable (JobOperation) -> Bool = { job in (try? queue.enqueue([job])) != nil }
    let limit = ResourceGate.Share(processors: options.jobs, memory: options.memory)
    let takesShares = options.mostLoad != nil || file.jobs.contains { $0.processors != 1 || $0.memory > 0 }
    let resources = takesShares ? ResourceGate(limit, mostLoad: options.mostLoad, letIn: enqueue) : nil
    self.resources = resources
    let letIn: @Sendable (JobOperation) -> Bool = { job in
      guard let resources else { return enqueue(job) }
      resources.arrive(job)
      return true
    }
    gates = file.owners.map { owner in owner.mostConcurrent.map { OwnerGate(limit: $0, letIn: letIn) } }
    owners = Self.makeOwners(file.owners, root: root)
  }

  private static func makeHost(
    _ file: RunFile, _ options: RunOptions, _ journal: RunJournal?, _ root: OwnerLifetime
  ) throws(UsageError) -> any CommandHost {
    guard let journal else { return try LocalCommandHost(grace: options.grace, keepsOrphans: options.keepsOrphans) }
    do throws(UsageError) {
      let host = try KeptCommandHost(
        journal: journal, file: file, grace: options.grace, keepsOrphans: options.keepsOrphans,
        whenJournalFails: { journal.keeperFailed($0) }, whenKilled: { journal.stop("the keeper was killed") })
      try journal.begin(keeper: host.process, grace: options.grace, keepsOrphans: options.keepsOrphans) {
        host.disownJournal()
        root.end()
      }
      return host
    } catch {
      journal.abandon()
      throw error
    }
  }

  /// Parents first, whatever the order in the file.
  private static func makeOwners(_ specifications: [RunFile.Owner], root: OwnerLifetime) -> [Owner] {
    var made: [Owner?] = Array(repeating: nil, count: specifications.count)
    for place in specifications.indices {
      var line = [place]
      while let last = line.last, made[last] == nil, let parent = specifications[last].parent, made[parent] == nil { line.append(parent) }
      for place in line.reversed() where made[place] == nil {
        let parent = specifications[place].parent.flatMap { made[$0] }
        made[place] = Owner(name: specifications[place].name, parent: parent?.lifetime ?? root)
      }
    }
    return made.compactMap { $0 }
  }

  // MARK: Running

  /// Blocks until every job has finished and no process is left.
  func run() -> RunSummary {
    for (place, owner) in file.owners.enumerated() {
      guard let condition = owner.end else { continue }
      if !watch.add(condition, end: { [weak self] in self?.end(place, condition) }) { end(place, condition) }
    }
    let operations = makeOperations()
    let isFinished = DispatchSemaphore(value: 0)
    let last = OwnedBlockOperation(lifetime: OwnerLifetime(name: "summary")) { isFinished.signal() }
    for operation in operations { last.addDependency(operation) }
    state.withLock { $0.operations = operations }
    submit(operations)
    // In a queue of its own: the jobs' may have no place to give while output waits for its reader.
    OwnerScopedQueue(name: "ownedops.summary").addOperation(last)
    watch.start()
    isFinished.wait()
    host.end { [state] count in state.withLock { $0.orphans = count } }
    var summary = summary(operations)
    if let journal { summary.journalIsComplete = journal.end(unwritten: (host as? KeptCommandHost)?.unwritten ?? []) }
    return summary
  }

  /// Blocks until all has been printed, this line last.
  /// - Returns: false if nobody reads, and was not waited for: who has pressed Ctrl-C twice does not wait for a reader that may never come.
  func finishPrinting(with line: String) -> Bool {
    printer.print(line)
    if state.withLock({ $0.interruptions > 1 }) { printer.giveUp(after: Self.patienceWithReaders) }
    return printer.finish()
  }

  private static let patienceWithReaders = DispatchTimeInterval.milliseconds(500)

  private func makeOperations() -> [JobOperation] {
    let operations = file.jobs.enumerated().map { place, job in
      JobOperation(job, place: place, lifetime: job.owner.map { owners[$0].lifetime } ?? root, session: self)
    }
    for (operation, job) in zip(operations, file.jobs) {
      for place in job.after { operation.addDependency(operations[place]) }
    }
    return operations
  }

  private func submit(_ operations: [JobOperation]) {
    var observations: [OperationObservation] = []
    var direct: [JobOperation] = []
    direct.reserveCapacity(operations.count)
    for operation in operations {
      if hasSucceededBefore(operation.place) {
        // It takes nothing of what the gates share out.
        direct.append(operation)
      } else if let gate = gate(of: operation.job) {
        observations.append(gate.receive(operation))
      } else if let resources {
        observations.append(operation.whenReady { resources.arrive($0) })
      } else {
        direct.append(operation)
      }
    }
    state.withLock { $0.observations = observations }
    while true {
      // An owner that ends takes its jobs along; the queue refuses a list that holds one of them.
      direct.removeAll { $0.isFinished || !$0.lifetime.isAlive }
      do throws(OwnerScopedQueueError) {
        try queue.enqueue(direct)
        return
      } catch .ownerEnded {
      } catch .alreadyFinished {
      } catch {
        // The file has been checked for everything else; a job that came to no queue would never finish.
        for operation in direct {
          operation.cancel()
          operation.start()
        }
        return
      }
    }
  }

  private func gate(of job: RunFile.Job) -> OwnerGate? { job.owner.flatMap { gates[$0] } }

  // MARK: Ends

  private func end(_ place: Int, _ condition: RunFile.EndCondition) {
    let reason =
      switch condition {
      case .process(let process): "process \(process) has exited"
      case .fileRemoved(let path): "\(path) has gone"
      case .after(let time): "\(Shown.seconds(time.inSeconds)) have passed"
      }
    state.withLock { $0.endings[place] = reason }
    recorder?.mark("\(file.owners[place].name) ended")
    owners[place].lifetime.end()
  }

  /// Ends all owners; the second time, kills what is left without grace.
  /// - Parameter count: how many times there has been a signal.
  func interrupt(_ count: Int) {
    state.withLock { $0.interruptions = max($0.interruptions, count) }
    guard count > 1 else {
      recorder?.mark("interrupted")
      root.end()
      return
    }
    host.hurry()
    for operation in state.withLock({ $0.operations }) { operation.kill() }
    printer.giveUp(after: Self.patienceWithReaders)
  }

  /// What the end of the run waits for when it has been interrupted once, and what a second signal does.
  var interruptionNote: String {
    let (operations, orphans) = state.withLock { ($0.operations, $0.orphans) }
    let running = operations.filter(\.isRunning).map { Array($0.job.name.utf8).escapedName }
    var parts: [String] = []
    if !running.isEmpty {
      let names = running.count > 5 ? running.prefix(4) + ["\(Shown.count(running.count - 4)) more"] : running[...]
      parts.append("\(Shown.count(running.count, "command")) to end (\(names.joined(separator: ", ")))")
    }
    if let orphans, orphans > 0 {
      parts.append("\(Shown.count(orphans, "process", plural: "processes")) that jobs have left behind")
    }
    guard !parts.isEmpty else {
      return "interrupted: no command is running; waiting for the output to be read; once more ends without that"
    }
    return
      "interrupted: waiting for \(parts.joined(separator: " and ")), \(Shown.seconds(grace.inSeconds)) at most; once more kills at once"
  }

  // MARK: For jobs

  func job(_ place: Int) -> RunFile.Job { file.jobs[place] }

  /// Given when a job has failed and the rest should not begin.
  func reasonNotToStart(_ job: RunFile.Job) -> String? {
    if let failure = journal?.failure { return failure }
    guard !job.runsAlways else { return nil }
    return state.withLock { state in
      guard !options.keepsGoing, let failed = state.firstFailure else { return nil }
      return "\(failed) has failed"
    }
  }

  /// It is not to be run again.
  func hasSucceededBefore(_ place: Int) -> Bool { journal?.resumption.isDone[place] ?? false }

  func jobFailed(_ operation: JobOperation) {
    state.withLock { if $0.firstFailure == nil { $0.firstFailure = operation.job.name } }
  }

  /// Where the output of a job goes.
  func makeOutput(for job: RunFile.Job) throws(UsageError) -> JobOutput {
    let log = try logs?.open(job.name)
    guard options.isLive else { return JobOutput(memory: memory, log: log) }
    let prefix = Self.prefix(job)
    return JobOutput(memory: memory, log: log) { [printer] output in printer.printLines(of: output, prefix: prefix) }
  }

  private static func prefix(_ job: RunFile.Job) -> [UInt8] { Array("\(Array(job.name.utf8).escapedName) | ".utf8) }

  func didEnd(_ operation: JobOperation) {
    gate(of: operation.job)?.didEnd()
    giveBackShare(of: operation)
  }

  /// What the job has of the machine, if it has anything.
  func giveBackShare(of operation: JobOperation) {
    guard let resources else { return }
    if let share = operation.giveBackShare() { resources.giveBack(share) } else { resources.advance() }
  }

  func ownerName(of job: RunFile.Job) -> String { job.owner.map { file.owners[$0].name } ?? "run" }

  /// Why the job has been cancelled.
  func explanation(of operation: JobOperation) -> String {
    if case .dependencyFailed(let name)? = operation.cancellationReason { return "\(name) did not succeed" }
    return state.withLock { state in
      if state.interruptions > 0 { return "interrupted" }
      var place = operation.job.owner
      while let current = place {
        if let reason = state.endings[current] { return "its owner \(file.owners[current].name) ended: \(reason)" }
        place = file.owners[current].parent
      }
      return "its owner ended"
    }
  }

  /// Prints what a job has put out, in one piece with how it ended. Does not wait until it has been read.
  func show(_ operation: JobOperation, _ result: JobOperation.Result, seconds: Double, output: JobOutput?) {
    let prefix = options.isLive ? Self.prefix(operation.job) : nil
    var line = Self.line(operation.job.name, result, seconds)
    if options.isQuiet, case .succeeded = result {
      guard prefix != nil else {
        output?.release()
        return
      }
      line = ""
    }
    if case .failed = result { line += "  \(ShellText.line(operation.job.command))\n" }
    if output?.isInFile == true { budget.hold() }
    printer.print(line, output, prefix: prefix)
  }

  private static func line(_ name: String, _ result: JobOperation.Result, _ seconds: Double?) -> String {
    let console = Console.shared
    let shown = Array(name.utf8).escapedName
    let time = seconds.map { " (\(Shown.seconds($0)))" } ?? ""
    return switch result {
    case .succeeded: "\(console.coloured("succeeded", "32")) \(shown)\(time)\n"
    case .failed(let reason): "\(console.coloured("failed", "31")) \(shown): \(reason.controlsEscaped)\(time)\n"
    case .cancelled(let reason): "\(console.coloured("cancelled", "33")) \(shown): \(reason.controlsEscaped)\(time)\n"
    }
  }

  /// `--results`.
  /// - Returns: false if they could not be written, which has been said.
  func writeResults(_ summary: RunSummary) -> Bool {
    guard let results else { return true }
    let operations = state.withLock { $0.operations }
    return results.write(summary, operations.lazy.map { [self] in record(of: $0, results) })
  }

  private func record(of operation: JobOperation, _ results: JobResults) -> JobResults.Job {
    let (outcome, reason): (String, String?) =
      switch operation.result ?? .cancelled(explanation(of: operation)) {
      case .succeeded: ("succeeded", nil)
      case .failed(let reason): ("failed", reason)
      case .cancelled(let reason): ("cancelled", reason)
      }
    let job = operation.job
    let attempts = results.attempts(of: operation.place)
    let seconds = attempts.first.flatMap { first in attempts.last.map { $0.end - first.begin } }
    return JobResults.Job(
      name: job.name, owner: job.owner.map { file.owners[$0].name }, command: job.command.words, directory: job.command.directory,
      result: outcome, reason: reason, succeededBefore: outcome == "succeeded" && hasSucceededBefore(operation.place) ? true : nil,
      seconds: seconds, attempts: attempts)
  }

  // MARK: Summary

  private static let mostCancelledShown = 50

  private func summary(_ operations: [JobOperation]) -> RunSummary {
    var summary = RunSummary()
    summary.before = journal?.resumption.doneCount ?? 0
    var text = ""
    var events: [JournalEvent] = []
    for operation in operations {
      let result = operation.result ?? .cancelled(explanation(of: operation))
      switch result {
      case .succeeded: summary.succeeded += 1
      case .failed: summary.failed.append(operation.job.name)
      case .cancelled(let reason):
        summary.cancelled += 1
        // What had begun has been shown.
        if operation.result == nil || operation.wasRefused {
          recorder?.cancelled(name: operation.job.name, owner: ownerName(of: operation.job), at: operation.cancellationTime)
          summary.neverBegun += 1
          if journal != nil { events.append(.cancelled(job: operation.job.name, reason: reason)) }
          if summary.neverBegun <= Self.mostCancelledShown { text += Self.line(operation.job.name, result, nil) }
        }
      }
    }
    if summary.neverBegun > Self.mostCancelledShown {
      text += "and \(Shown.count(summary.neverBegun - Self.mostCancelledShown)) more cancelled\n"
    }
    if !options.isQuiet, !text.isEmpty { printer.print(text) }
    journal?.record(events)
    return summary
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
