import Foundation
import OwnedOperations

/// Jobs go to Slurm in topological order, as many as the window holds. Equal ones go as arrays.
extension SlurmSession {
  func submit() {
    guard mustSubmit, interruptions == 0, awaySince == nil, journal.failure == nil, calls.count < Self.mostAtOnce else { return }
    // Slurm takes a job that it has forgotten for one that has succeeded: what there is of an earlier runner is looked at first.
    guard past.underWay.isEmpty || hasSeenSlurm else { return }
    mustSubmit = false
    var groups: [(request: SlurmRequest, places: [Int])] = []
    var known: [SlurmRequest: Int] = [:]
    var taken: [Int] = Array(repeating: 0, count: file.owners.count)
    var room = slurm.window - active.count
    guard room > 0 else { return }
    // What has gone stays in the list until there is much of it. To look at all of it each time would take longer than sbatch.
    var passed = 0
    for place in unsubmitted {
      guard room > 0, limits.mostInArray > 1 || groups.count <= Self.mostAtOnce - calls.count else { break }
      guard isUnsubmitted(place) else {
        passed += 1
        continue
      }
      let job = file.jobs[place]
      guard reasonNotToStart(place) == nil, let dependencies = dependencies(of: place) else { continue }
      if let owner = job.owner {
        guard owners[owner].isAlive else { continue }
        if let most = file.owners[owner].mostConcurrent, activeOfOwner[owner] + taken[owner] >= most { continue }
        taken[owner] += 1
      }
      room -= 1
      let request = SlurmRequest(job, urgent: urgent, grace: options.grace, dependencies: dependencies)
      if let group = known[request], groups[group].places.count < limits.mostInArray {
        groups[group].places.append(place)
      } else {
        known[request] = groups.count
        groups.append((request, [place]))
      }
    }
    let now = groups.prefix(Self.mostAtOnce - calls.count)
    // There is more that could go.
    if groups.count > now.count { mustSubmit = true }
    for group in now { submit(group.places, group.request) }
    if passed > Self.mostPassed { unsubmitted.removeAll { !isUnsubmitted($0) } }
  }

  private static let mostPassed = 1000

  private func isUnsubmitted(_ place: Int) -> Bool { courses[place].phase == .waiting && !schedule.hasEnded(place) }

  /// More don't fit into an argument, at least not forever.
  private static let mostDependencies = 1000

  /// Slurm's names of those that it has to wait for. Nil if it has to wait here.
  private func dependencies(of place: Int) -> [String]? {
    var names: [String] = []
    for other in file.jobs[place].after {
      if succeeded[other] || file.jobs[place].runsAlways && schedule.hasEnded(other) { continue }
      let course = courses[other]
      guard course.phase == .submitted, course.stop == nil, course.hold == nil, !course.isOutdated, course.missingSince == nil,
        !schedule.hasEnded(other),
        names.count < Self.mostDependencies, let name = identifier(of: other)
      else { return nil }
      names.append(name)
    }
    return names
  }

  private func submit(_ places: [Int], _ request: SlurmRequest) {
    let number = nextSubmission
    let submission = SlurmFiles.Submission(number: number, mark: journal.mark.text, jobs: places.map { file.jobs[$0].name })
    nextSubmission = submission.next
    do throws(UsageError) {
      try files.makeRoom(for: number, jobs: places.count)
      try SlurmFiles.write(places.enumerated().flatMap { task($1, number, $0).line }, to: files.tasks(number))
      try files.note(submission, attempts: places.map { courses[$0].submissions + 1 })
    } catch {
      return journal.stop(error.description)
    }
    for place in places where journal.submit(file.jobs[place].name, attempt: courses[place].submissions + 1) != nil { return }
    submissions[number] = submission
    self.places[number] = places
    for (index, place) in places.enumerated() {
      _ = schedule.take(place)
      courses[place].phase = .submitting
      courses[place].submission = number
      courses[place].index = index
      courses[place].submissions += 1
      courses[place].missingSince = nil
      courses[place].isDropped = false
      courses[place].seenAt = nil
      activate(place)
    }
    calls.insert(number)
    nextPoll = min(nextPoll, ContinuousClock.now + Self.shortestPoll)
    pollInterval = Self.shortestPoll
    let lifetime = request.owner.map { owners[$0] } ?? root
    let ticket = SlurmTicket(number, mailbox)
    let (words, call) = (words(submission, request), call)
    queue.async(lifetime: lifetime) { ticket.run(words, call) }
  }

  private func task(_ place: Int, _ submission: Int, _ index: Int) -> SlurmTask {
    let job = file.jobs[place]
    var ends = [Self.allOwners]
    if !job.runsAlways, !options.keepsGoing { ends.append("failed") }
    var deadline: Double?
    var owner = job.owner
    while let current = owner {
      ends.append(Self.mark(ofOwner: current))
      if case .after(let time)? = file.owners[current].end { deadline = min(deadline ?? .infinity, begin + time.inSeconds) }
      owner = file.owners[current].parent
    }
    // The others have succeeded.
    let needs = job.runsAlways ? [] : job.after.filter { !succeeded[$0] }.map { courses[$0].withdrawal }
    return SlurmTask(
      run: journal.mark.text, job: job.name, workingDirectory: workingDirectory, command: job.command.words,
      directory: job.command.directory,
      environment: job.command.environment, timeout: job.timeout, retries: job.retries, grace: options.grace,
      logDirectory: options.logDirectory ?? files.logs(submission, index),
      ends: ends.map { "\(journal.mark.text).\($0)" } + ["\(submission).\(index)"], needs: needs, deadline: deadline,
      owner: job.owner.map { file.owners[$0].name })
  }

  private func words(_ submission: SlurmFiles.Submission, _ request: SlurmRequest) -> [String] {
    let name = String(Array(submission.jobs[0].utf8).escapedName.prefix(100))
    var words = [
      "sbatch", "--parsable", "--job-name=\(name)", "--comment=\(submission.comment)", "--chdir=\(workingDirectory)",
      "--output=\(SlurmPrograms.pattern(files.messages))", "--open-mode=append", "--input=/dev/null", "--export=ALL", "--no-requeue",
      "--kill-on-invalid-dep=yes",
    ]
    words += request.words(slurm)
    let isArray = submission.jobs.count > 1
    if isArray { words.append("--array=0-\(submission.jobs.count - 1)") }
    return words + [files.script, OwnProgram.path, files.root, String(submission.number), submission.mark] + (isArray ? ["array"] : [])
  }

  // MARK: Answers

  func didSubmit(_ number: Int, _ answer: SlurmPrograms.Answer?) {
    calls.remove(number)
    mustSubmit = true
    guard let answer else {
      // Its owner has ended.
      for place in places[number] ?? [] where courses[place].submission == number && !schedule.hasEnded(place) {
        end(place, .cancelled(courses[place].stop ?? explanation(of: place), hasBegun: false))
      }
      return forget(number)
    }
    if answer.isGood, let identifier = Self.identifier(in: answer.text) {
      do throws(UsageError) { try files.note(number, identifier: identifier) } catch { journal.stop(error.description) }
      return adopt(number, identifier)
    }
    if answer.isGood || answer.isPassing {
      doubtful[number] = polls
      nextPoll = min(nextPoll, ContinuousClock.now + Self.shortestPoll)
      note("sbatch: \(answer.message)", once: "sbatch")
      // An array is taken as a whole or not at all.
      if answer.isAboutTooMany { limits.mostInArray = max(1, (submissions[number]?.jobs.count ?? 1) / 2) }
      return
    }
    for place in places[number] ?? [] where courses[place].submission == number && !schedule.hasEnded(place) {
      if answer.isAboutDependencies, courses[place].refusals < Self.mostRefusals, courses[place].stop == nil, courses[place].hold == nil {
        // What it comes after has ended in the meantime: the next poll tells how.
        courses[place].refusals += 1
        withdraw(place)
      } else if let reason = courses[place].stop ?? courses[place].hold {
        end(place, .cancelled(reason, hasBegun: false))
      } else {
        finish(place, .failed("sbatch: \(answer.message)"), attempts: [], host: nil)
      }
    }
    forget(number)
    if answer.isAboutDependencies { mustSubmit = false }
  }

  /// The last line that is a number, or a number and a cluster.
  static func identifier(in text: String) -> String? {
    text.split(separator: "\n").last { line in
      let number = line.prefix { $0 != ";" }
      return !number.isEmpty && number.allSatisfy { $0.isASCII && $0.isNumber }
    }.map { String($0.prefix { $0 != ";" }) }
  }

  /// Slurm has it, by that number.
  func adopt(_ number: Int, _ identifier: String) {
    submissions[number]?.identifier = identifier
    for place in places[number] ?? [] where place >= 0 && courses[place].submission == number {
      let name = self.identifier(of: place)
      guard !schedule.hasEnded(place) else {
        deactivate(place)
        if let name {
          leftovers.insert(name)
          toCancel.insert(name)
        }
        continue
      }
      courses[place].phase = .submitted
      courses[place].adoptedAfter = polls
      courses[place].seenAt = .now
      guard let name else { continue }
      if courses[place].isOutdated {
        submitAnew(place)
      } else if courses[place].stop != nil {
        toCancel.insert(name)
      } else if courses[place].hold != nil {
        toHold.insert(name)
      }
    }
  }

  /// It has done nothing, and will not.
  func forget(_ number: Int) {
    // What it comes after did not succeed in the meantime.
    for place in places[number] ?? [] where place >= 0 && courses[place].submission == number && schedule.hasEnded(place) {
      deactivate(place)
    }
    doubtful[number] = nil
    submissions[number] = nil
    places[number] = nil
  }

  /// Its submission does nothing that it has not begun.
  func disown(_ place: Int) {
    guard let error = files.end(courses[place].withdrawal) else { return }
    journal.stop("can't write in \(files.root): \(RawFile.message(error))")
  }

  /// Back to what waits, for another submission. Should this one come late it will find that it must not begin.
  func withdraw(_ place: Int) {
    disown(place)
    deactivate(place)
    courses[place].phase = .waiting
    courses[place].isOutdated = false
    courses[place].hasBegun = false
    courses[place].missingSince = nil
    let rank = ranks[place]
    let spot = unsubmitted.firstIndex { ranks[$0] >= rank } ?? unsubmitted.count
    // It may not have been taken out yet.
    if spot == unsubmitted.count || unsubmitted[spot] != place { unsubmitted.insert(place, at: spot) }
    mustSubmit = true
    if let reason = courses[place].stop ?? courses[place].hold { end(place, .cancelled(reason, hasBegun: false)) }
  }

  /// Slurm is to be rid of it, and the run waits for that.
  func cancelLeftover(_ place: Int) {
    guard let name = identifier(of: place), lastTable[name]?.isOver != true else { return }
    leftovers.insert(name)
    toCancel.insert(name)
  }

  /// A job has no future with Slurm: its node was lost, it was refused, or it came after such a one. It gets another submission, and so
  /// does what comes after it, which with Slurm waits for this one.
  func submitAnew(_ place: Int) {
    var rest = [place]
    var seen: Set<Int> = [place]
    while let next = rest.popLast() {
      for follower in followers[next].map({ Int($0) }) where !schedule.hasEnded(follower) && seen.insert(follower).inserted {
        rest.append(follower)
      }
    }
    for place in seen {
      switch courses[place].phase {
      case .waiting: continue
      case .submitting: courses[place].isOutdated = true
      case .submitted:
        cancelLeftover(place)
        withdraw(place)
      }
    }
  }
}
