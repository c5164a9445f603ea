import Foundation
import OwnedOperations

/// Ends of owners, Ctrl-C, and what is cancelled because of them.
extension SlurmSession {
  private static let interrupted = "interrupted"

  // MARK: Owners

  func endOwner(_ place: Int, _ condition: RunFile.EndCondition) {
    guard endings[place] == nil else { return }
    endings[place] =
      switch condition {
      case .process(let process): "process \(process) has exited"
      case .fileRemoved(let path): "\(path) has gone"
      case .after(let time): "\(Shown.seconds(time.inSeconds)) have passed"
      }
    // In this order: what comes to begin finds the marker, nothing more is submitted, and then what is there is cancelled.
    mark(Self.mark(ofOwner: place))
    owners[place].end()
    cancelWhatEnded(among: family.below(place).flatMap { family.jobs[$0] })
  }

  /// Ends all owners; the second time without grace.
  func interrupt(_ count: Int) {
    interruptions = max(interruptions, count)
    if interruptedAt == nil || count == 2 { interruptedAt = .now }
    if count == 1 {
      mark(Self.allOwners)
      root.end()
    }
    cancelWhatEnded()
  }

  /// Why everything of an owner is cancelled; nil if it has not ended, nor one of its parents.
  private func reasonToStop(_ place: Int) -> String? {
    if interruptions > 0 { return Self.interrupted }
    return endOfOwner(of: place)
  }

  private func endOfOwner(of place: Int) -> String? {
    var owner = file.jobs[place].owner
    while let current = owner {
      if let reason = endings[current] { return "its owner \(file.owners[current].name) ended: \(reason)" }
      owner = file.owners[current].parent
    }
    return nil
  }

  func explanation(of place: Int) -> String { reasonToStop(place) ?? journal.failure ?? "its owner ended" }

  /// - Parameter places: who may be one of them; nil: all. Thousands of owners may end at one time.
  private func cancelWhatEnded(among places: [Int]? = nil) {
    for place in active where !schedule.hasEnded(place) {
      guard let reason = reasonToStop(place) else { continue }
      if courses[place].stop == nil { courses[place].stop = reason }
      // Those whose submission is under way are cancelled when its answer has come.
      if courses[place].phase == .submitted, let name = identifier(of: place) { toCancel.insert(name) }
    }
    follow(
      schedule.cancel(among: places) { place in
        // What succeeded in an earlier run is done, whoever's it was.
        journal.resumption.isDone[place] || past.ends[place] != nil ? nil : reasonToStop(place)
      })
    // Those that were with Slurm and are to be again.
    for place in places ?? unsubmitted where !schedule.hasEnded(place) && courses[place].phase == .waiting {
      if let reason = reasonToStop(place) { end(place, .cancelled(reason, hasBegun: false)) }
    }
    nextPoll = min(nextPoll, ContinuousClock.now + Self.shortestPoll)
    pollInterval = Self.shortestPoll
    mustSubmit = true
  }

  // MARK: scancel

  /// All that is to be cancelled, in one call, or as few as hold all the names.
  func cancelInSlurm() {
    guard !isCancelling, awaySince == nil || interruptions > 0 else { return }
    let isHeld = toCancel.isEmpty
    let names = Array((isHeld ? toHold : toCancel).sorted().prefix(limits.mostInScancel))
    guard !names.isEmpty else { return }
    let options = isHeld ? ["--state=PENDING"] : interruptions > 1 ? ["--signal=KILL", "--full"] : []
    // What is cancelled need not be held.
    toHold.subtract(names)
    toCancel.subtract(names)
    isCancelling = true
    let (call, mailbox) = (call, mailbox)
    DispatchQueue.global(qos: .userInitiated).async {
      mailbox.post(.cancelled(isHeld ? [] : names, call(["scancel"] + options + names)))
    }
  }

  func didCancel(_ names: [String], _ answer: SlurmPrograms.Answer) {
    isCancelling = false
    cancelledAfter = polls
    nextPoll = min(nextPoll, ContinuousClock.now + Self.shortestPoll)
    pollInterval = Self.shortestPoll
    guard !answer.isGood, answer.isPassing else { return }
    note("scancel: \(answer.message)", once: "scancel")
    // Once more, with the next that come; not at once.
    let mailbox = mailbox
    DispatchQueue.global().asyncAfter(deadline: .now() + 2) { mailbox.post(.cancelled(names, .init(status: 0, text: "again"))) }
    isCancelling = true
    toCancel.formUnion(names)
  }

  /// Says what is wrong, but not each time.
  func note(_ text: String, once kind: String) {
    guard awaySince == nil, lastNotes[kind].map({ ContinuousClock.now - $0 > .seconds(60) }) ?? true else { return }
    lastNotes[kind] = .now
    Console.shared.noteLater("ownedops: \(text)")
  }

  // MARK: The end of the run

  /// What has become of all. What an owner's end has cancelled was cancelled by that, also where the end of what it comes after was seen
  /// first.
  private var ends: [JobSchedule.End?] {
    zip(schedule.ends, courses).map { end, course in
      if case .blocked? = end, let reason = course.stop { .cancelled(reason, hasBegun: false) } else { end }
    }
  }

  func summary() -> (RunSummary, String) {
    let ends = ends
    var events: [JournalEvent] = []
    let (summary, text) = RunReport.summary(ends, of: file, before: journal.resumption.doneCount) { place, reason in
      if ends[place] != nil, past.ends[place] == nil { events.append(.cancelled(job: file.jobs[place].name, reason: reason)) }
    }
    if !hasLostLease, !leaves { journal.record(events) }
    return (summary, text)
  }

  /// Jobs go on without this process.
  var leaves: Bool { slurm.detaches && interruptions == 0 && !allHaveEnded }

  /// How many have not been submitted, and how many are with Slurm.
  var left: (unsubmitted: Int, submitted: Int) {
    let waiting = courses.indices.count { courses[$0].phase == .waiting && !schedule.hasEnded($0) }
    return (waiting, active.count)
  }

  func writeResults(_ summary: RunSummary) -> Bool {
    guard let results else { return true }
    let ends = ends
    return results.write(
      summary,
      file.jobs.indices.lazy.map { [self] place in
        let result = RunReport.result(ends[place], of: file)
        return RunReport.record(
          of: place, in: file, result, succeededBefore: result == .succeeded && journal.resumption.isDone[place],
          results.attempts(of: place))
      })
  }

  /// - Returns: false if nobody reads, and was not waited for.
  func finishPrinting(with line: String) -> Bool {
    printer.print(line)
    if interruptions > 1 { printer.giveUp(after: .milliseconds(500)) }
    return printer.finish()
  }
}

extension JobResults.Attempt {
  /// As it stands in a document of results.
  init?(_ value: JSONValue) {
    guard let begin = value["begin"]?.asTime, let end = value["end"]?.asTime else { return nil }
    self.begin = begin
    self.end = end
    exitStatus = value["exitStatus"]?.asInteger.map { Int32(truncatingIfNeeded: $0) }
    signal = value["signal"]?.asInteger.map { Int32(truncatingIfNeeded: $0) }
    userSeconds = value["userSeconds"]?.asNumber
    systemSeconds = value["systemSeconds"]?.asNumber
    peakMemory = value["peakMemory"]?.asInteger
  }
}
