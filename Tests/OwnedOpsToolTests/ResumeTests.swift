import Foundation
import Testing

@testable import OwnedOpsTool

/// `run --journal` and `--resume`, as users see them.
@Suite(.timeLimit(.minutes(2)))
struct ResumeTests {
  private func shell(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func write(_ jobs: [String], _ more: String = "", to directory: TemporaryDirectory) throws {
    try directory.write("graph.json", "{\(more)\"jobs\":[\(jobs.joined(separator: ","))]}")
  }

  private func run(_ arguments: String..., in directory: TemporaryDirectory) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(["run", "graph.json", "--journal", "j"] + arguments, in: directory)
  }

  private func lastLine(_ outcome: ToolBinary.Outcome) -> String { outcome.output.split(separator: "\n").last.map(String.init) ?? "" }

  @Test func whatHasSucceededIsNotRunAgainAndWhatFailedIs() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(
      [
        shell("a", "echo a >> log"), shell("b", "echo b >> log; echo out; [ -e go ]", #""after":["a"]"#),
        shell("c", "echo c >> log", #""after":["b"]"#),
      ], to: directory)
    let first = try await run(in: directory)
    #expect(first.status == 1)
    #expect(first.errors.isEmpty)
    #expect(lastLine(first) == "1 succeeded, 1 failed, 1 cancelled; failed: b")
    #expect(!directory.contains("j.lease"))
    let refused = try await run(in: directory)
    #expect(refused.status == 2)
    #expect(refused.errors.contains("--journal: j is there already; give --resume to go on with it"))
    try directory.write("go", "")
    let second = try await run("--resume", in: directory)
    #expect(second.status == 0)
    #expect(lastLine(second) == "3 succeeded (1 before), 0 failed, 0 cancelled")
    #expect(directory.read("log") == "a\nb\nb\nc\n")
    let third = try await run("--resume", in: directory)
    #expect(third.status == 0)
    #expect(lastLine(third) == "3 succeeded (3 before), 0 failed, 0 cancelled")
    #expect(directory.read("log") == "a\nb\nb\nc\n")
  }

  /// An accent of its own and a letter that has one look the same, and are equal to Swift; to a command they are not.
  @Test func whatHasChangedInItsBytesOnlyRunsAgain() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func write(_ accent: String) throws {
      let more = #""environment":{"A":"\#(accent)"}"#
      try self.write([shell("a", "echo \(accent) >> a"), shell("b", "echo $A >> b", more), shell("c", "echo c >> c")], to: directory)
    }
    try write("\u{e9}")
    #expect(try await run(in: directory).status == 0)
    try write("e\u{301}")
    let second = try await run("--resume", in: directory)
    #expect(second.errors == "ownedops: what is said of a, b has changed: they run again\n")
    #expect(lastLine(second) == "3 succeeded (1 before), 0 failed, 0 cancelled")
    for name in ["a", "b"] { #expect(Array(directory.read(name).utf8) == Array("\u{e9}\ne\u{301}\n".utf8)) }
    #expect(directory.read("c") == "c\n")
    let third = try await run("--resume", in: directory)
    #expect(third.errors.isEmpty && lastLine(third) == "3 succeeded (3 before), 0 failed, 0 cancelled")
  }

  @Test func aLinkToWhereThereIsNoJournalYetStaysALink() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "echo a >> log")], to: directory)
    try directory.write("disk/x", "")
    #expect(symlink("other", directory.path + "/j") == 0 && symlink("disk/journal", directory.path + "/other") == 0)
    #expect(try await run(in: directory).status == 0)
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: directory.path + "/j") == "other")
    let status = try await ToolBinary.run(["status", "disk/journal"], in: directory)
    #expect(status.output == "1 of 1 job succeeded\nthe last run has ended\n")
    #expect(try await run("--resume", in: directory).status == 0)
    #expect(directory.read("log") == "a\n")
  }

  @Test func aJournalThatIsRemovedIsMissed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "rm j")], to: directory)
    let outcome = try await run(in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.errors == "ownedops: the journal j has been removed; no more jobs are started\n")
  }

  /// What fits of its record would keep everybody out.
  @Test func aLeaseThatCannotBeWrittenLeavesNothingInTheWay() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "true")], to: directory)
    // In the midst of what it says, where that can be had.
    let line = #"limit='prlimit --fsize=100'; command -v prlimit > nothing || { ulimit -f 1; limit=; }"#
    let refused = try await ToolBinary.shell(line + #"; exec $limit "$OWNEDOPS" run graph.json --journal j"#, in: directory)
    #expect(refused.status == 2 && refused.errors.hasPrefix("ownedops: --journal: can't write j.lease: "))
    #expect(try await run(in: directory).status == 0)
  }

  /// It is neither run again later nor called cancelled, and holds up nothing.
  @Test func whatHasSucceededStaysSoThoughItsOwnerHasEnded() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let owners = #""owners":[{"name":"o","endsWhen":{"fileRemoved":"flag"}}],"#
    try write(
      [
        shell("a", "echo a >> log", #""owner":"o""#), shell("b", "echo b >> log", #""after":["a"]"#),
        shell("c", "echo c >> log; [ -e go ]", #""after":["b"]"#),
      ], owners, to: directory)
    try directory.write("flag", "")
    #expect(lastLine(try await run(in: directory)) == "2 succeeded, 1 failed, 0 cancelled; failed: c")
    try FileManager.default.removeItem(atPath: directory.path + "/flag")
    try directory.write("go", "")
    for before in 2...3 {
      let resumed = try await run("--resume", in: directory)
      #expect(lastLine(resumed) == "3 succeeded (\(before) before), 0 failed, 0 cancelled")
      #expect(resumed.status == 0)
    }
    #expect(directory.read("log") == "a\nb\nc\nc\n")
  }

  @Test func aChangedCommandRunsAgainWithWhatDependsOnIt() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func jobs(_ b: String) -> [String] {
      [
        shell("a", "echo a >> log"), shell("b", b, #""after":["a"]"#), shell("c", "echo c >> log", #""after":["b"]"#),
        shell("free", "echo free >> log", #""after":["c"]"#).replacingOccurrences(of: #","after":["c"]"#, with: ""),
      ]
    }
    try write(jobs("echo b >> log"), to: directory)
    #expect(try await run("-j1", in: directory).status == 0)
    try write(jobs("echo B >> log"), to: directory)
    let outcome = try await run("--resume", "-j1", in: directory)
    #expect(outcome.status == 0)
    #expect(outcome.errors == "ownedops: the command of b has changed: it runs again, and 1 job that depends on that\n")
    #expect(lastLine(outcome) == "4 succeeded (2 before), 0 failed, 0 cancelled")
    let lines = directory.read("log").split(separator: "\n").map(String.init)
    #expect(lines.sorted() == ["B", "a", "b", "c", "c", "free"])
    #expect(lines.suffix(2) == ["B", "c"])
  }

  @Test func outputRetriesTimeOutsAndOrderAreThoseOfARunWithoutAJournal() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [
      shell("flaky", "echo try >> tries; echo $(wc -l < tries); [ $(wc -l < tries) -ge 3 ]", #""retries":2,"priority":"veryHigh""#),
      // Long enough for its first line, however slow the machine.
      shell("slow", "echo begun; exec sleep 300", #""timeout":"15s""#), shell("killed", "kill -KILL $$"),
      shell("big", "yes line | head -c 3000000; printf end"), "{\"name\":\"none\",\"command\":[\"/no/such/thing\"]}",
      shell("where", "pwd; echo $COLOUR", #""directory":"/tmp","environment":{"COLOUR":"blue"}"#),
    ]
    try write(jobs, to: directory)
    let outcome = try await run("-k", "-j2", "--log-dir", "logs", "--grace", "100ms", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("1\n2\n3\n"))
    #expect(outcome.output.contains("failed slow: timed out after 15.00 s"))
    #expect(outcome.output.contains("failed killed: killed by signal 9, Killed"))
    #expect(outcome.output.contains("failed none: no such command: /no/such/thing"))
    #expect(outcome.output.contains("/tmp\nblue\n"))
    #expect(outcome.output.contains("line\nend\n") || outcome.output.contains("end\n"))
    #expect(directory.read("logs/big.log").utf8.count == 3_000_003)
    #expect(lastLine(outcome).hasPrefix("3 succeeded, 3 failed, 0 cancelled"))
    let journal = try JournalReader.read(directory.path + "/j")
    #expect(journal.jobs[0].attempt == 3 && journal.jobs[0].state == .succeeded)
    #expect(journal.jobs[1].output == "begun\n" && journal.jobs[1].exit?.wasStopped == true)
    #expect(journal.runs.count == 1 && journal.runs[0].isKept && journal.runs[0].isEnded)
  }

  @Test func interruptingEndsTheRunAndResumingGoesOn() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // The parent of a command is the keeper; the runner is its.
    let line = "if [ -e go ]; then exit 0; fi; sleep 300 & echo $! > pids; kill -INT $(cut -d ' ' -f 4 /proc/$PPID/stat); wait"
    try write([shell("tree", line), shell("next", "touch ran", #""after":["tree"]"#)], to: directory)
    let outcome = try await run("--grace", "200ms", in: directory)
    #expect(outcome.status == 130)
    #expect(outcome.output.contains("cancelled tree: interrupted"))
    #expect(lastLine(outcome) == "0 succeeded, 0 failed, 2 cancelled")
    for process in directory.processes(in: "pids") { #expect(!Processes.isRunning(process)) }
    try directory.write("go", "")
    let second = try await run("--resume", in: directory)
    #expect(lastLine(second) == "2 succeeded, 0 failed, 0 cancelled")
    #expect(directory.contains("ran"))
  }

  @Test func ownersEndWithTheirCommandsAndOrphansWithTheRun() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("flag", "")
    let escape = "setsid sh -c 'echo $$ >> orphans; touch escaped; exec sleep 300' & while [ ! -e escaped ]; do :; done"
    let tree = "trap '' TERM; sleep 300 & echo $! > pids; echo $$ >> pids; rm flag; wait; sleep 300"
    try write(
      [
        shell("escape", escape), shell("tree", tree, #""owner":"o","after":["escape"]"#),
        shell("pending", "touch ran", #""owner":"o","after":["tree"]"#),
      ], #""owners":[{"name":"o","endsWhen":{"fileRemoved":"flag"}}],"#, to: directory)
    let outcome = try await run("--grace", "100ms", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("cancelled tree: its owner o ended: flag has gone"))
    #expect(!directory.contains("ran"))
    for process in directory.processes(in: "pids") + directory.processes(in: "orphans") { #expect(!Processes.isRunning(process)) }
    #expect(directory.processes(in: "pids").count == 2 && directory.processes(in: "orphans").count == 1)
  }

  // MARK: Refusals

  @Test func journalsThatCanNotBeUsedAreRefusedBeforeAnythingRuns() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "touch ran")], to: directory)
    try directory.write("other.json", "{\"jobs\":[\(shell("b", "true"))]}")
    try directory.write("text", "hello\n")
    try directory.write("folder/x", "")
    #expect(try await ToolBinary.run(["run", "other.json", "--journal", "other"], in: directory).status == 0)
    let before = directory.read("other")
    let cases: [([String], String)] = [
      (["--journal", "folder"], "--journal: folder is a directory; give a file"),
      (["--journal", "no/where"], "--journal: can't write no/where.lease: No such file or directory"),
      (["--journal", "text"], "text is no journal: its first line is none of a journal"),
      (["--journal", "text", "--resume"], "text is no journal: its first line is none of a journal"),
      (["--journal", "/dev/full"], "--journal: /dev/full is no regular file"), (["--journal", ""], "--journal: the name is empty"),
      (["--resume"], "--resume: which journal? give --journal FILE, too"), (["--take-over"], "--take-over: which journal?"),
      (["--journal", "other", "--resume", "--trace", "other"], "--trace: other is the file of the input, too; give another"),
      (["--journal", "other", "--resume"], "--resume: other is the journal of another graph: it knows no job a"),
    ]
    for (arguments, message) in cases {
      let outcome = try await ToolBinary.run(["run", "graph.json"] + arguments, in: directory)
      #expect(outcome.status == 2, "\(arguments)")
      #expect(outcome.errors.contains(message), "\(arguments): \(outcome.errors)")
    }
    #expect(!directory.contains("ran"))
    #expect(directory.read("text") == "hello\n" && directory.read("other") == before)
    for name in ["text.lease", "other.lease", "folder.lease"] { #expect(!directory.contains(name)) }
  }

  @Test func aPlaceThatIsReadOnlyIsRefused() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "touch ran")], to: directory)
    let prefix = try #require(ToolBinary.unprivileged)
    mkdir(directory.path + "/closed", 0o555)
    chmod(directory.path, 0o755)
    let outcome = try await ToolBinary.shell("\(prefix) \"$OWNEDOPS\" run graph.json --journal closed/j", in: directory)
    #expect(outcome.status == 2)
    #expect(outcome.errors.contains("--journal: can't write closed/j.lease: Permission denied"))
    #expect(!directory.contains("ran"))
  }

  @Test func aSecondRunnerIsRefusedWhileTheFirstIsAtWork() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // The job itself starts the second runner: the first is surely at work.
    let line = "\"$OWNEDOPS\" run graph.json --journal j --resume 2> second; echo $? > status; \"$OWNEDOPS\" status j > seen; true"
    try write([shell("a", line)], to: directory)
    let outcome = try await ToolBinary.run(
      ["run", "graph.json", "--journal", "j"], in: directory, environment: ["OWNEDOPS": ToolBinary.url.path])
    #expect(outcome.status == 0)
    #expect(directory.read("status") == "2\n")
    let complaint = directory.read("second")
    for part in ["--journal: j is in use by process ", "at work since ", "last heard of at "] { #expect(complaint.contains(part)) }
    #expect(directory.read("seen").hasPrefix("0 of 1 job succeeded, 1 running\nprocess "))
  }

  @Test func aTornLastLineIsDroppedWithANotice() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([shell("a", "echo a >> log"), shell("b", "echo b >> log", #""after":["a"]"#)], to: directory)
    #expect(try await run(in: directory).status == 0)
    // As if all had ended in the midst of writing that b has succeeded: its exit is not there either.
    let lines = directory.read("j").split(separator: "\n", omittingEmptySubsequences: true)
    let end = try #require(lines.firstIndex { $0.contains("\"exited\"") && $0.contains("\"job\":\"b\"") })
    let kept = lines[..<end].joined(separator: "\n") + "\n"
    try directory.write("j", kept + lines[end].prefix(20))
    let outcome = try await run("--resume", in: directory)
    #expect(outcome.status == 0)
    #expect(outcome.errors.contains("ownedops: j: line \(end + 1) not whole, and dropped\n"))
    // Nobody has seen it end.
    #expect(outcome.errors.contains("a keeper was killed: b may have run already; it runs again, at least once in all"))
    #expect(directory.read("log") == "a\nb\nb\n")
    #expect(directory.read("j").split(separator: "\n").allSatisfy { (try? JSONParser.parse(Array($0.utf8))) != nil })
  }

  @Test func optionsOfTheJournalAreInTheHelp() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let help = try await ToolBinary.run(["run", "--help"], in: directory).output
    for option in ["--journal FILE", "--resume", "--take-over"] { #expect(help.contains(option)) }
  }
}
