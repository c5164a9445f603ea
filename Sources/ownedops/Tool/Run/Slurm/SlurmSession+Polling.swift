import Foundation
import OwnedOperations

/// What Slurm says of all jobs, in one call; and what status files say of those that it no longer runs.
extension SlurmSession {
  static let shortestPoll = Duration.seconds(2)

  func poll() {
    guard !isPolling, ContinuousClock.now >= nextPoll, mustPoll else { return }
    isPolling = true
    polls += 1
    let (number, call, mailbox) = (polls, call, mailbox)
    DispatchQueue.global(qos: .userInitiated).async { mailbox.post(.polled(number, call(SlurmRow.words))) }
  }

  /// There is something to ask for; or nothing is submitted until the controller answers.
  var mustPoll: Bool { !active.isEmpty || !leftovers.isEmpty || !doubtful.isEmpty || awaySince != nil }

  func didPoll(_ number: Int, _ answer: SlurmPrograms.Answer) {
    isPolling = false
    let known = Set(active.compactMap { submissions[courses[$0].submission]?.identifier })
    let table = SlurmRow.table(answer.text).filter { isOurs($0.value, known) }
    let hasChanged = table != lastTable
    pollInterval = hasChanged ? Self.shortestPoll : min(pollInterval * 1.5, limits.longestPoll)
    nextPoll = ContinuousClock.now + pollInterval
    guard answer.isGood else { return beAway(answer) }
    lastTable = table
    hasSeenSlurm = true
    if let since = awaySince {
      Console.shared.noteLater(
        "ownedops: Slurm's controller answers again, after \(Shown.seconds((ContinuousClock.now - since).inSeconds))")
      awaySince = nil
    }
    mustSubmit = true
    settleDoubts(number, table)
    leftovers = leftovers.filter { name in table[name].map { !$0.isOver } ?? false }
    let all = active.sorted { ranks[$0] < ranks[$1] }.filter {
      courses[$0].phase == .submitted && courses[$0].adoptedAfter < number
    }
    let rows = all.map { place in (place, identifier(of: place).flatMap { table[$0] }) }
    let waiting = rows.compactMap { place, row in row.map { (job: file.jobs[place].name, row: $0) } }
    for notice in [heldJobs.notice(waiting), heldJobs.obstacleNotice(waiting)].compactMap({ $0 }) {
      Console.shared.noteLater("ownedops: \(notice)")
    }
    // First, because nothing may be concluded from what has become of those that come after them.
    for (place, row) in rows where row?.standing == .over(.nodeLost) && !schedule.hasEnded(place) && courses[place].phase == .submitted {
      lookAtLostNode(place, row)
    }
    for (place, row) in rows where active.contains(place) && courses[place].phase == .submitted {
      if schedule.hasEnded(place) { leave(place, row) } else { look(place, row) }
    }
    if number > cancelledAfter { cancelAgain(table) }
  }

  /// What `scancel` was called for, and is there all the same: whatever it has answered, it is called again.
  private func cancelAgain(_ table: [String: SlurmRow]) {
    for place in active where courses[place].phase == .submitted {
      guard let name = identifier(of: place), let standing = table[name]?.standing else { continue }
      if courses[place].stop != nil, standing == .waiting || standing == .running { toCancel.insert(name) }
      if courses[place].hold != nil, standing == .waiting { toHold.insert(name) }
    }
    for name in leftovers where table[name]?.standing == .waiting || table[name]?.standing == .running { toCancel.insert(name) }
  }

  /// - Parameter known: Slurm's numbers: some clusters write comments of their own.
  private func isOurs(_ row: SlurmRow, _ known: Set<String>) -> Bool {
    if known.contains(String(row.identifier.prefix { $0 != "_" })) || leftovers.contains(row.identifier) { return true }
    let parts = row.comment.split(separator: ":")
    return parts.count == 3 && parts[0] == "ownedops" && marks.contains(String(parts[1]))
  }

  /// The controller does not answer, and is waited for.
  private func beAway(_ answer: SlurmPrograms.Answer) {
    guard awaySince == nil else { return }
    awaySince = .now
    pollInterval = Self.shortestPoll
    Console.shared.noteLater("ownedops: Slurm does not answer (\(answer.message)); waiting for it")
  }

  /// Submissions whose answer was not heard: they are there, or they are not.
  private func settleDoubts(_ poll: Int, _ table: [String: SlurmRow]) {
    guard !doubtful.isEmpty else { return }
    var numbers: [String: String] = [:]
    for row in table.values { numbers[row.comment] = String(row.identifier.prefix { $0 != "_" }) }
    for (number, last) in doubtful where poll > last {
      doubtful[number] = nil
      guard let submission = submissions[number] else { continue }
      if let identifier = numbers[submission.comment] {
        do throws(UsageError) { try files.note(number, identifier: identifier) } catch { journal.stop(error.description) }
        adopt(number, identifier)
        continue
      }
      for place in places[number] ?? [] where place >= 0 && courses[place].submission == number {
        disown(place)
        if schedule.hasEnded(place) {
          deactivate(place)
        } else if status(of: place) != nil {
          // It has come late, or has been there and is forgotten; the status tells what became of it.
          courses[place].phase = .submitted
        } else {
          withdraw(place)
        }
      }
    }
  }

  /// It can't begin any more, because of what it comes after. Slurm knows that, too, but may take its time.
  private func leave(_ place: Int, _ row: SlurmRow?) {
    if let row, !row.isOver {
      leftovers.insert(row.identifier)
      toCancel.insert(row.identifier)
    }
    deactivate(place)
  }

  func status(of place: Int) -> SlurmStatus? { SlurmStatus(path: files.status(courses[place].submission, courses[place].index)) }

  /// A task of an array that is cancelled while it waits is as if it had never been. All else that has ended is known for a while.
  private func isDropped(_ place: Int) -> Bool {
    guard !courses[place].isDropped else { return true }
    guard let seenAt = courses[place].seenAt, ContinuousClock.now - seenAt < limits.memory / 2 else { return false }
    courses[place].isDropped = (submissions[courses[place].submission]?.jobs.count ?? 1) > 1
    return courses[place].isDropped
  }

  private func look(_ place: Int, _ row: SlurmRow?) {
    if row != nil { courses[place].seenAt = .now }
    switch row?.standing {
    case .waiting?, .ending?: courses[place].missingSince = nil
    case .running?:
      courses[place].missingSince = nil
      seeRunning(place)
    case .over(let end)?: didLeave(place, row, end)
    case nil: didLeave(place, nil, nil)
    }
  }

  private func seeRunning(_ place: Int) {
    guard !courses[place].hasBegun else { return }
    courses[place].hasBegun = true
    counter.begin(place)
    journal.record(.started(job: file.jobs[place].name, attempt: courses[place].submissions, process: 0))
  }

  /// Slurm says that it has ended, or knows nothing of it.
  private func didLeave(_ place: Int, _ row: SlurmRow?, _ shown: SlurmEnd?) {
    let status = status(of: place)
    // It will forget that, maybe before what it comes after has ended.
    if shown == .cancelled, status == nil { courses[place].isDropped = true }
    let end = shown ?? (status == nil && isDropped(place) ? .cancelled : nil)
    let course = courses[place]
    if end == .nodeLost { return lookAtLostNode(place, row) }
    switch status?.course {
    case .ended(let result)?: return finish(place, settled(place, result, row, end), attempts: status?.attempts ?? [], host: status?.host)
    case .refused(let name)?: return didRefuse(place, because: name)
    case .begun?, nil: break
    }
    let hasBegun = status != nil
    if let reason = course.stop, end != nil || !toCancel.contains(identifier(of: place) ?? "") && !isCancelling {
      return stopped(place, reason, hasBegun)
    }
    if end == .cancelled, !hasBegun {
      if let reason = course.hold { return self.end(place, .cancelled(reason, hasBegun: false)) }
      // What it comes after may be why, and that is said when it is known.
      guard course.isReady else { return }
      // All of that has succeeded, and Slurm thinks otherwise: a node was lost after the status was written.
      if row?.isUnsatisfied == true, course.refusals < Self.mostRefusals {
        courses[place].refusals += 1
        return submitAnew(place)
      }
    }
    if let end, let reason = end.reason(nodes: row?.nodes ?? "") {
      let result: JobOperation.Result = end == .cancelled ? .cancelled(reason) : .failed(reason)
      guard hasBegun || end != .cancelled else { return self.end(place, .cancelled(reason, hasBegun: false)) }
      return finish(place, result, attempts: [], host: status?.host)
    }
    // Its status may be on the way, through a file system that takes its time.
    let since = course.missingSince ?? ContinuousClock.now
    courses[place].missingSince = since
    guard ContinuousClock.now - since >= patience else { return }
    let what = end == nil ? "lost: Slurm knows nothing of it" : "lost: Slurm says that it has ended"
    let begun =
      hasBegun
      ? "it began on \(status?.host ?? "a node")" : "it may never have begun; do all nodes see \(files.root)? see \(files.messages)"
    finish(place, .failed("\(what), and it has left no status; \(begun)"), attempts: [], host: status?.host)
  }

  /// Its wrapper has found that it must not begin. Why is known here, or will be in a moment.
  private func didRefuse(_ place: Int, because name: String) {
    if name == courses[place].withdrawal { return submitAnew(place) }
    if let reason = courses[place].stop ?? courses[place].hold ?? reasonNotToStart(place) {
      return end(place, .cancelled(reason, hasBegun: false))
    }
    if name == SlurmStatus.need {
      // Why is not known yet; or all has succeeded, and the node did not see it.
      guard courses[place].isReady else { return }
      courses[place].refusals += 1
      guard courses[place].refusals < Self.mostRefusals else {
        let reason = "what it comes after has succeeded, and no node sees that in \(files.root)"
        return finish(place, .failed(reason), attempts: [], host: nil)
      }
      return submitAnew(place)
    }
    // For a reason of an earlier run's, and this is another try.
    if !past.isSameRun, submissions[courses[place].submission]?.mark != journal.mark.text { return submitAnew(place) }
    let since = courses[place].missingSince ?? ContinuousClock.now
    courses[place].missingSince = since
    if ContinuousClock.now - since > patience / 6 { end(place, .cancelled(explanation(of: place), hasBegun: false)) }
  }

  /// What Slurm did counts for more than what its signal did.
  private func settled(
    _ place: Int, _ result: JobOperation.Result, _ row: SlurmRow?, _ end: SlurmEnd?
  ) -> JobOperation.Result {
    if result == .succeeded { return result }
    if let reason = courses[place].stop { return .cancelled(reason) }
    if let end, end != .nodeLost, let reason = end.reason(nodes: row?.nodes ?? "") {
      return end == .cancelled ? .cancelled(reason) : .failed(reason)
    }
    // Slurm's SIGTERM, and nobody here has asked for it; or the owner's time, of which the wrapper knows.
    if case .cancelled(let reason) = result { return .cancelled(reason == SlurmStatus.bySignal ? "cancelled by somebody else" : reason) }
    return result
  }

  private func stopped(_ place: Int, _ reason: String, _ hasBegun: Bool) {
    if hasBegun {
      finish(place, .cancelled(reason), attempts: [], host: nil)
    } else {
      end(place, .cancelled(reason, hasBegun: false))
    }
  }

  private static let mostLostNodes = 3

  private func lookAtLostNode(_ place: Int, _ row: SlurmRow?) {
    // It had come to its end before. Any other end may be due to Slurm's signal. A node that can still be reached gets it, and commands
    // answer it in their own ways.
    if let status = status(of: place), status.course == .ended(.succeeded) {
      return finish(place, .succeeded, attempts: status.attempts, host: status.host)
    }
    let reason = SlurmEnd.nodeLost.reason(nodes: row?.nodes ?? "") ?? ""
    if let stop = courses[place].stop { return stopped(place, stop, status(of: place) != nil) }
    courses[place].nodesLost += 1
    guard courses[place].nodesLost <= Self.mostLostNodes else {
      return finish(place, .failed("\(reason), for the \(courses[place].nodesLost)th time"), attempts: [], host: nil)
    }
    let name = Array(file.jobs[place].name.utf8).escapedName
    Console.shared.noteLater("ownedops: \(name): \(reason); it is submitted again, and what comes after it")
    submitAnew(place)
  }

  // MARK: Ends of jobs

  /// A job that had begun, or could not be submitted, has ended: written down, shown, and followed.
  func finish(_ place: Int, _ result: JobOperation.Result, attempts: [JobResults.Attempt], host: String?) {
    let job = file.jobs[place]
    for attempt in attempts { results?.add(attempt, to: place) }
    let log = (options.logDirectory ?? files.logs(courses[place].submission, courses[place].index)) + "/" + JobLogs.fileName(job.name)
    // Of one that did not run there may be a log of an earlier run's.
    let output = isShown(result) && hasRun(place) ? JobOutput(ofLog: log, memory: memory) : nil
    let count = courses[place].submissions + max(0, attempts.count - 1)
    let (event, end): (JournalEvent, JobSchedule.End) =
      switch result {
      case .succeeded: (.succeeded(job: job.name, attempts: count), .succeeded)
      case .failed(let reason):
        (.failed(job: job.name, attempts: count, reason: reason, output: output?.tail(2000) ?? ""), .failed(reason))
      case .cancelled(let reason): (.cancelled(job: job.name, reason: reason), .cancelled(reason, hasBegun: true))
      }
    journal.record(event, after: attempts.enumerated().flatMap { events(of: $1, number: courses[place].submissions + $0, job.name) })
    if !courses[place].hasBegun { counter.begin(place) }
    counter.end(place, hasFailed: { if case .failed = result { true } else { false } }())
    let seconds = attempts.first.flatMap { first in attempts.last.map { $0.end - first.begin } }
    show(job, result, seconds, output)
    self.end(place, end)
  }

  private func hasRun(_ place: Int) -> Bool {
    switch status(of: place)?.course {
    case .begun?, .ended?: true
    case .refused?, nil: false
    }
  }

  /// An attempt as its wrapper saw it, by the clock of its node.
  private func events(of attempt: JobResults.Attempt, number: Int, _ job: String) -> [(event: JournalEvent, time: Double)] {
    let exit: ChildReaper.Exit? = attempt.exitStatus.map { .status($0) } ?? attempt.signal.map { .signal($0) }
    let started = (JournalEvent.started(job: job, attempt: number, process: 0), attempt.begin)
    guard let exit else { return [started] }
    return [started, (.exited(job: job, attempt: number, JournalExit(exit)), attempt.end)]
  }

  private func isShown(_ result: JobOperation.Result) -> Bool { !options.isQuiet || result != .succeeded }

  private func show(_ job: RunFile.Job, _ result: JobOperation.Result, _ seconds: Double?, _ output: JobOutput?) {
    guard isShown(result) else { return }
    var line = RunReport.line(job.name, result, seconds)
    if case .failed = result { line += "  \(ShellText.line(job.command))\n" }
    printer.print(line, output)
  }
}
