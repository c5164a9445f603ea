import Foundation
import Testing

@testable import OwnedOpsTool

/// What becomes of jobs on a cluster when their runner goes, and another comes.
@Suite(.timeLimit(.minutes(3)))
struct SlurmRunnerTests {
  /// Killed between taking a job back and submitting it anew, as after the loss of a node.
  @Test func whatWasWithdrawnBeforeItsRunnerDiedIsSubmittedAnew() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let before = try trial.die(after: ["a"])
    // Nobody knows whether it runs.
    let status = StatusReport(try JournalReader.read(trial.journal)).text
    #expect(status.hasPrefix("0 of 1 job succeeded, 1 with slurm\n") && status.contains("\nwith slurm:\n  a: for "))
    #expect(trial.files.end("0.0") == nil)
    let slurm = SlurmStandIn(trial.files) { _, submission in submission == 0 ? "CANCELLED" : "COMPLETED" }
    slurm.has(before[0])
    let journal = try trial.run(slurm, .attach)
    #expect(journal.jobs[0].state == .succeeded, "\(journal.jobs[0].reason)")
    #expect(slurm.calls(of: "sbatch").count == 1)
  }

  /// Killed in the midst of that: what comes after it waits with Slurm for what will not come.
  @Test func whatComesAfterAWithdrawnJobIsSubmittedAnewWithIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(
      SlurmGraph.text([SlurmGraph.job("a", ["x"]), SlurmGraph.job("next", ["x"], #""after":["a"]"#)]), in: directory)
    let before = try trial.die(after: ["a", "next"])
    #expect(trial.files.end("0.0") == nil)
    let slurm = SlurmStandIn(trial.files) { _, submission in submission < 2 ? "CANCELLED" : "COMPLETED" }
    for submission in before { slurm.has(submission) }
    let journal = try trial.run(slurm, .attach)
    #expect(journal.jobs.map(\.state) == [.succeeded, .succeeded], "\(journal.jobs.map(\.reason))")
    #expect(slurm.calls(of: "sbatch").count == 2)
  }

  /// While Slurm's controller was waited for another runner came and went.
  @Test(arguments: ["ended", "settings", "graph"]) func whoAttachesLooksAgainWhenTheJournalIsItsOwn(_ change: String) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory)
    try directory.write("g", SlurmGraph.text([SlurmGraph.job("a", ["x"])]))
    func run(_ arguments: String...) async throws -> ToolBinary.Outcome {
      try await ToolBinary.run(arguments, in: directory, environment: slurm.environment)
    }
    #expect(try await run("run", "g", "--engine", "slurm", "--journal", "j", "--detach").status == 0)
    let mark = try #require(try JournalReader.read(directory.path + "/j").runs.last).run.identifier
    try directory.write("ended", Data(JournalEvent.ended(run: mark).line()))
    try directory.write("settings", directory.read("j.slurm/run.json").replacingOccurrences(of: mark, with: "9.9"))
    try directory.write("graph", SlurmGraph.text([SlurmGraph.job("a", ["y"])]))
    let line = change == "ended" ? "cat ended >> j" : change == "settings" ? "cp settings j.slurm/run.json" : "cp graph j.slurm/graph.json"
    try directory.write("bin/scontrol", "#!/bin/sh\ncd \(directory.path)\n\(line)\necho MaxArraySize = 1\n")
    let before = directory.read("j")
    let outcome = try await run("attach", "j")
    #expect(outcome.status == 2 && outcome.errors.contains("another runner has gone on with"), "\(outcome.errors)")
    #expect(directory.read("j") == before + (change == "ended" ? directory.read("ended") : "") && !directory.contains("j.lease"))
  }

  /// An older Slurm, say, does not know an option.
  @Test func nothingIsSubmittedWhereNobodyTellsWhatBecomesOfIt() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory)
    try directory.write("g", SlurmGraph.text([SlurmGraph.job("a", ["x"])]))
    try directory.write("bin/squeue", "#!/bin/sh\necho \"squeue: unrecognized option '--me'\" >&2\nexit 1\n")
    let outcome = try await ToolBinary.run(
      ["run", "g", "--engine", "slurm", "--journal", "j", "--detach"], in: directory, environment: slurm.environment)
    #expect(outcome.status == 2 && outcome.errors == "ownedops: --engine slurm: squeue: unrecognized option '--me'\n", "\(outcome.errors)")
    #expect(!directory.contains("j") && !directory.contains("jobs"))
  }

  /// What only `sbatch` heeds would have jobs looked for where they are not.
  @Test func allProgramsAskOneCluster() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory, looking: #"echo "${SLURM_CLUSTERS-none}" >> asked"#)
    try directory.write("g", SlurmGraph.text([SlurmGraph.job("a", ["x"])]))
    func run(_ arguments: String..., more: [String: String]) async throws -> ToolBinary.Outcome {
      try await ToolBinary.run(arguments, in: directory, environment: slurm.environment.merging(more) { $1 })
    }
    for (more, text) in [
      (["SBATCH_CLUSTERS": "far"], "set SLURM_CLUSTERS"), (["SBATCH_CLUSTERS": "far", "SLURM_CLUSTERS": "near"], "set SLURM_CLUSTERS"),
      (["SLURM_CLUSTERS": "far,near"], "must name one cluster"), (["SLURM_CLUSTERS": "all"], "must name one cluster"),
    ] {
      let outcome = try await run("run", "g", "--engine", "slurm", "--journal", "j", "--detach", more: more)
      #expect(outcome.status == 2 && outcome.errors.contains(text), "\(outcome.errors)")
    }
    #expect(!directory.contains("j") && !directory.contains("jobs"))
    let far = ["SBATCH_CLUSTERS": "far", "SLURM_CLUSTERS": "far"]
    let left = try await run("run", "g", "--engine", "slurm", "--journal", "j", "--detach", more: far)
    #expect(left.status == 0, "\(left.errors)")
    // Also from where another is set.
    try directory.write("cancelled", "")
    let outcome = try await run("attach", "j", more: ["SLURM_CLUSTERS": "near", "SBATCH_CLUSTERS": "else"])
    #expect(outcome.status == 1, "\(outcome.errors)")
    #expect(!directory.lines("asked").isEmpty && directory.lines("asked").allSatisfy { $0 == "far" })
  }

  /// It is still to run as it was, and would run beside what it has become.
  @Test func whatIsWithSlurmIsNotSubmittedAsAnotherFileHasIt() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"]), SlurmGraph.job("b", ["x"])]), in: directory)
    try SlurmFiles.write(Array(SlurmGraph.text([SlurmGraph.job("a", ["x"]), SlurmGraph.job("b", ["x"])]).utf8), to: trial.files.graph)
    _ = try trial.die(after: ["a"])
    let before = directory.read("j")
    for name in SlurmPrograms.names {
      try directory.write("bin/\(name)", "#!/bin/sh\necho \(name) >> called\n")
      #expect(chmod("\(directory.path)/bin/\(name)", 0o755) == 0)
    }
    try directory.write("graph.json", SlurmGraph.text([SlurmGraph.job("a", ["y"]), SlurmGraph.job("b", ["x"])]))
    let path = "\(directory.path)/bin:\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
    for targets in [[], ["b"]] {
      let outcome = try await ToolBinary.run(
        ["run", "graph.json"] + targets + ["--engine", "slurm", "--journal", "j", "--resume"], in: directory, environment: ["PATH": path])
      #expect(outcome.status == 2)
      #expect(outcome.errors.contains("are with Slurm as another file had them; first see them end with ownedops attach"))
    }
    #expect(directory.read("j") == before && !directory.contains("j.lease"))
    #expect(directory.read("called") == "scontrol\nsqueue\nscontrol\nsqueue\n")
  }

  /// The failure kept it from beginning; that is not so in another try.
  @Test func whatAnEarlierTrysFailureKeptBackBeginsInTheNext() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let before = try trial.die(after: ["a"])
    let files = trial.files
    let name = "\(before[0].mark).failed"
    #expect(files.end(name) == nil)
    try SlurmFiles.write(SlurmStatus.line("refused", because: name), to: files.status(0, 0))
    let slurm = SlurmStandIn(files) { _, submission in submission == 0 ? "FAILED" : "COMPLETED" }
    slurm.has(before[0])
    let journal = try trial.run(slurm, .resume)
    #expect(journal.jobs[0].state == .succeeded, "\(journal.jobs[0].reason)")
  }

  @Test func anOwnerThatAnEarlierRunnerSawEndStaysEndedForWhoAttaches() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("alive", "again")
    let graph = SlurmGraph.text(
      [SlurmGraph.job("a", ["x"]), SlurmGraph.job("b", ["x"], #""owner":"o""#)],
      owners: #"{"name":"o","endsWhen":{"fileRemoved":"\#(directory.path)/alive"}}"#)
    let trial = try SlurmTrial(graph, in: directory)
    let before = try trial.die(after: ["a"])
    #expect(trial.files.end("\(before[0].mark).o0") == nil)
    let slurm = SlurmStandIn(trial.files) { _, _ in "COMPLETED" }
    slurm.has(before[0])
    let journal = try trial.run(slurm, .attach)
    #expect(journal.jobs.map(\.state) == [.succeeded, .cancelled])
    #expect(journal.jobs[1].reason == "its owner o ended: \(directory.path)/alive has gone")
    #expect(slurm.calls(of: "sbatch").isEmpty)
  }

  /// Killed after Ctrl-C, before all was cancelled.
  @Test func whoAttachesToARunThatWasInterruptedCancelsTheRest() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"]), SlurmGraph.job("b", ["x"])]), in: directory)
    let before = try trial.die(after: ["a"])
    #expect(trial.files.end("\(before[0].mark).all") == nil)
    let slurm = SlurmStandIn(trial.files) { _, _ in "PENDING" }
    slurm.has(before[0])
    let journal = try trial.run(slurm, .attach)
    #expect(journal.jobs.map(\.state) == [.cancelled, .cancelled] && journal.jobs.allSatisfy { $0.reason == "interrupted" })
    #expect(slurm.calls(of: "sbatch").isEmpty && slurm.calls(of: "scancel").first == ["scancel", "50"])
  }

  /// By the clock of its node it had failed long before the run began.
  @Test func whatHasFailedStaysSoThoughTheClockOfItsNodeIsLate() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let files = trial.files
    let slurm = SlurmStandIn(files) { _, submission in
      SlurmStandIn.end(submission, 0, files, result: "failed", exit: #""exitStatus":1"#)
      return "FAILED"
    }
    let first = try trial.run(slurm)
    #expect(first.jobs[0].state == .failed && first.jobs[0].endedAt == 1002.5)
    let second = try trial.run(slurm, .attach)
    #expect(second.jobs[0].state == .failed && slurm.calls(of: "sbatch").count == 1)
    // In another try it runs again.
    let third = try trial.run(SlurmStandIn(files) { _, _ in "COMPLETED" }, .resume)
    #expect(third.jobs[0].state == .succeeded)
  }

  /// Its runner on this machine was killed before it began. What it came to in an earlier run, on the cluster, is no end of it.
  @Test func anAttemptOnThisMachineHasNoSubmission() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let before = try trial.die(after: ["a"])
    SlurmStandIn.end(0, 0, trial.files, result: "failed", exit: #""exitStatus":1"#)
    let local = JournalRun(identifier: "1.1", runner: .current, keeper: .current, grace: .zero, keepsOrphans: false)
    let events: [JournalEvent] = [
      .failed(job: "a", attempts: 1, reason: "exit status 1", output: ""), .ended(run: before[0].mark), .run(local),
      .submitted(job: "a", attempt: 1), .kept(run: "1.1"),
    ]
    let descriptor = open(trial.journal, O_WRONLY | O_APPEND | O_CLOEXEC)
    #expect(JournalFile.append(events.flatMap { $0.line() }, to: descriptor) == nil)
    close(descriptor)
    let slurm = SlurmStandIn(trial.files) { _, submission in submission == 0 ? nil : "COMPLETED" }
    let journal = try trial.run(slurm, .resume)
    #expect(journal.jobs[0].state == .succeeded, "\(journal.jobs[0].reason)")
  }

  /// Standard error is a pipe that is full, and what is said first is that somebody holds the job.
  @Test func anOwnerEndsThoughNobodyReadsWhatIsSaid() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory, looking: "[ ! -e asked ] || rm -f flag; touch asked")
    try directory.write("flag", "")
    try directory.write(
      "g", SlurmGraph.text([SlurmGraph.job("a", ["x"], #""owner":"o""#)], owners: #"{"name":"o","endsWhen":{"fileRemoved":"flag"}}"#))
    #expect(mkfifo(directory.path + "/errors", 0o600) == 0)
    let pipe = open(directory.path + "/errors", O_RDWR | O_NONBLOCK | O_CLOEXEC)
    defer { close(pipe) }
    while Foundation.write(pipe, "x", 1) == 1 {}
    let child = try Child(
      [ToolBinary.url.path, "run", "g", "--engine", "slurm", "-q"], in: directory, environment: slurm.environment,
      output: directory.path + "/out", errors: directory.path + "/errors")
    #expect(await child.status() == 1)
    #expect(directory.read("cancelled") == "7\n")
    #expect(directory.read("out").hasSuffix("0 succeeded, 0 failed, 1 cancelled\n"))
  }

  /// Of an answer that a full disk cuts off nobody would know.
  @Test func answersOfSlurmNeedNoRoomOnADisk() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory)
    try directory.write("g", SlurmGraph.text([SlurmGraph.job("a", ["x"])]))
    let environment = slurm.environment.merging(["TMPDIR": directory.path + "/nowhere"]) { $1 }
    let left = try await ToolBinary.run(
      ["run", "g", "--engine", "slurm", "--journal", "j", "--detach"], in: directory, environment: environment)
    #expect(left.output.hasPrefix("1 job with Slurm\n"), "\(left.output)\(left.errors)")
  }

  /// From another login node, whose processes can't be seen from here.
  @Test func whoAttachesTakesOverFromARunnerThatIsSilent() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let slurm = try SlurmScripts(in: directory)
    try directory.write("g", SlurmGraph.text([SlurmGraph.job("a", ["x"])]))
    func run(_ arguments: String...) async throws -> ToolBinary.Outcome {
      try await ToolBinary.run(arguments, in: directory, environment: slurm.environment)
    }
    let left = try await run("run", "g", "--engine", "slurm", "--journal", "j", "--detach")
    #expect(left.output.hasPrefix("1 job with Slurm\n"), "\(left.output)\(left.errors)")
    var lease = JournalLine("lease")
    for (key, value) in [("run", "other"), ("host", "far"), ("machine", "another"), ("birth", "1")] { lease.add(key, value) }
    lease.add("process", 1)
    for key in ["start", "heartbeat"] { lease.add(key, time: WallClock.now - 61) }
    try directory.write("j.lease", Data(lease.bytes))
    let refused = try await run("attach", "j")
    #expect(refused.status == 2 && refused.errors.contains("process 1 on far") && refused.errors.contains("give --take-over"))
    try directory.write("cancelled", "")
    let outcome = try await run("attach", "j", "--take-over")
    #expect(outcome.status == 1 && outcome.errors.contains("taken over from process 1 on far"), "\(outcome.errors)")
    #expect(outcome.output == "cancelled a: cancelled by somebody else\n0 succeeded, 0 failed, 1 cancelled\n")
  }

  /// The number of a process that has gone is another's by now.
  @Test func anOwnersProcessIsNotTakenForAnotherOfItsNumber() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text(
      [SlurmGraph.job("a", ["x"], #""owner":"o""#)], owners: #"{"name":"o","endsWhen":{"process":\#(getpid())}}"#)
    let trial = try SlurmTrial(graph, in: directory)
    _ = try trial.die(after: [])
    let slurm = SlurmStandIn(trial.files) { _, _ in "COMPLETED" }
    let journal = try trial.run(slurm, .attach, births: ["\(getpid())": "another time"])
    #expect(journal.jobs[0].state == .cancelled && slurm.calls(of: "sbatch").isEmpty)
    let owners = trial.file.owners
    let path = directory.path + "/run.json"
    let settings = SlurmSettings(RunOptions(), SlurmOptions(), run: "1.1", owners: owners)
    try SlurmFiles.write(settings.bytes, to: path)
    let known = try SlurmSettings(path)
    #expect(known.run == "1.1" && known.births == ["\(getpid())": ProcessFields(of: getpid())?.birth])
  }

  /// It was stopped for so long that somebody has taken over, with the same numbers for submissions.
  @Test func aRunnerThatHasLostItsJournalWritesNothingOverItsSuccessors() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let trial = try SlurmTrial(SlurmGraph.text([SlurmGraph.job("a", ["x"])]), in: directory)
    let files = trial.files
    try files.makeRoom(for: 0)
    let task = SlurmTrial.task("a", of: "9.9", files)
    let slurm = SlurmStandIn(files) { _, _ in "COMPLETED" }
    let options = RunOptions()
    let hold = try RunJournal(
      JournalOptions(path: trial.journal), trial.file, engine: SlurmCommand.engine, now: WallClock.now - JournalLease.patience)
    let session = SlurmSession(
      trial.file, options, SlurmOptions(), limits: SlurmLimits(""), files: files, journal: hold, results: nil, begin: WallClock.now,
      past: SlurmSession.Past(), call: { slurm.call($0) })
    let other = JournalLease.Record(identifier: "9.9", holder: .current, start: WallClock.now, heartbeat: WallClock.now)
    try Data(other.bytes).write(to: URL(fileURLWithPath: hold.leasePath))
    try SlurmFiles.write(task.line, to: files.tasks(0))
    _ = session.run()
    hold.abandon()
    #expect(session.hasLostLease && slurm.calls(of: "sbatch").isEmpty)
    #expect(SlurmTask(files, 0, 0) == task && files.readSubmissions().isEmpty)
  }

  // MARK: What Slurm starts late

  /// The files of its run were removed, and another has begun in their place, with the same numbers.
  @Test func aJobOfARunThatIsNoMoreDoesNothing() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    try files.create()
    try files.makeRoom(for: 0)
    let task = SlurmTrial.task("a", of: "2.2", files, ["touch", directory.path + "/touched"])
    try SlurmFiles.write(task.line, to: files.tasks(0))
    let old = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "1.1", ""], in: directory)
    #expect(old.status == 1 && old.errors.contains("is another run's by now"), "\(old.errors)")
    #expect(files.status(of: "0.0") == nil && !directory.contains("touched"))
    let new = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "2.2", ""], in: directory)
    #expect(new.status == 0 && directory.contains("touched"), "\(new.errors)")
  }

  /// `"slurm": ["--requeue"]`, and its node was wanted for something else.
  @Test func whatSlurmEndedToRunItAgainRunsAgain() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    try files.create()
    try files.makeRoom(for: 0)
    let task = SlurmTrial.task("a", of: "2.2", files, ["sh", "-c", "echo + >> \(directory.path)/tries"])
    try SlurmFiles.write(task.line, to: files.tasks(0))
    func end(_ result: String) throws {
      let document = "{\"jobs\":[{\"name\":\"a\",\(result),\"attempts\":[]}]}\n"
      try SlurmFiles.write(Array(document.utf8) + SlurmStatus.line("ended"), to: files.status(0, 0))
    }
    for (result, tries) in [
      (#""result":"failed","reason":"exit status 1""#, 0), (#""result":"succeeded""#, 0),
      (#""result":"cancelled","reason":"interrupted""#, 1),
    ] {
      try end(result)
      _ = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "2.2", ""], in: directory)
      #expect(directory.lines("tries").count == tries)
    }
    #expect(files.status(of: "0.0")?.course == .ended(.succeeded))
  }
}
