import Foundation
import OwnedOperations
import Testing

@testable import OwnedOpsTool

/// What users of ninja, make and GNU parallel look for in `run`.
@Suite(.timeLimit(.minutes(2)))
struct RunOptionTests {
  private func job(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func file(_ jobs: String...) -> String { "{\"jobs\":[\(jobs.joined(separator: ","))]}" }

  private func run(_ json: String, _ arguments: String..., in directory: TemporaryDirectory) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(["run", "-"] + arguments, in: directory, input: json)
  }

  private func lastLine(_ outcome: ToolBinary.Outcome) -> String { outcome.output.split(separator: "\n").last.map(String.init) ?? "" }

  // MARK: Which jobs

  @Test func namedJobsRunWithWhatTheyNeedAndNothingElse() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = file(
      job("all", "echo all >> log", #""after":["test","docs"]"#), job("test", "echo test >> log", #""after":["build"]"#),
      job("docs", "echo docs >> log", #""after":["build"]"#), job("build", "echo build >> log"), job("clean", "echo clean >> log"))
    let outcome = try await run(json, "test", in: directory)
    #expect(outcome.status == 0)
    #expect(directory.read("log") == "build\ntest\n")
    #expect(lastLine(outcome) == "2 succeeded, 0 failed, 0 cancelled")
    #expect(try await run(json, "clean", "docs", in: directory).status == 0)
    #expect(directory.read("log").split(separator: "\n").sorted() == ["build", "build", "clean", "docs", "test"])
    let wrong = try await run(json, "tset", in: directory)
    #expect(wrong.status == 2 && wrong.output.isEmpty)
    #expect(wrong.errors == "ownedops: there is no job \"tset\"; did you mean \"test\"?\n")
  }

  @Test func aDryRunPrintsAScriptAndRunsNothing() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("it's here/x", "")
    let json = file(
      job("last", "echo last >> log", #""after":["first"],"priority":"veryHigh""#), job("later", "echo later >> log", #""priority":"low""#),
      job("first", "pwd >> ../log; echo $A >> ../log", #""directory":"it's here","environment":{"A":"a b"}"#))
    let outcome = try await run(json, "--dry-run", in: directory)
    #expect(outcome.status == 0)
    #expect(!directory.contains("log"))
    #expect(
      outcome.output == #"""
        # first
        (cd 'it'\''s here' && env A='a b' sh -c 'pwd >> ../log; echo $A >> ../log')
        # last
        sh -c 'echo last >> log'
        # later
        sh -c 'echo later >> log'

        """#)
    try directory.write("script", outcome.output)
    #expect(try await ToolBinary.shell("sh -e script", in: directory).status == 0)
    #expect(directory.read("log").hasSuffix("/it's here\na b\nlast\nlater\n"))
    #expect(try await run(json, "-n", "first", in: directory).output.split(separator: "\n").count == 2)
  }

  // MARK: Commands to paste

  @Test func aShellReadsAnyWordAsItWas() async throws {
    let words = [
      "plain", "", "two words", "it's", "'", "\"", "$HOME", "`ls`", "a\\b", "\\", "*", "~", "#", "!", "a=b", "-n", "line\nbreak",
      "tab\there", "é",
      "日本", "{a,b}", "a;b", "a&b", "(x)", "<>", "if",
    ]
    let awkward = [
      "\u{1b}[2J", "bell\u{7}8", "\u{85}", "mixed '\\\n\u{1}0", "\u{202e}", "-n\u{1b}", "100%d\u{7}", "\u{7}$HOME`ls`\"", "end\u{1b}\n\n",
      // A character to Swift, several to a shell.
      "'\u{301}", "it'\u{301}s $HOME", "line\r\n", "\r\n\r\n", "-\u{301}\r",
    ]
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let line = "printf '%s\\0' " + (words + awkward).map(ShellText.quoted).joined(separator: " ")
    for shell in ["sh", "bash"] {
      #expect(!line.unicodeScalars.contains { $0.isControl && $0 != "\n" && $0 != "\t" })
      try directory.write("line", line)
      let outcome = try await ToolBinary.shell("\(shell) line", in: directory)
      #expect(outcome.output == (words + awkward).map { $0 + "\0" }.joined())
    }
    #expect(ShellText.line(.init(words: ["if", "x"])) == "'if' x")
    #expect(
      ShellText.line(.init(words: ["a", "b c"], directory: "-d", environment: ["B": "1", "A": ""])) == "(cd -- -d && env A= B=1 a 'b c')")
  }

  @Test func theCommandOfAFailedJobIsShownReadyToPaste() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("here/x", "")
    let json = file(job("bad", #"echo "it's $A"; exit 3"#, #""directory":"here","environment":{"A":"bad"}"#), job("good", "true"))
    let outcome = try await run(json, "-k", in: directory)
    let lines = outcome.output.split(separator: "\n")
    let place = try #require(lines.firstIndex { $0.hasPrefix("failed bad: exit status 3 (") })
    #expect(lines[place + 1] == #"  (cd here && env A=bad sh -c 'echo "it'\''s $A"; exit 3')"#)
    #expect(lines[place + 2] == "it's bad")
    let pasted = try await ToolBinary.shell(String(lines[place + 1]), in: directory)
    #expect(pasted.status == 3 && pasted.output == "it's bad\n")
    #expect(!outcome.output.contains("sh -c true"))
  }

  // MARK: Output and progress

  @Test func liveOutputIsShownInWholeLinesBehindTheNameWhileTheJobRuns() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #expect(mkfifo(directory.path + "/go", 0o600) == 0)
    // The job goes on when its first line has been seen, though not what had no end by then.
    let json = file(job("a", "echo first; printf 'half '; read x < go; echo whole; printf end"), job("b", "echo other"))
    try directory.write("jobs.json", json)
    let line = #"""
      "$OWNEDOPS" run jobs.json --live --jobs 2 | while read -r line; do echo "$line"; [ "$line" = "a | first" ] && echo x > go; done
      """#
    let outcome = try await ToolBinary.shell(line, in: directory)
    let shown = outcome.output.split(separator: "\n").map(String.init)
    #expect(shown.filter { $0.hasPrefix("a | ") } == ["a | first", "a | half whole", "a | end"])
    #expect(shown.filter { $0.hasPrefix("b | ") } == ["b | other"])
    let end = try #require(shown.firstIndex { $0.hasPrefix("succeeded a (") })
    #expect(try #require(shown.firstIndex(of: "a | end")) < end)
    #expect(shown.last == "2 succeeded, 0 failed, 0 cancelled")
    let quiet = try await run(file(job("b", "echo other")), "--live", "-q", in: directory)
    #expect(quiet.output == "b | other\n1 succeeded, 0 failed, 0 cancelled\n")
  }

  @Test func liveOutputThatIsLongIsShownWhole() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = file(job("a", "seq 1 200000"), job("b", "head -c 200000 /dev/zero | tr '\\0' x"))
    let outcome = try await run(json, "--live", "--jobs", "2", in: directory)
    let lines = outcome.output.split(separator: "\n")
    #expect(lines.filter { $0.hasPrefix("a | ") }.map { $0.dropFirst(4) } == (1...200_000).map { Substring("\($0)") })
    // A line that is too long for one piece is broken; nothing of it is lost.
    #expect(lines.filter { $0.hasPrefix("b | ") }.reduce(0) { $0 + $1.count - 4 } == 200_000)
  }

  @Test func progressFitsTheWidthAndNamesWhatHasRunLongest() {
    let running = [("link", 63.4), ("test everything", 12.0), ("a\nb", 0.2)].map { RunProgress.Running(name: $0.0, seconds: $0.1) }
    let progress = RunProgress(done: 1012, total: 2040, failed: 1, running: running)
    #expect(progress.line(width: 200) == #"[1,012/2,040] 1 failed, 3 running: link 63 s, test everything 12 s, a\nb 0 s"#)
    #expect(progress.line(width: 60) == "[1,012/2,040] 1 failed, 3 running: link 63 s, +2")
    #expect(progress.line(width: 40) == "[1,012/2,040] 1 failed, 3 running")
    for width in 34..<90 { #expect(progress.line(width: width).count < max(width, 34)) }
    // Of a name that is too long the beginning is shown. What is wide takes two columns.
    let long = RunProgress(done: 0, total: 4, running: ["compile everything", "b"].map { RunProgress.Running(name: $0, seconds: 7) })
    #expect(long.line(width: 80) == "[0/4] 2 running: compile everything 7 s, b 7 s")
    #expect(long.line(width: 40) == "[0/4] 2 running: compile every… 7 s, +1")
    #expect(long.line(width: 32) == "[0/4] 2 running: compi… 7 s, +1" && long.line(width: 31) == "[0/4] 2 running")
    let wide = RunProgress(done: 0, total: 1, running: [RunProgress.Running(name: "é漢字漢字漢字漢字", seconds: 7)])
    #expect(wide.line(width: 39) == "[0/1] 1 running: é漢字漢字漢字漢字 7 s")
    #expect(wide.line(width: 38) == "[0/1] 1 running: é漢字漢字漢字漢… 7 s")
    #expect(wide.line(width: 37) == "[0/1] 1 running: é漢字漢字漢字… 7 s")
    #expect(RunProgress(done: 0, total: 1, running: []).line(width: 80) == "[0/1] 0 running")
  }

  @Test func aTerminalShowsWhatRunsInOneLine() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #expect(mkfifo(directory.path + "/go", 0o600) == 0)
    try directory.write("jobs.json", file(job("quick", "true", #""priority":"high""#), job("slow", "read x < go")))
    let path = directory.path + "/go"
    let hasGone = Guarded(false)
    let (status, shown) = try await Terminal.run(["run", "jobs.json", "-j", "1"], on: 2, in: directory, columns: 30) { shown, _ in
      guard shown.contains("[1/2] 1 running: slow "),
        hasGone.withLock({ hasGone in
          defer { hasGone = true }
          return !hasGone
        })
      else { return }
      let descriptor = open(path, O_WRONLY)
      _ = write(descriptor, "x\n", 2)
      close(descriptor)
    }
    #expect(status == 0)
    let lines = shown.components(separatedBy: "\r\u{1b}[K")
    #expect(lines.allSatisfy { $0.count < 30 && ($0.isEmpty || $0.hasPrefix("[")) })
    #expect(lines.last == "", "the line is wiped out at the end")
    let quiet = try await Terminal.run(["run", "jobs.json", "quick", "-q"], on: 2, in: directory) { _, _ in }
    #expect(quiet.status == 0 && quiet.shown == "")
  }

  @Test func elsewhereProgressComesAsPlainLines() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #expect(mkfifo(directory.path + "/go", 0o600) == 0)
    try directory.write("jobs.json", file(job("slow", "read x < go")))
    // It goes on when the line has been seen.
    let line = #"""
      { "$OWNEDOPS" run jobs.json --progress 20ms >out; } 2>&1 | {
        while read -r line; do case $line in "[0/1] 1 running: slow "*) echo "$line"; break;; esac; done; echo x > go; cat >/dev/null; }
      """#
    let outcome = try await ToolBinary.shell(line, in: directory)
    #expect(outcome.output.hasPrefix("[0/1] 1 running: slow ") && outcome.output.hasSuffix(" s\n"))
    #expect(!directory.read("out").contains("[0/1]"))
    let wrong = try await run(file(job("a", "true")), "--progress", "often", in: directory)
    #expect(wrong.status == 2 && wrong.errors.contains("--progress: \"often\" is not a duration"))
    #expect(try await run(file(job("a", "true")), "--progress", "0s", in: directory).status == 2)
  }

  // MARK: Results

  private struct Results: Decodable {
    struct Attempt: Decodable {
      let begin: Double
      let end: Double
      let exitStatus: Int?
      let signal: Int?
      let userSeconds: Double
      let systemSeconds: Double
      let peakMemory: Int?
    }
    struct Job: Decodable {
      let name: String
      let owner: String?
      let command: [String]
      let directory: String?
      let result: String
      let reason: String?
      let seconds: Double?
      let attempts: [Attempt]
    }
    let version: Int
    let begin: Double
    let end: Double
    let succeeded: Int
    let failed: Int
    let cancelled: Int
    let jobs: [Job]
  }

  @Test func resultsTellWhatHasBecomeOfEveryJob() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [
      job("large", "head -c 400000000 /dev/zero | tail -c 400000000 >/dev/null"),
      job("bad", "exit 3", #""retries":1,"owner":"o","directory":".""#),
      job("killed", "kill -TERM $$"), job("next", "true", #""after":["bad"]"#),
      job("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"),
      #"{"name":"none","command":["no such command"]}"#,
    ]
    let json = "{\"owners\":[{\"name\":\"o\"}],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let outcome = try await run(json, "-k", "--results", "r.json", in: directory)
    #expect(outcome.status == 1)
    let data = Data(directory.read("r.json").utf8)
    let results = try JSONDecoder().decode(Results.self, from: data)
    #expect(results.version == 1)
    #expect((results.succeeded, results.failed, results.cancelled) == (2, 3, 1))
    #expect(results.jobs.map(\.name) == ["large", "bad", "killed", "next", "busy", "none"])
    #expect(results.jobs.map(\.result) == ["succeeded", "failed", "failed", "cancelled", "succeeded", "failed"])
    #expect(results.jobs.map(\.attempts.count) == [1, 2, 1, 0, 1, 0])
    let (large, bad, killed, next) = (results.jobs[0], results.jobs[1], results.jobs[2], results.jobs[3])
    #expect(large.attempts[0].exitStatus == 0)
    #expect(Sanitizer.isActive || (large.attempts[0].peakMemory ?? 0) > 350_000_000)
    #expect(bad.owner == "o" && bad.directory == "." && bad.reason == "exit status 3, 2 attempts" && bad.command == ["sh", "-c", "exit 3"])
    #expect(bad.attempts.map(\.exitStatus) == [3, 3])
    #expect(killed.attempts[0].signal == 15 && killed.attempts[0].exitStatus == nil)
    #expect(next.reason == "bad did not succeed" && next.seconds == nil)
    #expect(results.jobs[4].attempts[0].userSeconds > 0)
    #expect(results.jobs[5].reason == "no such command: no such command")
    for attempt in results.jobs.flatMap(\.attempts) {
      #expect(results.begin <= attempt.begin && attempt.begin <= attempt.end && attempt.end <= results.end)
    }
    var keys: Set<String> = []
    func collect(_ value: Any) {
      if let object = value as? [String: Any] {
        keys.formUnion(object.keys)
        object.values.forEach(collect)
      }
      (value as? [Any])?.forEach(collect)
    }
    collect(try JSONSerialization.jsonObject(with: data))
    let page = try Documentation.page("JSON.md")
    for key in keys { #expect(page.contains("`\(key)`"), "\(key)") }
  }

  /// It would be emptied in the midst of the run.
  @Test func aLogIsNoOtherFileOfTheRun() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("logs/g.log", file(job("x", "touch ran"), job("g", "touch ran")))
    #expect(symlink("logs/x.log", directory.path + "/link") == 0)
    for (name, arguments) in [
      ("g", []), ("x", ["--journal", "logs/x.log"]), ("x", ["--journal", "link"]), ("x", ["--results", "logs/x.log"]),
      ("x", ["--trace", "logs/../logs/x.log"]),
    ] {
      let input = name == "g" ? "logs/g.log" : "graph.json"
      try directory.write("graph.json", directory.read("logs/g.log"))
      let outcome = try await ToolBinary.run(["run", input, "--log-dir", "logs"] + arguments, in: directory)
      #expect(outcome.status == 2 && outcome.errors.hasPrefix("ownedops: --log-dir: the log of \(name) in logs would be "))
    }
    #expect(!directory.contains("ran"))
    #expect(try await ToolBinary.run(["run", "logs/g.log", "x", "--log-dir", "logs", "--journal", "x.log"], in: directory).status == 0)
  }

  @Test func resultsThatCannotBeWrittenAreRefusedBeforeAnythingRuns() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", file(job("a", "touch ran")))
    for (arguments, message) in [
      (["--results", "nowhere/r"], "--results: can't create nowhere/r"), (["--results", "jobs.json"], "is the file of the input, too"),
      (["--trace", "t", "--results", "t"], "is the file of the input, too"),
    ] {
      let outcome = try await ToolBinary.run(["run", "jobs.json"] + arguments, in: directory)
      #expect(outcome.status == 2 && outcome.errors.contains(message), "\(outcome.errors)")
    }
    #expect(!directory.contains("ran"))
    let full = try await ToolBinary.run(["run", "jobs.json", "--results", "/dev/full"], in: directory)
    #expect(full.status == 1 && full.errors.contains("can't write /dev/full"))
  }

  // MARK: Shares of the machine

  /// The most that was taken at a time, by what jobs have logged when they began and ended.
  private func most(_ log: String) -> Int {
    var (now, most) = (0, 0)
    for number in log.split(separator: "\n").compactMap({ Int($0) }) {
      now += number
      most = max(most, now)
    }
    return most
  }

  @Test func jobsTakeTheirProcessorsAndTheirMemory() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #expect(mkfifo(directory.path + "/p", 0o600) == 0)
    func logged(_ name: String, _ amount: Int, _ key: String, _ more: String = "") -> String {
      job(name, "echo \(amount) >> \(key); sleep 0.05; echo -\(amount) >> \(key)", "\"\(key)\":\(amount)\(more)")
    }
    let processors = (0..<12).map { logged("j\($0)", [1, 3, 2][$0 % 3], "cpus", #","owner":"o""#) }
    // Two that need each other: both fit.
    let meeting = [job("left", "echo x > p", #""cpus":2"#), job("right", "read x < p", #""cpus":2,"priority":"veryHigh""#)]
    let json = "{\"owners\":[{\"name\":\"o\",\"maxConcurrent\":3}],\"jobs\":[\(processors.joined(separator: ","))]}"
    let first = try await run(json, "--jobs", "4", in: directory)
    #expect(lastLine(first) == "12 succeeded, 0 failed, 0 cancelled")
    #expect((3...4).contains(most(directory.read("cpus"))))
    let both = try await run("{\"jobs\":[\(meeting.joined(separator: ","))]}", "--jobs", "4", in: directory)
    #expect(lastLine(both) == "2 succeeded, 0 failed, 0 cancelled")
    let memory =
      (0..<8).map { logged("m\($0)", [1, 2][$0 % 2], "memory") } + [
        job("huge", "echo 3 >> memory; echo -3 >> memory", #""memory":"1T","cpus":99"#)
      ]
    let second = try await run("{\"jobs\":[\(memory.joined(separator: ","))]}", "--jobs", "8", "--memory", "3B", in: directory)
    #expect(lastLine(second) == "9 succeeded, 0 failed, 0 cancelled")
    #expect((2...3).contains(most(directory.read("memory"))), "what wants more than there is runs alone")
    for (job, message) in [
      (#""cpus":0"#, "\"cpus\" is 0; it must be 1 or more"), (#""memory":"lots""#, "\"memory\": \"lots\" is not a size"),
      (#""memory":-1"#, "\"memory\" is not a number of bytes"), (#""cpus":1.5"#, "\"cpus\" is not a whole number"),
    ] {
      let outcome = try await run("{\"jobs\":[{\"name\":\"a\",\"command\":[\"true\"],\(job)}]}", in: directory)
      #expect(outcome.status == 2 && outcome.errors.contains(message), "\(outcome.errors)")
    }
  }

  @Test func jobsThatWaitForTheirShareEndWithTheirOwnerAndHoldNobodyUp() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("file", "")
    #expect(mkfifo(directory.path + "/go", 0o600) == 0)
    // The second waits for more than the first leaves, at the head of the line, until its owner ends; then the third may go, which lets
    // the first go.
    let jobs = [
      job("first", "rm file; read x < go", #""cpus":1,"priority":"veryHigh""#),
      job("second", "touch ran", #""cpus":2,"owner":"o","priority":"high""#),
      job("third", "echo x > go", #""cpus":1"#),
    ]
    let json = "{\"owners\":[{\"name\":\"o\",\"endsWhen\":{\"fileRemoved\":\"file\"}}],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let outcome = try await run(json, "--jobs", "2", in: directory)
    #expect(lastLine(outcome) == "2 succeeded, 0 failed, 1 cancelled")
    #expect(outcome.output.contains("cancelled second: its owner o ended: file has gone"))
    #expect(!directory.contains("ran"))
  }

  @Test(.enabled(if: JobAdmission.currentLoad > 0)) func aLoadedMachineGetsOneJobAtATime() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = "{\"jobs\":[\((0..<6).map { job("j\($0)", "echo 1 >> log; sleep 0.05; echo -1 >> log") }.joined(separator: ","))]}"
    let outcome = try await run(json, "--jobs", "4", "--load", "0.000001", in: directory)
    #expect(lastLine(outcome) == "6 succeeded, 0 failed, 0 cancelled")
    #expect(most(directory.read("log")) == 1)
    for text in ["0", "-1", "x", "inf"] {
      let wrong = try await run(json, "--load=\(text)", in: directory)
      #expect(wrong.status == 2 && wrong.errors.contains("--load: \"\(text)\" is not a number above 0"))
    }
  }
}
