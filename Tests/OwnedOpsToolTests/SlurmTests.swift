import Foundation
import Testing

@testable import OwnedOpsTool

/// Graphs of commands on a cluster.
@Suite(.serialized, .enabled(if: SlurmCluster.isAvailable, SlurmCluster.notice), .timeLimit(.minutes(2)))
struct SlurmTests {
  private func lastLine(_ outcome: ToolBinary.Outcome) -> Substring { outcome.output.split(separator: "\n").last ?? "" }

  // MARK: What jobs are

  @Test func aDiamondRunsInOrder() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("last", "echo last >> log", #""after":["left","right"]"#), SlurmGraph.shell("first", "echo first >> log; echo said"),
      SlurmGraph.shell("left", "echo left >> log", #""after":["first"]"#),
      SlurmGraph.shell("right", "echo right >> log", #""after":["first"]"#),
    ])
    let outcome = try await cluster.run("run", "-", "--engine", "slurm", in: directory, input: graph)
    #expect(outcome.status == 0, "\(outcome.errors)")
    #expect(lastLine(outcome) == "4 succeeded, 0 failed, 0 cancelled")
    #expect(outcome.output.contains(")\nsaid\n"))
    let log = directory.lines("log")
    #expect(log.first == "first" && log.last == "last" && log.sorted() == ["first", "last", "left", "right"])
    // The journal had no name, and all is done.
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted() == ["log"])
  }

  @Test func argumentsDirectoryAndEnvironmentComeAsTheyAre() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let awkward = [
      "", " ", "a b", "it's", "\"q\"", "new\nline", "tab\t", "back\\slash", "$HOME", "`id`", "*", "~", "#x", "-n", "--", "é\u{1F600}", "%j",
      "\r",
      ";&|<>", "a=b", "!1", "\u{1}\u{1b}[0m",
    ]
    try directory.write("some dir/x", "")
    // Once alone and twice as an array.
    let line = #"printf '%s\0' "$@" > "$OUT"; pwd >> "../where""#
    let jobs = ["one", "two", "three"].map { name in
      SlurmGraph.job(
        name, ["sh", "-c", line, "sh"] + awkward,
        "\"directory\":\"some dir\",\"environment\":{\"OUT\":\"../\(name) out\\n\"}\(name == "one" ? ",\"cpus\":2" : "")")
    }
    let outcome = try await cluster.run("run", "-", "--engine", "slurm", in: directory, input: SlurmGraph.text(jobs))
    #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
    for name in ["one", "two", "three"] { #expect(directory.read("\(name) out\n") == awkward.map { $0 + "\0" }.joined()) }
    #expect(Set(directory.lines("where")).count == 1 && directory.read("where").hasSuffix("/some dir\n"))
  }

  /// Slurm puts the number of the job in place of `%j`, where it knows no better.
  @Test(arguments: ["100%j", #"back\slash%A"#, "it's a %%\n"]) func directoriesMayHaveAnyName(_ name: String) async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("\(name)/graph.json", SlurmGraph.text([SlurmGraph.shell("a", "pwd > where")]))
    let line = "cd \(ShellText.quoted(name)) && SLURM_CONF=\(ShellText.quoted(cluster.configuration))"
    let outcome = try await ToolBinary.shell("\(line) \"$OWNEDOPS\" run graph.json --engine slurm", in: directory)
    #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
    #expect(directory.read("\(name)/where").hasSuffix("/\(name)\n"))
  }

  @Test func equalJobsGoAsOneArray() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<10).map { SlurmGraph.shell("j\($0)", "echo \($0) $SLURM_ARRAY_JOB_ID >> log") }
    let last = SlurmGraph.shell("last", "wc -l < log", "\"after\":[\((0..<10).map { "\"j\($0)\"" }.joined(separator: ","))]")
    try directory.write("graph.json", SlurmGraph.text(jobs + [last]))
    let outcome = try await cluster.run("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
    #expect(outcome.output.contains("succeeded last") && outcome.output.contains(")\n10\n"))
    let log = directory.lines("log").map { $0.split(separator: " ") }
    #expect(Set(log.map { $0[0] }).count == 10 && Set(log.map { $0[1] }).count == 1)
    #expect(SlurmFiles(root: directory.path + "/j.slurm").readSubmissions().map(\.value.jobs.count).sorted() == [1, 10])
  }

  // MARK: How jobs end

  @Test func aFailureCancelsWhatDependsOnItAndWhatRunsAlwaysRuns() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("bad", "echo why; exit 3"), SlurmGraph.shell("next", "touch next", #""after":["bad"]"#),
      SlurmGraph.shell("far", "touch far", #""after":["next"]"#),
      SlurmGraph.shell("tidy", "echo tidied", #""after":["far"],"when":"always""#), SlurmGraph.shell("killed", "kill -9 $$"),
    ])
    try directory.write("graph.json", graph)
    let outcome = try await cluster.run("run", "graph.json", "--engine", "slurm", "-k", "--results", "r", in: directory)
    #expect(outcome.status == 1)
    #expect(lastLine(outcome).hasPrefix("1 succeeded, 2 failed, 2 cancelled; failed: "))
    for line in [
      "failed bad: exit status 3", "  sh -c 'echo why; exit 3'\nwhy\n", "cancelled next: bad did not succeed",
      "cancelled far: next did not succeed",
      "succeeded tidy", "failed killed: killed by signal 9, Killed",
    ] { #expect(outcome.output.contains(line), "\(line): \(outcome.output)") }
    #expect(!directory.contains("next") && !directory.contains("far"))
    #expect(directory.read("r").contains("\"signal\":9") && directory.read("r").contains("\"exitStatus\":3"))
    #expect(try await cluster.jobs(in: directory).isEmpty)
  }

  @Test func aFailureKeepsTheRestFromBeginning() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // It goes on only after the failure is known, and what comes after it must not.
    let graph = SlurmGraph.text([
      SlurmGraph.shell("slow", "until [ -e j.slurm/ended/*.failed ]; do sleep 0.1; done; echo slow"),
      SlurmGraph.shell("bad", "exit 1", #""cpus":2"#),
      SlurmGraph.shell("next", "touch next", #""after":["slow"]"#),
    ])
    try directory.write("graph.json", graph)
    let outcome = try await cluster.run("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("cancelled next: bad has failed"), "\(outcome.output)")
    #expect(lastLine(outcome) == "1 succeeded, 1 failed, 1 cancelled; failed: bad")
    #expect(!directory.contains("next"))
  }

  @Test func timeoutsAndRetriesAreHeeded() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("slow", "sleep 60 & wait", #""timeout":"1s""#),
      SlurmGraph.shell("flaky", "echo try >> tries; [ $(wc -l < tries) -ge 3 ]", #""retries":2"#),
      SlurmGraph.shell("next", "echo next >> tries", #""after":["flaky"]"#),
      SlurmGraph.shell("hopeless", "echo try >> hopeless; exit 3", #""retries":1"#),
    ])
    let outcome = try await cluster.run("run", "-", "--engine", "slurm", "-k", "--results", "r", in: directory, input: graph)
    #expect(outcome.status == 1)
    #expect(directory.read("tries") == "try\ntry\ntry\nnext\n")
    #expect(directory.read("hopeless") == "try\ntry\n")
    #expect(outcome.output.contains("failed slow: timed out after 1.00 s"), "\(outcome.output)")
    #expect(outcome.output.contains("failed hopeless: exit status 3, 2 attempts"))
    #expect(lastLine(outcome).hasPrefix("2 succeeded, 2 failed, 0 cancelled"))
  }

  @Test func whatSlurmRefusesHasFailedInItsWords() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("lost", "true", #""partition":"nowhere""#), SlurmGraph.shell("next", "true", #""after":["lost"]"#),
      SlurmGraph.shell("well", "true", #""slurm":["--hint=nomultithread"]"#),
    ])
    let outcome = try await cluster.run("run", "-", "--engine", "slurm", "-k", "--partition", "all", in: directory, input: graph)
    #expect(outcome.output.contains("failed lost: sbatch: ") && outcome.output.contains("invalid partition"), "\(outcome.output)")
    #expect(lastLine(outcome) == "1 succeeded, 1 failed, 1 cancelled; failed: lost")
  }

  @Test func whoCancelsAJobIsSaid() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("running", "touch up; sleep 60"), SlurmGraph.shell("next", "true", #""after":["running"]"#),
    ])
    try directory.write("graph.json", graph)
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", in: directory)
    try await directory.until("it runs") { directory.contains("up") }
    try await cluster.ask("scancel", "--name=running", in: directory)
    #expect(await child.status() == 1)
    #expect(directory.read("out").contains("cancelled running: cancelled by somebody else"), "\(directory.read("out"))")
    #expect(directory.read("out").contains("cancelled next: running did not succeed"))
  }

  /// Slurm forgets a task of an array that is cancelled while it waits, and with it what others waited for.
  @Test func whatComesAfterACancelledTaskOfAnArrayDoesNotRun() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // All processors are taken.
    let blocks = (0..<2).map { SlurmGraph.shell("block\($0)", "touch up\($0); until [ -e go ]; do sleep 0.1; done", #""cpus":2"#) }
    try directory.write("blocks.json", SlurmGraph.text(blocks))
    let blocking = try cluster.start("run", "blocks.json", "--engine", "slurm", in: directory)
    try await directory.until("both run") { directory.contains("up0") && directory.contains("up1") }
    let graph = SlurmGraph.text(
      ["a", "b", "c"].map { SlurmGraph.job($0, ["true"]) }
        + [SlurmGraph.shell("next", "touch next", #""after":["b"]"#), SlurmGraph.shell("other", "touch other", #""after":["c"]"#)])
    try directory.write("graph.json", graph)
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    func submission(_ name: String) -> SlurmFiles.Submission? { files.readSubmissions().values.first { $0.jobs.contains(name) } }
    try await directory.until("all are with Slurm") {
      ["b", "next", "other"].allSatisfy { submission($0)?.identifier != nil }
    }
    // With nobody to look after them.
    kill(child.identifier, SIGKILL)
    _ = await child.status()
    let identifier = try #require(submission("b")?.identifier(of: 1))
    #expect(identifier.hasSuffix("_1"))
    try await cluster.ask("scancel", identifier, in: directory)
    try directory.write("go", "")
    #expect(await blocking.status() == 0)
    try await directory.until("the rest has run") { directory.contains("other") }
    let next = try #require(submission("next"))
    try await directory.until("it has been started, or cancelled") {
      let row = try await cluster.ask("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", next.identifier ?? "", in: directory)
      return SlurmStatus(path: files.status(next.number, 0)) != nil || row.contains("CANCELLED")
    }
    let outcome = try await cluster.run("attach", "j", in: directory)
    #expect(outcome.output.contains("cancelled next: b did not succeed"), "\(outcome.output)\(outcome.errors)")
    #expect(!directory.contains("next"))
  }

  // MARK: Owners

  @Test func anOwnersEndCancelsWhatRunsAndWhatWaits() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("flag", "")
    // More than there are slots.
    let mine = (0..<6).map { SlurmGraph.shell("m\($0)", "echo $0 >> begun; sleep 60 && touch late", #""owner":"mine""#) }
    let after = SlurmGraph.shell("after", "touch late", #""owner":"mine","after":["m0"]"#)
    let other = SlurmGraph.job("other", ["true"], #""priority":"high""#)
    let below = #"{"name":"top","endsWhen":{"fileRemoved":"flag"}},{"name":"mine","parent":"top"}"#
    try directory.write("graph.json", SlurmGraph.text([other] + mine + [after], owners: below))
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    // As many as there are processors, and the one that is nobody's before or after them.
    try await directory.until("four have begun") { directory.lines("begun").count == 4 }
    unlink(directory.path + "/flag")
    #expect(await child.status() == 1)
    let (begun, output) = (directory.lines("begun").count, directory.read("out"))
    #expect(output.hasSuffix("1 succeeded, 0 failed, 7 cancelled\n"), "\(output)")
    #expect(output.split(separator: "\n").count { $0.contains("its owner top ended: flag has gone") } == 7, "\(output)")
    #expect(try await cluster.jobs(in: directory).isEmpty)
    #expect(!directory.contains("late"))
    // A wrapper may have begun where no command has: it finds that its owner has ended.
    #expect(directory.lines("begun").count == begun)
  }

  @Test func ctrlCCancelsAll() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<6).map { SlurmGraph.shell("j\($0)", "echo + >> begun; sleep 60") } + [SlurmGraph.shell("n", "true", #""after":["j0"]"#)]
    try directory.write("graph.json", SlurmGraph.text(jobs))
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", in: directory)
    try await directory.until("it runs") { directory.contains("begun") }
    kill(child.identifier, SIGINT)
    #expect(await child.status() == 130)
    #expect(directory.read("out").hasSuffix("0 succeeded, 0 failed, 7 cancelled\n"), "\(directory.read("out"))")
    #expect(try await cluster.jobs(in: directory).isEmpty)
  }

  @Test func noMoreJobsOfAnOwnerRunThanItAllows() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<3).map { SlurmGraph.shell("j\($0)", "mkdir alone && sleep 0.3 && rmdir alone", #""owner":"few""#) }
    let graph = SlurmGraph.text(jobs, owners: #"{"name":"few","maxConcurrent":1}"#)
    let outcome = try await cluster.run("run", "-", "--engine", "slurm", "-k", in: directory, input: graph)
    #expect(lastLine(outcome) == "3 succeeded, 0 failed, 0 cancelled", "\(outcome.output)")
  }

  // MARK: What goes away

  @Test func aRunnerKilledAtAnyMomentIsAttachedToAndNothingRunsTwice() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Chains, so that it is submitted bit by bit. No two jobs ask for the same, so none are submitted together: two lines for each. The
    // last job waits, so that there is a run to be killed each time.
    let count = 24
    let jobs = (0..<count).map { number in
      SlurmGraph.shell(
        "j\(number)", (number == count - 1 ? "until [ -e go ]; do sleep 0.1; done; " : "") + "echo j\(number) >> log",
        "\"timeout\":\"\(60 + number)m\"," + (number < 6 ? "\"cpus\":\(number % 2 + 1)" : "\"after\":[\"j\(number - 6)\"]"))
    }
    try directory.write("graph.json", SlurmGraph.text(jobs))
    // Killed when so many lines are there: in the midst of submitting, and later.
    var child = try cluster.start("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    for lines in [1, 4, 12, 26, 40] {
      try await directory.until("\(lines) lines") { directory.lines("j.slurm/submissions").count >= lines }
      kill(child.identifier, SIGKILL)
      #expect(await child.status() == -SIGKILL)
      child = try cluster.start("attach", "j", in: directory)
    }
    try directory.write("go", "")
    #expect(await child.status() == 0, "\(directory.read("err"))")
    #expect(directory.read("out").contains("24 succeeded") && directory.read("out").contains(" 0 failed, 0 cancelled"))
    #expect(directory.lines("log").sorted() == (0..<count).map { "j\($0)" }.sorted().map { Substring($0) })
    #expect(try await cluster.run("attach", "j", in: directory).errors.contains("the run has ended"))
  }

  @Test func whatHasFailedStaysSoForWhoAttaches() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("bad", "echo x >> bad; exit 1", #""cpus":2"#), SlurmGraph.shell("long", "until [ -e go ]; do sleep 0.1; done"),
      SlurmGraph.shell("tidy", "echo x >> tidy", #""after":["bad"],"when":"always""#),
      SlurmGraph.shell("end", "true", #""after":["long"]"#),
    ])
    try directory.write("graph.json", graph)
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--journal", "j", "-k", in: directory)
    try await directory.until("tidy is known") { directory.read("j").contains(#""event":"succeeded","job":"tidy""#) }
    kill(child.identifier, SIGKILL)
    _ = await child.status()
    #expect(try await cluster.run("run", "graph.json", "--journal", "j", "--resume", in: directory).errors.contains("ownedops attach"))
    #expect(try await cluster.run("status", "j", in: directory).output.contains("go on with ownedops attach"))
    try directory.write("go", "")
    let outcome = try await cluster.run("attach", "j", "--results", "r", "--trace", "t", in: directory)
    #expect(outcome.status == 1)
    // Also of what ended before.
    #expect(directory.read("r").contains("\"exitStatus\":1") && directory.read("t").contains("tidy"), "\(directory.read("r"))")
    #expect(lastLine(outcome) == "3 succeeded (1 before), 1 failed, 0 cancelled; failed: bad", "\(outcome.output)")
    #expect(directory.read("bad") == "x\n" && directory.read("tidy") == "x\n")
    // Another try is another run.
    try directory.write("graph.json", graph.replacingOccurrences(of: "exit 1", with: "exit 0"))
    let again = try await cluster.run("run", "graph.json", "--engine", "slurm", "--journal", "j", "--resume", in: directory)
    #expect(again.status == 0 && lastLine(again) == "4 succeeded (2 before), 0 failed, 0 cancelled", "\(again.output)\(again.errors)")
  }

  @Test func whatIsDetachedGoesOnAndIsAttachedToLater() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<6).map {
      SlurmGraph.shell("j\($0)", "until [ -e go ]; do sleep 0.1; done; echo + >> log", $0 == 0 ? "" : "\"after\":[\"j\($0 - 1)\"]")
    }
    try directory.write("graph.json", SlurmGraph.text(jobs))
    let left = try await cluster.run(
      "run", "graph.json", "--engine", "slurm", "--journal", "j", "--detach", "--window", "4", in: directory)
    #expect(left.status == 0, "\(left.errors)")
    #expect(left.output.hasPrefix("4 jobs with Slurm, 2 not submitted: they wait for ownedops attach\n"), "\(left.output)")
    try directory.write("go", "")
    try await directory.until("what was submitted ran") { directory.lines("log").count == 4 }
    let outcome = try await cluster.run("attach", "j", in: directory)
    #expect(outcome.status == 0 && lastLine(outcome) == "6 succeeded, 0 failed, 0 cancelled", "\(outcome.output)\(outcome.errors)")
    #expect(directory.lines("log").count == 6)
    let owned = SlurmGraph.text([SlurmGraph.shell("x", "true")], owners: #"{"name":"o","endsWhen":{"process":1}}"#)
    try directory.write("owned.json", owned)
    let refused = try await cluster.run("run", "owned.json", "--engine", "slurm", "--journal", "k", "--detach", in: directory)
    #expect(refused.status == 2 && refused.errors.contains("owner \"o\" ends with a process or a file"))
  }

  @Test func aControllerThatIsAwayIsWaitedFor() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<4).map { number in
      SlurmGraph.shell("j\(number)", "echo + >> log; sleep 2", number == 0 ? "" : "\"after\":[\"j\(number - 1)\"]")
    }
    try directory.write("graph.json", SlurmGraph.text(jobs))
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--window", "2", in: directory)
    try await directory.until("it runs") { directory.contains("log") }
    try await cluster.withoutController(for: .seconds(10), in: directory) { directory.read("err").contains("Slurm does not answer") }
    #expect(await child.status() == 0, "\(directory.read("out"))\(directory.read("err"))")
    #expect(directory.lines("log").count == 4)
    #expect(directory.read("err").contains("Slurm does not answer"))
    #expect(directory.read("err").contains("Slurm's controller answers again"))
  }

  @Test func aLostNodesJobsRunAgainWithWhatComesAfterThem() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("bound", "echo + >> tries; [ $(wc -l < tries) -ge 2 ] || sleep 60"),
      SlurmGraph.shell("next", "echo + >> next", #""after":["bound"]"#),
    ])
    try directory.write("graph.json", graph)
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--results", "r", in: directory)
    try await directory.until("it runs") { directory.contains("tries") }
    let row = try await cluster.jobs(in: directory).first { $0.hasSuffix(" bound") }?.split(separator: " ") ?? []
    let node = try #require(row.count == 4 ? String(row[2]) : nil)
    try await cluster.ask("scontrol", "update", "nodename=\(node)", "state=down", "reason=test", in: directory)
    let status = await child.status()
    try await cluster.ask("scontrol", "update", "nodename=\(node)", "state=resume", in: directory)
    #expect(status == 0, "\(directory.read("out"))")
    #expect(directory.read("err").contains("bound: its node was lost"), "\(directory.read("err"))")
    #expect(directory.lines("tries").count == 2 && directory.lines("next").count == 1)
    try await directory.until("the nodes are back") {
      try await cluster.ask("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", in: directory).split(separator: "\n").count
        == 2
    }
  }

  @Test func whatWasOnANodeThatIsLostWhileNobodyLooksRunsAgainForWhoAttaches() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([
      SlurmGraph.shell("bound", "echo + >> tries; [ $(wc -l < tries) -ge 2 ] || sleep 60"),
      SlurmGraph.shell("next", "echo + >> next", #""after":["bound"]"#),
      SlurmGraph.shell("tidy", "echo + >> tidy", #""after":["next"],"when":"always""#),
    ])
    try directory.write("graph.json", graph)
    let child = try cluster.start("run", "graph.json", "--engine", "slurm", "--journal", "j", in: directory)
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    try await directory.until("all are with Slurm") {
      directory.contains("tries") && files.readSubmissions().values.count { $0.identifier != nil } == 3
    }
    kill(child.identifier, SIGKILL)
    _ = await child.status()
    let row = try await cluster.jobs(in: directory).first { $0.hasSuffix(" bound") }?.split(separator: " ") ?? []
    let node = try #require(row.count == 4 ? String(row[2]) : nil)
    try await cluster.ask("scontrol", "update", "nodename=\(node)", "state=down", "reason=test", in: directory)
    try await directory.until("Slurm has ended it") { try await !cluster.jobs(in: directory).contains { $0.hasSuffix(" bound") } }
    let outcome = try await cluster.run("attach", "j", in: directory)
    try await cluster.ask("scontrol", "update", "nodename=\(node)", "state=resume", in: directory)
    #expect(outcome.status == 0 && lastLine(outcome) == "3 succeeded, 0 failed, 0 cancelled", "\(outcome.output)\(outcome.errors)")
    #expect(directory.lines("tries").count == 2 && directory.lines("next").count == 1)
    try await directory.until("the nodes are back") {
      try await cluster.ask("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", in: directory).split(separator: "\n").count
        == 2
    }
  }

  @Test func aWindowSmallerThanTheGraphHoldsTheRestBack() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = (0..<7).map { number in
      SlurmGraph.shell(
        "j\(number)", "squeue --me --noheader --array | wc -l >> counts", number < 3 ? "" : "\"after\":[\"j\(number - 3)\"]")
    }
    try directory.write("graph.json", SlurmGraph.text(jobs))
    let outcome = try await cluster.run("run", "graph.json", "--engine", "slurm", "--window", "3", in: directory)
    #expect(lastLine(outcome) == "7 succeeded, 0 failed, 0 cancelled", "\(outcome.output)\(outcome.errors)")
    let counts = directory.lines("counts").compactMap { Int($0.filter(\.isNumber)) }
    #expect(counts.count == 7 && counts.allSatisfy { $0 <= 3 }, "\(counts)")
  }

  /// What `sbatch` did is there, and its answer is not.
  @Test func anAnswerThatIsNotHeardIsLookedUp() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write(
      "bin/sbatch",
      """
      #!/bin/sh
      echo + >> calls
      PATH=${PATH#*:}
      [ $(wc -l < calls) = 1 ] || exec sbatch "$@"
      sbatch "$@" > /dev/null
      echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
      exit 1
      """)
    chmod(directory.path + "/bin/sbatch", 0o755)
    try directory.write(
      "graph.json", SlurmGraph.text([SlurmGraph.shell("a", "echo a >> log"), SlurmGraph.shell("b", "echo b >> log", #""after":["a"]"#)]))
    let path = "\(directory.path)/bin:\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
    let outcome = try await cluster.run("run", "graph.json", "--engine", "slurm", in: directory, environment: ["PATH": path])
    #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
    #expect(directory.read("log") == "a\nb\n" && directory.read("calls") == "+\n+\n")
  }

  @Test func picturesAndResultsAreThereAtTheEnd() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let graph = SlurmGraph.text([SlurmGraph.shell("first", "true"), SlurmGraph.shell("second", "exit 3", #""after":["first"]"#)])
    let outcome = try await cluster.run(
      "run", "-", "--engine", "slurm", "--timeline", "t.svg", "--trace", "t.json", "--results", "r", in: directory, input: graph)
    #expect(outcome.status == 1, "\(outcome.errors)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted() == ["r", "t.json", "t.svg"])
    for name in ["t.svg", "t.json", "r"] {
      #expect(directory.read(name).contains("first") && directory.read(name).contains("second"), "\(name)")
    }
    let trace = try JSONSerialization.jsonObject(with: Data(directory.read("t.json").utf8))
    #expect(((trace as? [String: Any])?["traceEvents"] as? [Any] ?? trace as? [Any])?.isEmpty == false)
  }

  /// What a user has set for `scancel` is for the user's own calls of it.
  @Test func settingsOfScancelDoNotKeepAnOwnersJobsAlive() async throws {
    let cluster = try SlurmCluster.shared.get()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("alive", "")
    let graph = SlurmGraph.text(
      [SlurmGraph.shell("a", "touch up; sleep 60", #""owner":"o""#)], owners: #"{"name":"o","endsWhen":{"fileRemoved":"alive"}}"#)
    try directory.write("graph.json", graph)
    let child = try cluster.start(
      "run", "graph.json", "--engine", "slurm", in: directory, environment: ["SCANCEL_NAME": "none", "SCANCEL_STATE": "PENDING"])
    try await directory.until("it runs") { directory.contains("up") }
    unlink(directory.path + "/alive")
    #expect(await child.status() == 1)
    #expect(directory.read("out").contains("cancelled a: its owner o ended: alive has gone"), "\(directory.read("out"))")
  }

  // MARK: The same as here

  /// The graph of the README, with programs of its own in place of those that it calls.
  @Test func theReadmesGraphRunsAlikeOnBothEngines() async throws {
    let cluster = try SlurmCluster.shared.get()
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
    let graphs = readme.components(separatedBy: "```json\n").dropFirst().compactMap { $0.components(separatedBy: "```").first }
      .filter { $0.contains("\"jobs\"") }
    #expect(!graphs.isEmpty)
    for graph in graphs {
      var shown: [[Substring]] = []
      var statuses: [Int32] = []
      for engine in ["local", "slurm"] {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try directory.write("in/page", "")
        for (name, line) in [("make", "echo rendered"), ("python3", "touch served; exec sleep 60"), ("curl", "exit 9")] {
          try directory.write("bin/\(name)", "#!/bin/sh\n\(line)\n")
          chmod(directory.path + "/bin/\(name)", 0o755)
        }
        let watched = try Child(["/bin/sh", "-c", "until [ -e served ]; do sleep 0.05; done"], in: directory)
        let text = graph.replacingOccurrences(of: "18204", with: "\(watched.identifier)")
        let path = "\(directory.path)/bin:\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        async let outcome = cluster.run("run", "-", "--engine", engine, in: directory, input: text, environment: ["PATH": path])
        _ = await watched.status()
        let output = try await outcome.output.replacingOccurrences(of: "\(watched.identifier)", with: "N")
        statuses.append(try await outcome.status)
        // But for how long it took, and for the order of what ended together.
        shown.append(
          output.split(separator: "\n").map { line in
            line.hasSuffix("s)") ? line.prefix(upTo: line.lastIndex(of: "(") ?? line.endIndex) : line
          }
          .sorted())
      }
      #expect(shown[0] == shown[1] && statuses[0] == statuses[1], "\(shown)")
      #expect(shown[0].contains { $0.contains("its owner preview ended: process N has exited") })
    }
  }
}
