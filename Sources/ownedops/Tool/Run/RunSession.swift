import Foundation
import OwnedOperations

/// One run of a graph, from the first owner to the last process.
///
/// Rules:
/// - A job has an operation from when it is let in until it has ended. Of all others there are numbers only (``JobSchedule``).
/// - `turns` holds what is to be looked at. One thread at a time works it off, and whoever adds to it meanwhile leaves that to it.
/// - The schedule is asked under the lock of `turns`, never the other way. Both are held for a moment only.
/// - The queue holds operations for as many commands as may run, and one that follows for each that is ending. All others wait in
///   ``JobAdmission``.
/// - What waits is cancelled before its owner ends, so that the owner's end is the reason.
final class RunSession: Sendable {
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(name: String, parent: OwnerLifetime) { lifetimeToken = OwnerLifetime.Token(name: name, parent: parent) }
  }

  private struct State {
    /// By place: those that have been let in and have not ended.
    var operations: [Int: JobOperation] = [:]
    var firstFailure: String?
    /// Why an owner ended by itself, by place.
    var endings: [Int: String] = [:]
    var interruptions = 0
    /// What jobs have left behind, once it is waited for.
    var orphans: Int?
  }

  private struct Turns {
    /// Jobs that nothing of the graph holds back any more.
    var ready: [Int] = []
    var nextReady = 0
    var admission: JobAdmission
    /// Somebody works this off.
    var isInWork = false
    /// The load will be looked at again.
    var looksAgain = false
  }

  private enum Turn {
    case nothing
    case ready(Int)
    case letIn(Int)
    case loaded
  }

  private let file: RunFile
  private let options: RunOptions
  private let root = OwnerLifetime(name: "run")
  private let owners: [Owner]
  private let family: RunFamily
  private let schedule: JobSchedule
  private let turns: Guarded<Turns>
  private let isOver = DispatchSemaphore(value: 0)
  private let queue: OwnerScopedQueue
  private let watch = OwnerWatch()
  private let state = Guarded(State())
  private let logs: JobLogs?
  private let memory = OutputMemory()
  private let printer: OutputPrinter

  let counter: RunCounter
  let results: JobResults?
  let recorder: JobRecorder?
  let host: any CommandHost
  let journal: RunJournal?
  let starts = ProcessStarts()
  let budget: DescriptorBudget
  var grace: Duration { options.grace }

  /// - Parameter host: where commands run; nil: as the options have it.
  init(
    _ file: RunFile, _ options: RunOptions, recorder: JobRecorder?, journal: RunJournal? = nil, results: JobResults? = nil,
    host: (any CommandHost)? = nil
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
    self.host = if let host { host } else { try Self.makeHost(file, options, journal, root) }
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
    var clock: (@Sendable () -> Double)?
    if let recorder { clock = { recorder.now } }
    schedule = JobSchedule(file.jobs, now: clock)
    let all = JobAdmission.Share(processors: options.jobs, memory: options.memory)
    turns = Guarded(Turns(admission: JobAdmission(file, all, mostLoad: options.mostLoad)))
    owners = Self.makeOwners(file.owners, root: root)
    family = RunFamily(file)
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
    follow(schedule.begin(file.jobs))
    watch.start()
    isOver.wait()
    host.end { [state] count in state.withLock { $0.orphans = count } }
    var summary = summary()
    if let journal { summary.journalIsComplete = journal.end(unwritten: (host as? KeptCommandHost)?.unwritten ?? []) }
    return summary
  }

  /// Blocks until all has been printed, this line last.
  /// - Returns: false if nobody reads, and that was not waited for. Who has pressed Ctrl-C twice does not wait for a reader that may never
  ///   come.
  func finishPrinting(with line: String) -> Bool {
    printer.print(line)
    if state.withLock({ $0.interruptions > 1 }) { printer.giveUp(after: Self.patienceWithReaders) }
    return printer.finish()
  }

  private static let patienceWithReaders = DispatchTimeInterval.milliseconds(500)

  // MARK: Turns

  private static let pauseUnderLoad = DispatchTimeInterval.milliseconds(500)

  /// A job has ended, and this comes of it.
  private func follow(_ step: JobSchedule.Step, _ change: (inout Turns) -> Void = { _ in }) {
    advance { turns in
      turns.ready += step.ready
      change(&turns)
    }
    if step.isLast { isOver.signal() }
  }

  /// Works off what there is to do, unless somebody is at it.
  private func advance(_ change: (inout Turns) -> Void) {
    let isFirst = turns.withLock { turns in
      change(&turns)
      defer { turns.isInWork = true }
      return !turns.isInWork
    }
    guard isFirst else { return }
    while true {
      switch turns.withLock(nextTurn) {
      case .nothing: return
      case .ready(let place): arrive(place)
      case .letIn(let place): start(place)
      case .loaded:
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.pauseUnderLoad) { [self] in advance { $0.looksAgain = false } }
      }
    }
  }

  private func nextTurn(_ turns: inout Turns) -> Turn {
    if turns.nextReady < turns.ready.count {
      turns.nextReady += 1
      return .ready(turns.ready[turns.nextReady - 1])
    }
    turns.ready.removeAll(keepingCapacity: turns.ready.count < 1000)
    turns.nextReady = 0
    if let place = turns.admission.next(unless: schedule.hasEnded) { return .letIn(place) }
    if turns.admission.isHeldByLoad, !turns.looksAgain {
      turns.looksAgain = true
      return .loaded
    }
    turns.isInWork = false
    return .nothing
  }

  private func arrive(_ place: Int) {
    if hasSucceededBefore(place) {
      follow(schedule.end(place, .succeeded))
    } else if let reason = reasonNotToStart(file.jobs[place]) {
      follow(schedule.end(place, .cancelled(reason, hasBegun: false)))
    } else {
      turns.withLock { $0.admission.arrive(place) }
    }
  }

  private func start(_ place: Int) {
    guard schedule.take(place) else { return advance { $0.admission.giveBack(place) } }
    let lifetime = file.jobs[place].owner.map { owners[$0].lifetime } ?? root
    let operation = JobOperation(file.jobs[place], place: place, lifetime: lifetime, session: self)
    state.withLock { $0.operations[place] = operation }
    operation.completionBlock = { [self] in didEnd(place) }
    do throws(OwnerScopedQueueError) {
      try queue.enqueue([operation])
    } catch {
      // Its owner has ended, and it with it.
      operation.cancel()
      didEnd(place)
    }
  }

  /// To be called when an operation has a result, or has finished without one. What comes second is passed over.
  func didEnd(_ place: Int) {
    guard let operation = state.withLock({ $0.operations.removeValue(forKey: place) }) else { return }
    let end: JobSchedule.End =
      switch operation.result {
      case .succeeded: .succeeded
      case .failed(let reason): .failed(reason)
      case .cancelled(let reason): .cancelled(reason, hasBegun: !operation.wasRefused)
      case nil: .cancelled(explanation(of: operation.job), hasBegun: false)
      }
    follow(schedule.end(place, end)) { $0.admission.giveBack(place) }
  }

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
    cancelWhatWaits(below: place)
    owners[place].lifetime.end()
  }

  /// Of an owner that has ended, and of those below it. Linear in these and their jobs: thousands of owners may end at one time.
  private func cancelWhatWaits(below owner: Int) {
    let owners = family.below(owner)
    let reasons = Dictionary(uniqueKeysWithValues: owners.map { ($0, endOfOwner($0)) })
    follow(
      schedule.cancel(among: owners.flatMap { family.jobs[$0] }) { [self, file] place in
        // What succeeded in an earlier run is done, whoever's it was.
        hasSucceededBefore(place) ? nil : file.jobs[place].owner.flatMap { reasons[$0] ?? nil }
      })
  }

  private func cancelAllThatWaits() {
    follow(schedule.cancel { [self] place in hasSucceededBefore(place) ? nil : Self.interrupted })
  }

  private static let interrupted = "interrupted"

  /// Ends all owners; the second time, kills what is left without grace. The second may come first, or while the first is under way.
  /// - Parameter count: how many times there has been a signal.
  func interrupt(_ count: Int) {
    let isNews = state.withLock { state in
      defer { state.interruptions = max(state.interruptions, count) }
      return state.interruptions == 0
    }
    if isNews { recorder?.mark("interrupted") }
    // Each time: nothing may begin after what is killed.
    cancelAllThatWaits()
    root.end()
    guard count > 1 else { return }
    host.hurry()
    for operation in state.withLock({ $0.operations.values.map { $0 } }) { operation.kill() }
    printer.giveUp(after: Self.patienceWithReaders)
  }

  /// What the end of the run waits for when it has been interrupted once, and what a second signal does.
  var interruptionNote: String {
    let (operations, orphans) = state.withLock { ($0.operations, $0.orphans) }
    let running = operations.sorted { $0.key < $1.key }.filter(\.value.isRunning).map { Array($0.value.job.name.utf8).escapedName }
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
    guard options.isLive else { return JobOutput(memory: memory, log: log, keepsLogOnly: options.keepsLogOnly) }
    let prefix = Self.prefix(job)
    return JobOutput(memory: memory, log: log) { [printer] output in printer.printLines(of: output, prefix: prefix) }
  }

  private static func prefix(_ job: RunFile.Job) -> [UInt8] { Array("\(Array(job.name.utf8).escapedName) | ".utf8) }

  func ownerName(of job: RunFile.Job) -> String { job.owner.map { file.owners[$0].name } ?? "run" }

  /// Why a job has been cancelled that nothing of the graph held back.
  func explanation(of job: RunFile.Job) -> String {
    if state.withLock({ $0.interruptions > 0 }) { return Self.interrupted }
    return job.owner.flatMap { endOfOwner($0) } ?? journal?.failure ?? "its owner ended"
  }

  /// Nil if it has not ended by itself, nor with one of its parents.
  private func endOfOwner(_ place: Int) -> String? {
    state.withLock { state in
      var place = Optional(place)
      while let current = place {
        if let reason = state.endings[current] { return "its owner \(file.owners[current].name) ended: \(reason)" }
        place = file.owners[current].parent
      }
      return nil
    }
  }

  /// Prints what a job has put out, in one piece with how it ended. Does not wait until it has been read.
  func show(_ operation: JobOperation, _ result: JobOperation.Result, seconds: Double, output: JobOutput?) {
    let prefix = options.isLive ? Self.prefix(operation.job) : nil
    var line = RunReport.line(operation.job.name, result, seconds)
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

  /// `--results`.
  /// - Returns: false if they could not be written, which has been said.
  func writeResults(_ summary: RunSummary) -> Bool {
    guard let results else { return true }
    let ends = schedule.ends
    return results.write(summary, file.jobs.indices.lazy.map { [self] in record(of: $0, ends[$0], results) })
  }

  private func record(of place: Int, _ end: JobSchedule.End?, _ results: JobResults) -> JobResults.Job {
    let result = RunReport.result(end, of: file)
    return RunReport.record(
      of: place, in: file, result, succeededBefore: result == .succeeded && hasSucceededBefore(place), results.attempts(of: place))
  }

  // MARK: Summary

  private func summary() -> RunSummary {
    var events: [JournalEvent] = []
    let (summary, text) = RunReport.summary(schedule.ends, of: file, before: journal?.resumption.doneCount ?? 0) { place, reason in
      let job = file.jobs[place]
      recorder?.cancelled(name: job.name, owner: ownerName(of: job), at: schedule.cancellationTime(of: place))
      if journal != nil { events.append(.cancelled(job: job.name, reason: reason)) }
    }
    if !options.isQuiet, !text.isEmpty { printer.print(text) }
    journal?.record(events)
    return summary
  }
}
