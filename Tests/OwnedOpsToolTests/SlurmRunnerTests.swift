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
    #expect(directory.read("called") == "scontrol\nscontrol\n")
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
    let settings = SlurmSettings(RunOptions(), SlurmOptions(), owners: owners)
    try SlurmFiles.write(settings.bytes, to: path)
    #expect(try SlurmSettings(path).births == ["\(getpid())": ProcessFields(of: getpid())?.birth])
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
