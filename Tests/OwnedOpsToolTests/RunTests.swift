import Foundation
import Testing

@testable import OwnedOpsTool

@Suite(.timeLimit(.minutes(10)))
struct RunTests {
  /// Runs a graph given as JSON.
  private func run(_ json: String, _ arguments: String..., in directory: TemporaryDirectory) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(["run", "-"] + arguments, in: directory, input: json)
  }

  private func shell(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func lastLine(_ outcome: ToolBinary.Outcome) -> String { outcome.output.split(separator: "\n").last.map(String.init) ?? "" }

  // MARK: Order and output

  @Test func jobsRunAfterWhatTheyDependOnAndUrgentOnesFirst() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func job(_ name: String, _ more: String) -> String { shell(name, "echo \(name) >> log", more) }
    let jobs = [
      job("last", #""after":["slow","urgent"],"priority":"veryHigh""#), job("slow", #""priority":"veryLow""#),
      job("plain", #""priority":"normal""#),
      job("urgent", #""priority":"high""#),
    ]
    let outcome = try await run("{\"jobs\":[\(jobs.joined(separator: ","))]}", "--jobs", "1", in: directory)
    #expect(outcome.status == 0)
    #expect(directory.read("log") == "urgent\nplain\nslow\nlast\n")
    #expect(lastLine(outcome) == "4 succeeded, 0 failed, 0 cancelled")
  }

  @Test func outputIsShownWholeAndNeverInterleaved() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // They write in turns: each waits for the other's line.
    let lines = #"for i in 1 2 3 4 5; do echo "$0 $i"; echo x > $1; read x < $2; done; printf "$0 end""#
    func job(_ name: String, _ out: String, _ into: String) -> String {
      let flip = name == "left" ? lines : lines.replacingOccurrences(of: "echo x > $1; read x < $2", with: "read x < $2; echo x > $1")
      let words = (try? JSONEncoder().encode(["sh", "-c", flip, name, out, into])).map { String(decoding: $0, as: UTF8.self) } ?? ""
      return "{\"name\":\"\(name)\",\"command\":\(words)}"
    }
    mkfifo(directory.path + "/p", 0o600)
    mkfifo(directory.path + "/q", 0o600)
    let outcome = try await run("{\"jobs\":[\(job("left", "p", "q")),\(job("right", "q", "p"))]}", "--jobs", "2", in: directory)
    #expect(outcome.status == 0)
    for name in ["left", "right"] {
      #expect(outcome.output.contains((1...5).map { "\(name) \($0)\n" }.joined() + "\(name) end\n"))
    }
  }

  @Test func directoryEnvironmentAndRetriesAreHeeded() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("work/x", "")
    let jobs = [
      shell("where", "pwd; echo $COLOUR$HOME", #""directory":"work","environment":{"COLOUR":"blue","HOME":"/h"}"#),
      shell("flaky", "echo try >> tries; [ $(wc -l < tries) -ge 3 ]", #""retries":2"#),
      shell("hopeless", "echo try >> hopeless; exit 3", #""retries":1"#),
    ]
    let outcome = try await run("{\"jobs\":[\(jobs.joined(separator: ","))]}", "--keep-going", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("/work\nblue/h\n"))
    #expect(directory.read("tries") == "try\ntry\ntry\n")
    #expect(directory.read("hopeless") == "try\ntry\n")
    #expect(outcome.output.contains("failed hopeless: exit status 3, 2 attempts"))
    #expect(lastLine(outcome) == "2 succeeded, 1 failed, 0 cancelled; failed: hopeless")
  }

  #if os(Linux)
    /// Root's, too, though GCD sets the priorities of its threads where it may.
    @Test func commandsHaveThePriorityThatTheToolWasStartedWith() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let line = "cut -d ' ' -f 19 /proc/self/stat"
      try directory.write("graph.json", "{\"jobs\":[\((0..<4).map { shell("j\($0)", line) }.joined(separator: ","))]}")
      let wanted = try await ToolBinary.shell("nice -n 5 \(line)", in: directory).output
      for more in ["", " --journal j"] {
        let outcome = try await ToolBinary.shell(#"nice -n 5 "$OWNEDOPS" run graph.json"# + more, in: directory)
        #expect(outcome.output.split(separator: "\n").filter { $0 + "\n" == wanted }.count == 4, "\(outcome.output)")
      }
    }
  #endif

  /// Also where they are no text: names of files, for example; and where their names are none.
  @Test func variablesReachCommandsByteForByte() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let show = #"printf '%s,%s,%s' "$X" "$Y" "$Z" | od -An -c"#
    let changed = shell("changed", show, #""environment":{"Y":"new","Z":"é"}"#)
    let jobs = [shell("plain", show), changed, #"{"name":"all","command":["env"]}"#]
    try directory.write("graph.json", "{\"jobs\":[\(jobs.joined(separator: ","))]}")
    let begin = #"exec env X="$(printf 'a\377b')" Y=old "$(printf 'caf\351=there')" "$OWNEDOPS" run graph.json -j1"#
    for more in ["", " --journal j"] {
      let outcome = try await ToolBinary.shell(begin + more, in: directory)
      let lines = outcome.output.split(separator: "\n").map { $0.filter { $0 != " " } }
      #expect(lines.filter { $0 == "a377b,old," || $0 == "a377b,new,303251" }.count == 2, "\(outcome.output)")
      #expect(lines.contains { $0.hasSuffix("=there") }, "\(outcome.output)")
    }
  }

  @Test func noMoreJobsOfAnOwnerRunThanItAllows() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Neighbours meet, so that two do run at a time, however slow the machine.
    let jobs = (0..<12).map { place in
      let meeting = place % 2 == 0 ? "echo x > p\(place); read x < q\(place)" : "read x < p\(place - 1); echo x > q\(place - 1)"
      return shell("j\(place)", "echo + >> log; \(meeting); echo - >> log", #""owner":"few""#)
    }
    for place in stride(from: 0, to: 12, by: 2) {
      for name in ["p", "q"] { #expect(mkfifo("\(directory.path)/\(name)\(place)", 0o600) == 0) }
    }
    let json = "{\"owners\":[{\"name\":\"few\",\"maxConcurrent\":2}],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let outcome = try await run(json, "--jobs", "8", in: directory)
    #expect(outcome.status == 0)
    var running = 0
    var most = 0
    for line in directory.read("log").split(separator: "\n") {
      running += line == "+" ? 1 : -1
      most = max(most, running)
    }
    #expect(most == 2)
    #expect(lastLine(outcome) == "12 succeeded, 0 failed, 0 cancelled")
  }

  // MARK: Failure

  @Test func dependentsOfAFailedJobAreCancelledAndTheRestRunsIfAsked() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [
      shell("bad", "exit 7", #""priority":"high""#), shell("child", "touch child", #""after":["bad"]"#),
      shell("grandchild", "touch grandchild", #""after":["child"]"#), shell("free", "touch free", #""priority":"low""#),
    ]
    let json = "{\"owners\":[{\"name\":\"few\",\"maxConcurrent\":1}],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let strict = try await run(json, "--jobs", "1", in: directory)
    #expect(strict.status == 1)
    #expect(strict.output.contains("failed bad: exit status 7"))
    #expect(strict.output.contains("cancelled child: bad did not succeed"))
    #expect(strict.output.contains("cancelled free: bad has failed"))
    #expect(lastLine(strict) == "0 succeeded, 1 failed, 3 cancelled; failed: bad")
    #expect(!directory.contains("free"))
    let going = try await run(json, "--jobs", "1", "--keep-going", in: directory)
    #expect(going.status == 1)
    #expect(lastLine(going) == "1 succeeded, 1 failed, 2 cancelled; failed: bad")
    #expect(directory.contains("free"))
    #expect(!directory.contains("child") && !directory.contains("grandchild"))
  }

  @Test func aJobBehindAnOwnersLimitIsCancelledWithWhatItDependsOn() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [
      shell("bad", "exit 1"), shell("limited", "touch ran", #""after":["bad"],"owner":"one""#), shell("fine", "true", #""owner":"one""#),
    ]
    let json = "{\"owners\":[{\"name\":\"one\",\"maxConcurrent\":1}],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let outcome = try await run(json, "--keep-going", in: directory)
    #expect(lastLine(outcome) == "1 succeeded, 1 failed, 1 cancelled; failed: bad")
    #expect(!directory.contains("ran"))
  }

  @Test func aCommandThatCannotBeStartedIsAFailedJob() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("plain.txt", "")
    let json = """
      {"jobs":[{"name":"a","command":["no-such-command-here"]},{"name":"b","command":["true"],"directory":"nowhere"},
      {"name":"c","command":["./plain.txt"]},{"name":"d","command":["no-such","x"],"environment":{"PATH":"/nowhere"}}]}
      """
    let outcome = try await run(json, "-k", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("failed a: no such command: no-such-command-here"))
    #expect(outcome.output.contains("failed b: can't enter directory nowhere: No such file or directory"))
    #expect(outcome.output.contains("failed c: can't run ./plain.txt"))
    #expect(outcome.output.contains("failed d: no such command: no-such"))
    #expect(lastLine(outcome) == "0 succeeded, 4 failed, 0 cancelled; failed: a, b, c, d")
  }

  @Test func aTimeoutEndsTheWholeProcessTree() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [
      shell("slow", "sleep 300 & echo $! > pids; echo $$ >> pids; wait", #""timeout":"300ms""#),
      shell("next", "true", #""after":["slow"]"#),
    ]
    let outcome = try await run("{\"jobs\":[\(jobs.joined(separator: ","))]}", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("failed slow: timed out after 0.30 s"))
    #expect(lastLine(outcome) == "0 succeeded, 1 failed, 1 cancelled; failed: slow")
    for process in directory.processes(in: "pids") { #expect(!Processes.isRunning(process)) }
  }

  @Test func badInputIsRefusedBeforeAnythingRuns() async throws {
    let run = #"{"name":"a","command":["touch","ran"]}"#
    let cases: [(String, String)] = [
      ("", "standard input: not JSON"),
      ("{\"jobs\": [\n{]}", "line 2"),
      ("[]", "the document is not an object"),
      ("{}", "there is no \"jobs\""),
      (#"{"jobs":[]}"#, "\"jobs\" is empty"),
      ("{\"job\":[\(run)]}", "the document: unknown key \"job\"; did you mean \"jobs\"?"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"comand\":[\"true\"]}]}", "job \"b\": unknown key \"comand\"; did you mean \"command\"?"),
      ("{\"jobs\":[\(run),{\"command\":[\"true\"]}]}", "job 2 has no \"name\""),
      ("{\"jobs\":[\(run),{\"name\":\"b\"}]}", "job \"b\": there is no \"command\""),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[]}]}", "job \"b\": \"command\" is empty"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[1]}]}", "job \"b\": \"command\" is not a list of texts"),
      ("{\"jobs\":[\(run),\(run)]}", "two jobs are called \"a\""),
      (
        "{\"owners\":[{\"name\":\"site\"}],\"jobs\":[{\"name\":\"a\",\"owner\":\"sit\",\"command\":[\"true\"]}]}",
        "job \"a\": there is no owner \"sit\"; did you mean \"site\"?"
      ),
      (
        "{\"jobs\":[\(run),{\"name\":\"b\",\"after\":[\"aa\"],\"command\":[\"true\"]}]}",
        "job \"b\": there is no job \"aa\" to come after; did you mean \"a\"?"
      ),
      // None is near but the job itself.
      ("{\"jobs\":[{\"name\":\"ab\",\"after\":[\"a\"],\"command\":[\"x\"]}]}", "job \"ab\": there is no job \"a\" to come after (line"),
      (
        "{\"jobs\":[\(run),{\"name\":\"b\",\"after\":[\"c\"],\"command\":[\"x\"]},{\"name\":\"c\",\"after\":[\"b\"],\"command\":[\"x\"]}]}",
        "in a circle: b -> c -> b"
      ),
      ("{\"jobs\":[{\"name\":\"b\",\"after\":[\"b\"],\"command\":[\"x\"]}]}", "in a circle: b -> b"),
      (
        "{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"timeout\":\"soon\"}]}",
        "job \"b\": \"timeout\": \"soon\" is not a duration"
      ),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"timeout\":5}]}", "job \"b\": \"timeout\" is not a duration in quotes"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"retries\":true}]}", "job \"b\": \"retries\" is not a whole number"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"retries\":1.5}]}", "job \"b\": \"retries\" is not a whole number"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"retries\":-1}]}", "job \"b\": \"retries\" is -1"),
      ("{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"priority\":\"urgent\"}]}", "job \"b\": \"priority\" is \"urgent\""),
      (
        "{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"environment\":{\"A\":1}}]}",
        "job \"b\": \"environment\": \"A\" is not a text"
      ),
      ("{\"owners\":[{\"name\":\"o\",\"maxConcurrent\":0}],\"jobs\":[\(run)]}", "owner \"o\": \"maxConcurrent\" is 0"),
      ("{\"owners\":[{\"name\":\"o\",\"parent\":\"p\"}],\"jobs\":[\(run)]}", "owner \"o\": there is no owner \"p\""),
      (
        "{\"owners\":[{\"name\":\"o\",\"parent\":\"p\"},{\"name\":\"p\",\"parent\":\"o\"}],\"jobs\":[\(run)]}",
        "owners are each other's parents in a circle: o -> p -> o"
      ),
      ("{\"owners\":[{\"name\":\"o\"},{\"name\":\"o\"}],\"jobs\":[\(run)]}", "two owners are called \"o\""),
      (
        "{\"owners\":[{\"name\":\"o\",\"endsWhen\":{\"proces\":1}}],\"jobs\":[\(run)]}",
        "owner \"o\": \"endsWhen\": unknown key \"proces\"; did you mean \"process\"?"
      ),
      (
        "{\"jobs\":[\(run),{\"name\":\"b\",\"command\":[\"x\"],\"directory\":\"a\\u0000b\"}]}",
        "job \"b\": \"directory\" is no path"
      ),
      (
        "{\"owners\":[{\"name\":\"o\",\"endsWhen\":{\"fileRemoved\":\"\"}}],\"jobs\":[\(run)]}",
        "\"fileRemoved\" is no path"
      ),
      (String(repeating: "[", count: 100_000), "standard input: not JSON"),
      ("{\"owners\":[{\"name\":\"o\",\"endsWhen\":{}}],\"jobs\":[\(run)]}", "owner \"o\": \"endsWhen\" wants one of"),
      ("{\"owners\":[{\"name\":\"o\",\"endsWhen\":{\"process\":0}}],\"jobs\":[\(run)]}", "owner \"o\": \"process\" is 0"),
    ]
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for (json, message) in cases {
      try directory.write("jobs.json", json)
      // The errors themselves are quick to ask for; one is asked of the executable, below.
      #expect {
        _ = try RunFile(Data(json.utf8), source: "standard input")
      } throws: { error in
        #expect("\(error)".contains(message), "\(json.prefix(200))\n\(error)")
        #expect("\(error)".contains(/\(line \d+, column \d+\)$/), "\(error)")
        return error is UsageError
      }
    }
    let outcome = try await ToolBinary.run(["run", "jobs.json"], in: directory)
    #expect(outcome.status == 2)
    #expect(outcome.errors.hasPrefix("ownedops: jobs.json: owner \"o\": "))
    #expect(!directory.contains("ran"))
  }

  // MARK: Logs

  @Test func logsAreWrittenForEachJobAndAFullDiskFailsTheJob() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("logs/x", "")
    #if os(Linux)
      #expect(symlink("/dev/full", directory.path + "/logs/full.log") == 0)
    #endif
    let jobs = [shell("full", "echo much"), shell("a/b .", "echo out; echo err >&2")]
    let outcome = try await run("{\"jobs\":[\(jobs.joined(separator: ","))]}", "--log-dir", "logs", "-k", in: directory)
    #expect(directory.read("logs/a%2fb%20..log") == "out\nerr\n")
    #if os(Linux)
      #expect(outcome.output.contains("failed full: its log logs/full.log could not be written: No space left on device"))
      #expect(lastLine(outcome) == "1 succeeded, 1 failed, 0 cancelled; failed: full")
      #expect(outcome.status == 1)
    #endif
  }

  @Test func logFileNamesAreDistinctAndShort() {
    let names = ["a", "A", "a/b", "a%2fb", ".", "..", "é", String(repeating: "x", count: 300), String(repeating: "x", count: 301)]
    let files = names.map(JobLogs.fileName)
    #expect(Set(files).count == names.count)
    #expect(files.allSatisfy { $0.utf8.count < 255 && !$0.contains("/") && !$0.hasPrefix(".") })
  }

  @Test func jobsRunToTheirEndWhenStandardOutputIsClosed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", "{\"jobs\":[\(shell("a", "echo x; touch ran"))]}")
    let outcome = try await ToolBinary.shell("\"$OWNEDOPS\" run jobs.json >&-", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.errors.contains("can't write to standard output"))
    #expect(directory.contains("ran"))
  }

  // MARK: Size

  @Test func aLargeGraphIsReadCheckedAndStartedWithinSeconds() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Optimised, two seconds, otherwise four times that; the bound leaves room for machines of any kind.
    let count = Sanitizer.isActive ? 20_000 : 200_000
    var jobs = [shell("j0", "grep VmHWM /proc/$PPID/status; exit 1")]
    for number in 1..<count {
      jobs.append("{\"name\":\"j\(number)\",\"after\":[\"j\(number - 1)\",\"j\(number / 2)\"],\"command\":[\"true\"]}")
    }
    let json = "{\"jobs\":[\(jobs.joined(separator: ","))]}"
    let outcome = try await run(json, "-q", in: directory)
    let time = outcome.processorTime
    print("\(count) jobs with \(2 * count) edges, read, checked, the first run, the others cancelled: \(time) of processors")
    #expect(outcome.status == 1)
    #expect(lastLine(outcome) == "0 succeeded, 1 failed, \(Shown.count(count - 1)) cancelled; failed: j0")
    #expect(time < .seconds(30))
    #if os(Linux)
      // In kB.
      let memory = outcome.output.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }?.split { !$0.isNumber }.first.flatMap { Int($0) }
      print("and at most \(memory ?? 0) kB by the time of the first command")
      #expect(try #require(memory) < 300_000 || Sanitizer.isActive)
    #endif
  }

  @Test func aJobThatComesAfterAllOthersAndAnOwnerForEachAreReadAndDrawnWithinSeconds() throws {
    // Comparing all with all takes minutes.
    let count = Sanitizer.isActive ? 20_000 : 100_000
    let owners = (0..<count).map { "{\"name\":\"o\($0)\"}" }
    var jobs = (0..<count).map { "{\"name\":\"j\($0)\",\"owner\":\"o\($0)\",\"command\":[\"true\"]}" }
    let names = (0..<count).map { "\"j\($0)\"" }.joined(separator: ",")
    jobs.append("{\"name\":\"last\",\"after\":[\(names),\"j0\"],\"command\":[\"true\"]}")
    let json = "{\"owners\":[\(owners.joined(separator: ","))],\"jobs\":[\(jobs.joined(separator: ","))]}"
    let start = ProcessorTime.ofThread
    let file = try RunFile(Data(json.utf8), source: "test")
    let lines = [GraphPicture(file).dot, GraphPicture(file).mermaid].map { $0.utf8.count { $0 == UInt8(ascii: "\n") } }
    let time = ProcessorTime.ofThread - start
    print("\(count) jobs of as many owners, and one after all of them, read and drawn twice: \(time) of a processor")
    #expect(file.jobs[count].after.count == count)
    #expect(lines == [4 + 6 * count + 1, 1 + 4 * count + 1])
    #expect(time < .seconds(30))
  }

  @Test func manyShortCommandsCostLittleMoreThanStartingThem() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #if DEBUG
      let count = 500
    #else
      let count = 10_000
    #endif
    // What can't be avoided: starting as many, one after the other, and waiting for each.
    let nowhere = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nowhere) }
    let clock = ContinuousClock()
    let (start, began) = (ProcessorTime.ofThread, clock.now)
    var bare = Duration.zero
    for _ in 0..<count {
      let process = try ChildProcess.start(.init(words: ["true"]), output: nowhere)
      bare += ProcessorTime.waitForEnd(of: process).processorTime
    }
    bare += ProcessorTime.ofThread - start
    let (bareWall, runBegan) = (clock.now - began, clock.now)
    let jobs = (0..<count).map { "{\"name\":\"j\($0)\",\"command\":[\"true\"]}" }
    let outcome = try await run("{\"jobs\":[\(jobs.joined(separator: ","))]}", "-q", "--jobs", "1", in: directory)
    let (time, wall) = (outcome.processorTime, clock.now - runBegan)
    print("\(count) times true: \(wall), \(time) of processors; starting as many processes one after the other: \(bareWall), \(bare)")
    #expect(outcome.status == 0)
    #expect(lastLine(outcome) == "\(Shown.count(count)) succeeded, 0 failed, 0 cancelled")
    #expect(time < bare * 2 + .seconds(2))
    // Others may want the processors, too; but to wait for something at each job would show.
    #expect(wall < bareWall * 4 + .milliseconds(15 * count))
  }

  @Test func aCommandKilledByASignalIsAFailedJobThatSaysSo() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await run("{\"jobs\":[\(shell("a", "kill -KILL $$")),\(shell("b", "exit 255"))]}", "-k", in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("failed a: killed by signal 9, Killed"))
    #expect(outcome.output.contains("failed b: exit status 255"))
    #expect(lastLine(outcome) == "0 succeeded, 2 failed, 0 cancelled; failed: a, b")
  }
}
