import Foundation
import Testing

@testable import OwnedOpsTool

/// What the cluster engine makes of answers that a small cluster does not give.
@Suite(.timeLimit(.minutes(3)))
struct SlurmAnswersTests {
  @Test func whatSlurmEndedIsNamedAndWhatItForgotIsLost() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let states = ["OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "CANCELLED", "FAILED"]
    let jobs =
      states.map { SlurmGraph.job($0, ["x"]) } + [
        SlurmGraph.job("forgotten", ["x"], #""cpus":2"#), SlurmGraph.job("next", ["x"], #""after":["forgotten"]"#),
      ]
    let trial = try SlurmTrial(SlurmGraph.text(jobs), in: directory)
    let slurm = SlurmStandIn(trial.files) { job, _ in states.contains(job) ? job : job == "next" ? "PENDING" : nil }
    let journal = try trial.run(slurm)
    let reasons = Dictionary(uniqueKeysWithValues: journal.jobs.map { ($0.definition.name, $0.reason) })
    #expect(reasons["OUT_OF_MEMORY"] == "ended by Slurm on n1: out of memory")
    #expect(reasons["TIMEOUT"] == "ended by Slurm on n1: its time limit was reached")
    #expect(reasons["PREEMPTED"] == "ended by Slurm on n1: preempted")
    #expect(reasons["CANCELLED"] == "cancelled by somebody else")
    #expect(reasons["FAILED"]?.hasPrefix("lost: Slurm says that it has ended, and it has left no status; it may never have begun") == true)
    #expect(reasons["forgotten"]?.hasPrefix("lost: Slurm knows nothing of it, and it has left no status") == true)
    #expect(reasons["next"] == "forgotten did not succeed")
    #expect(journal.jobs.map(\.state) == [.failed, .failed, .failed, .cancelled, .failed, .failed, .cancelled])
  }

  @Test func aJobThatLosesEveryNodeFailsInTheEnd() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("unlucky", ["x"])]), in: directory)
    let slurm = SlurmStandIn(trial.files) { _, _ in "NODE_FAIL" }
    let journal = try trial.run(slurm)
    #expect(journal.jobs[0].reason == "its node was lost on n1, for the 4th time")
    #expect(slurm.calls(of: "sbatch").count == 4)
  }

  /// Slurm's signal has come to the command before its wrapper.
  @Test func whatALostNodesSignalEndedRunsAgain() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let files = trial.files
    let slurm = SlurmStandIn(files) { _, submission in
      guard submission == 0 else { return "COMPLETED" }
      SlurmStandIn.end(submission, 0, files, result: "failed", exit: #""signal":15"#)
      return "NODE_FAIL"
    }
    let journal = try trial.run(slurm)
    #expect(journal.jobs[0].state == .succeeded && journal.jobs[0].attempt == 2)
  }

  /// Of a user who may have three jobs at a time, Slurm takes no array of eight.
  @Test func whatIsTooManyForSlurmIsSubmittedInParts() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text((0..<8).map { SlurmGraph.job("j\($0)", ["x"]) }), in: directory)
    let slurm = SlurmStandIn(
      trial.files,
      submit: { jobs, _ in
        jobs.count <= 3
          ? nil
          : .init(
            status: 1,
            text: "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n")
      },
      stateOf: { _, _ in "COMPLETED" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.allSatisfy { $0.state == .succeeded })
    #expect(slurm.calls(of: "sbatch").compactMap { $0.first { $0.hasPrefix("--array=") } }.prefix(2) == ["--array=0-7", "--array=0-3"])
  }

  /// Each waits until all have been called.
  @Test func submissionsOverlap() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = SlurmSession.mostAtOnce
    let trial = try SlurmTrial(SlurmGraph.text((1...count).map { SlurmGraph.job("j\($0)", ["x"], "\"cpus\":\($0)") }), in: directory)
    let calls = Guarded(0)
    let slurm = SlurmStandIn(
      trial.files,
      submit: { _, words in
        #expect(words.contains("--kill-on-invalid-dep=yes") && words.contains("--no-requeue"))
        calls.withLock { $0 += 1 }
        let deadline = ContinuousClock.now + .seconds(60)
        while calls.withLock({ $0 < count }) {
          guard .now < deadline else { return .init(status: 1, text: "sbatch: error: alone\n") }
          usleep(1000)
        }
        return nil
      }, stateOf: { _, _ in "COMPLETED" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.allSatisfy { $0.state == .succeeded }, "\(journal.jobs.map(\.reason))")
  }

  /// One call for all jobs, at most once in two seconds, and more seldom while it gets the same answers.
  @Test func slurmIsAskedMoreSeldomWhenNothingChanges() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let hold = try RunJournal(JournalOptions(path: trial.journal), trial.file, engine: SlurmCommand.engine)
    defer { hold.abandon() }
    let asked = Guarded(0)
    let session = SlurmSession(
      trial.file, RunOptions(), SlurmOptions(), limits: SlurmLimits("MinJobAge = 40"), files: trial.files, journal: hold, results: nil,
      begin: WallClock.now, past: SlurmSession.Past(),
      call: { _ in
        asked.withLock { $0 += 1 }
        return .init(status: 1, text: "nobody should ask")
      })
    session.activate(0)
    let row = "1|RUNNING|ownedops:\(hold.mark.text):0|n1|None\n"
    var pauses: [Double] = []
    for (number, text) in ([row] + Array(repeating: row, count: 5) + [row.replacingOccurrences(of: "RUNNING", with: "PENDING")])
      .enumerated()
    {
      let before = ContinuousClock.now
      session.didPoll(number, .init(status: 0, text: text))
      pauses.append(session.pollInterval.inSeconds)
      #expect(session.nextPoll >= before + session.pollInterval && session.mustPoll)
      // Not yet.
      session.poll()
      // Unless the machine took that long.
      if ContinuousClock.now >= session.nextPoll { return }
      #expect(!session.isPolling)
    }
    // No more seldom than that nothing is forgotten meanwhile.
    #expect(pauses == [2, 3, 4.5, 6.75, 10, 10, 2])
    #expect(asked.withLock { $0 } == 0)
  }

  @Test func jobsAreKnownByTheirNumbersWhereCommentsAreNotKept() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("a", ["x"]), SlurmGraph.job("b", ["x"]), SlurmGraph.job("c", ["x"], #""cpus":2"#)]), in: directory)
    let polls = Guarded(0)
    let slurm = SlurmStandIn(
      trial.files, polled: { polls.withLock { $0 += 1 } }, showsComments: false,
      stateOf: { _, _ in polls.withLock { $0 } < 2 ? "RUNNING" : "COMPLETED" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.allSatisfy { $0.state == .succeeded }, "\(journal.jobs.map(\.reason))")
  }

  /// A session of which somebody else hears the calls.
  private func quietSession(_ file: RunFile, _ files: SlurmFiles, _ hold: RunJournal) -> SlurmSession {
    var options = SlurmOptions()
    options.window = file.jobs.count
    return SlurmSession(
      file, RunOptions(), options, limits: SlurmLimits(""), files: files, journal: hold, results: nil, begin: WallClock.now,
      past: SlurmSession.Past(), call: { _ in .init(status: nil, text: "") })
  }

  /// Each of them is a call of `sbatch`, and to look at all that waits for each takes minutes.
  @Test func submissionsTakeNoLongerWhenMuchWaits() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let (count, submitted) = (50_000, 400)
    let jobs = (0..<count).map { RunFile.Job(name: "j\($0)", command: .init(words: ["x"])) }
    let trial = try SlurmTrial(RunFile(owners: [], jobs: jobs), in: directory)
    var files = trial.files
    files.synchronize = { _ in nil }
    let hold = try RunJournal(JournalOptions(path: trial.journal), trial.file, engine: SlurmCommand.engine)
    defer { hold.abandon() }
    let session = quietSession(trial.file, files, hold)
    session.unsubmitted = Array(jobs.indices)
    session.ranks = session.unsubmitted
    let start = ProcessorTime.ofThread
    var answered = 0
    while answered < submitted {
      session.submit()
      let calls = session.calls.sorted()
      #expect(calls.count == SlurmSession.mostAtOnce)
      for number in calls { session.didSubmit(number, .init(status: 0, text: "\(1000 + number)\n")) }
      answered += calls.count
    }
    let time = ProcessorTime.ofThread - start
    print("\(answered) submissions with \(count) jobs that wait: \(time) of a processor")
    #expect(session.courses.prefix(answered).allSatisfy { $0.phase == .submitted } && session.active.count == answered)
    #expect(time < .seconds(20))
  }

  /// Each of them cancels its own jobs.
  @Test func thousandsOfOwnersEndAtOneTime() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = 4000
    let owners = (0..<count).map { number in
      RunFile.Owner(name: "o\(number)", parent: number % 2 == 0 ? nil : number - 1, end: .fileRemoved("nothing"))
    }
    let jobs = (0..<count * 10).map { number in
      var job = RunFile.Job(name: "j\(number)", command: .init(words: ["x"]))
      job.owner = number / 10
      return job
    }
    let trial = try SlurmTrial(RunFile(owners: owners, jobs: jobs), in: directory)
    let hold = try RunJournal(JournalOptions(path: trial.journal), trial.file, engine: SlurmCommand.engine)
    defer { hold.abandon() }
    let session = quietSession(trial.file, trial.files, hold)
    session.unsubmitted = Array(jobs.indices)
    session.ranks = session.unsubmitted
    let start = ProcessorTime.ofThread
    for place in owners.indices { session.endOwner(place, .fileRemoved("nothing")) }
    let time = ProcessorTime.ofThread - start
    print("\(count) owners that end, with \(jobs.count) jobs on a cluster: \(time) of a processor")
    #expect(session.allHaveEnded && time < .seconds(20))
  }

  /// Most parallel file systems are slow with large ones.
  @Test func noDirectoryOfARunHoldsMoreThanAThousandFilesOfAKind() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text((0..<1_010).map { SlurmGraph.job("j\($0)", ["x"]) }), in: directory)
    let journal = try trial.run(SlurmStandIn(trial.files, stateOf: { _, _ in "COMPLETED" }), limits: "MaxArraySize = 31")
    #expect(journal.jobs.allSatisfy { $0.state == .succeeded })
    #expect(trial.files.readSubmissions().values.contains { $0.jobs.count > 1 })
    let statuses = try FileManager.default.subpathsOfDirectory(atPath: trial.files.root + "/status").filter { $0.contains("/") }
    #expect(statuses.count == 1_010)
    let counts = Dictionary(grouping: statuses) { $0.prefix { $0 != "/" } }.mapValues(\.count)
    #expect(counts == ["0": 1000, "1": 10])
    // The wrapper is told where its log is to be.
    let logs = trial.files.readSubmissions().values.flatMap { submission in
      submission.jobs.indices.compactMap { SlurmTask(trial.files, submission.number, $0)?.logDirectory }
    }
    #expect(Dictionary(grouping: logs) { $0 }.mapValues(\.count).values.sorted() == [10, 1000])
    for path in Set(logs) { #expect(access(path, W_OK) == 0) }
  }

  /// That is what becomes of a task of an array that is cancelled while it waits.
  @Test func whatVanishesFromAnArrayWasCancelled() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text(["a", "b", "c"].map { SlurmGraph.job($0, ["x"]) } + [SlurmGraph.job("next", ["x"], #""after":["b"]"#)]), in: directory
    )
    let slurm = SlurmStandIn(trial.files) { job, _ in job == "b" ? nil : job == "next" ? "PENDING" : "COMPLETED" }
    let journal = try trial.run(slurm, patience: .seconds(20))
    #expect(journal.jobs.map(\.state) == [.succeeded, .cancelled, .succeeded, .cancelled])
    #expect(journal.jobs[1].reason == "cancelled by somebody else" && journal.jobs[3].reason == "b did not succeed")
  }

  @Test func timesAreThoseOfTheNode() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let journal = try trial.run(SlurmStandIn(trial.files) { _, _ in "COMPLETED" })
    #expect(journal.jobs[0].state == .succeeded && journal.jobs[0].startedAt == 1000 && journal.jobs[0].endedAt == 1002.5)
  }

  /// `squeue` has looked before `sbatch` had its effect, and says so afterwards.
  @Test func anAnswerFromBeforeASubmissionSaysNothingOfIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("early", ["x"]), SlurmGraph.job("late", ["x"], #""cpus":2"#)]), in: directory)
    let hasLooked = DispatchSemaphore(value: 0)
    let polls = Guarded(0)
    let files = trial.files
    let slurm = SlurmStandIn(
      files,
      submit: { jobs, _ in
        if jobs == ["late"] { hasLooked.wait() }
        return nil
      },
      polled: {
        let count = polls.withLock { polls in
          polls += 1
          return polls
        }
        guard count == 1 else { return }
        hasLooked.signal()
        // The runner writes it down when it has heard of it.
        while !files.readSubmissions().values.contains(where: { $0.jobs == ["late"] && $0.identifier != nil }) { usleep(1000) }
      },
      stateOf: { _, _ in "COMPLETED" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.succeeded, .succeeded], "\(journal.jobs.map(\.reason))")
  }

  // MARK: What comes after others

  /// Slurm forgets in minutes, and what it comes after may take hours.
  @Test func whatSomebodyCancelledIsNotLostWhenSlurmForgetsIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("long", ["x"]), SlurmGraph.job("next", ["x"], #""after":["long"]"#)]), in: directory)
    let questions = Guarded(0)  // for `next`
    let files = trial.files
    let slurm = SlurmStandIn(files) { job, _ in
      // What is said before the runner knows of the submission does not count.
      let isKnown = files.readSubmissions().values.contains { $0.jobs == ["next"] && $0.identifier != nil }
      return questions.withLock { questions in
        if job == "long" { return questions < 5 ? "RUNNING" : "COMPLETED" }
        if isKnown { questions += 1 }
        return questions <= 3 ? "CANCELLED" : nil
      }
    }
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.succeeded, .cancelled])
    #expect(journal.jobs[1].reason == "cancelled by somebody else")
  }

  /// With Slurm it waits for a submission that has come to nothing.
  @Test func whatComesAfterAJobThatIsSubmittedAnewIsSubmittedAnew() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("first", ["x"]), SlurmGraph.job("next", ["x"], #""after":["first"]"#)]), in: directory)
    let files = trial.files
    let slurm = SlurmStandIn(files) { job, submission in
      guard submission < 2 else { return "COMPLETED" }
      // Not before `next` is with Slurm, too.
      guard job == "first", files.readSubmissions().values.contains(where: { $0.jobs == ["next"] && $0.identifier != nil }) else {
        return "PENDING"
      }
      try? SlurmFiles.write(SlurmStatus.line("refused", because: "0.0"), to: files.status(0, 0))
      return "FAILED"
    }
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.succeeded, .succeeded], "\(journal.jobs.map(\.reason))")
    let dependencies = slurm.calls(of: "sbatch").map { $0.first { $0.hasPrefix("--dependency") } }
    #expect(dependencies == [nil, "--dependency=afterok:100", nil, "--dependency=afterok:102"])
  }

  /// `sbatch` answers for what comes after a failed job while `squeue` is asked.
  @Test func theRunDoesNotEndBeforeSlurmIsRidOfWhatCannotBegin() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("bad", ["x"]), SlurmGraph.job("next", ["x"], #""after":["bad"]"#)]), in: directory)
    let slurm = trial.standInWhereNextIsSubmittedWhileAsked { job, _ in job == "bad" ? "OUT_OF_MEMORY" : "PENDING" }
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.failed, .cancelled] && journal.jobs[1].reason == "bad did not succeed")
    expectCancelled("101", slurm)
  }

  /// Once, or more often: it is asked for again while Slurm has not said that it is done.
  private func expectCancelled(_ identifier: String, _ slurm: SlurmStandIn, atLeast count: Int = 1) {
    let calls = slurm.calls(of: "scancel")
    #expect(calls.count >= count && calls.allSatisfy { $0 == ["scancel", identifier] }, "\(calls)")
  }

  /// `sbatch` answers when what it comes after is known to have failed.
  @Test func whatEndsWhileItIsSubmittedIsCancelledThere() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("bad", ["x"]), SlurmGraph.job("next", ["x"], #""after":["bad"]"#)]), in: directory)
    let slurm = SlurmStandIn(
      trial.files,
      submit: { jobs, _ in
        while jobs == ["next"], !directory.read("j").contains(#""event":"failed","job":"bad""#) { usleep(1000) }
        return nil
      }, stateOf: { job, _ in job == "bad" ? "OUT_OF_MEMORY" : "PENDING" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.failed, .cancelled] && journal.jobs[1].reason == "bad did not succeed")
    expectCancelled("101", slurm)
  }

  /// A job that ends while nobody knows whether Slurm has it takes none of its owner's places for ever.
  @Test func whatWasNeverSubmittedTakesNoPlaceOfItsOwner() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text(
        [
          SlurmGraph.job("bad", ["x"]), SlurmGraph.job("next", ["x"], #""after":["bad"],"owner":"o""#),
          SlurmGraph.job("tidy", ["x"], #""after":["next"],"when":"always","owner":"o""#),
        ], owners: #"{"name":"o","maxConcurrent":1}"#), in: directory)
    let slurm = trial.standInWhereNextIsSubmittedWhileAsked(answer: .init(status: nil, text: "")) { job, _ in
      job == "bad" ? "OUT_OF_MEMORY" : "COMPLETED"
    }
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.failed, .cancelled, .succeeded], "\(journal.jobs.map(\.reason))")
  }

  // MARK: What goes wrong

  /// The controller goes while the only job is submitted, which Slurm then refuses: nothing is with it.
  @Test func aControllerThatIsAwayIsAskedAgainWhenNothingIsWithIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("bad", ["x"]), SlurmGraph.job("tidy", ["x"], #""after":["bad"],"when":"always""#)]), in: directory)
    let polls = Guarded(0)
    // It is known that the controller is away when it is asked again.
    let isAskedAgain = DispatchSemaphore(value: 0)
    let slurm = SlurmStandIn(
      trial.files,
      answer: { words in
        guard words[0] == "squeue" else { return nil }
        let poll = polls.withLock { polls in
          polls += 1
          return polls
        }
        if poll == 2 { isAskedAgain.signal() }
        return poll > 2 ? nil : .init(status: 1, text: "squeue: error: Unable to contact slurm controller (connect failure)")
      },
      submit: { jobs, _ in
        guard jobs == ["bad"] else { return nil }
        isAskedAgain.wait()
        return .init(status: 1, text: "sbatch: error: invalid partition specified: x")
      },
      stateOf: { _, _ in "COMPLETED" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs.map(\.state) == [.failed, .succeeded], "\(journal.jobs.map(\.reason))")
  }

  @Test func whatScancelDidNotDoIsAskedForAgain() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("alive", "")
    let alive = directory.path + "/alive"
    let graph = SlurmGraph.text(
      [SlurmGraph.job("a", ["x"], #""owner":"o""#)], owners: #"{"name":"o","endsWhen":{"fileRemoved":"\#(alive)"}}"#)
    let trial = try SlurmTrial(graph, in: directory)
    let calls = Guarded(0)
    let files = trial.files
    let slurm = SlurmStandIn(
      files,
      answer: { words in
        guard words[0] == "scancel" else { return nil }
        let isFirst = calls.withLock { calls in
          calls += 1
          return calls == 1
        }
        return isFirst ? .init(status: 1, text: "scancel: error: no memory") : nil
      }, polled: { Self.remove(alive, onceKnown: files) }, stateOf: { _, _ in "RUNNING" })
    let journal = try trial.run(slurm)
    #expect(journal.jobs[0].state == .cancelled && journal.jobs[0].reason.hasPrefix("its owner o ended"))
    expectCancelled("100", slurm, atLeast: 2)
  }

  /// Removes a file, but not before the runner knows all that Slurm has: of what it does not know it asks for nothing.
  private static func remove(_ path: String, onceKnown files: SlurmFiles) {
    if files.readSubmissions().values.contains(where: { $0.identifier != nil }) { unlink(path) }
  }

  /// They have to fit among the arguments of a program.
  @Test func manyAreCancelledInAsFewCallsAsHoldTheirNames() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("alive", "")
    let alive = directory.path + "/alive"
    let graph = SlurmGraph.text(
      (0..<5).map { SlurmGraph.job("j\($0)", ["x"], #""owner":"o""#) },
      owners: #"{"name":"o","endsWhen":{"fileRemoved":"\#(alive)"}}"#)
    let trial = try SlurmTrial(graph, in: directory)
    let files = trial.files
    let slurm = SlurmStandIn(files, polled: { Self.remove(alive, onceKnown: files) }, stateOf: { _, _ in "RUNNING" })
    let journal = try trial.run(slurm, mostInScancel: 2)
    #expect(journal.jobs.allSatisfy { $0.state == .cancelled })
    let calls = slurm.calls(of: "scancel").map { $0.dropFirst() }
    #expect(calls.allSatisfy { $0.count <= 2 } && Set(calls.joined()) == Set((0..<5).map { "100_\($0)" }))
  }

  @Test func limitsAreReadFromWhatTheControllerSays() {
    let limits = SlurmLimits("Configuration data\nMaxArraySize            = 1001\nMinJobAge               = 30 sec\n")
    #expect(limits.mostInArray == 1000 && limits.longestPoll == .seconds(7))
    #expect(SlurmLimits("").mostInArray == 1 && SlurmLimits("MinJobAge = 300 sec").longestPoll == .seconds(20))
  }
}
