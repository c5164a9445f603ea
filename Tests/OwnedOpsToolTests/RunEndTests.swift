import Foundation
import Testing

@testable import OwnedOpsTool

/// Owners that end, interruptions, kills: no process is left, nothing pending starts.
@Suite(.timeLimit(.minutes(10)))
struct RunEndTests {
  private func quoted(_ line: String) -> String {
    (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
  }

  private func expectGone(_ name: String, _ count: Int, in directory: TemporaryDirectory) {
    let processes = directory.processes(in: name)
    #expect(processes.count == count)
    for process in processes { #expect(!Processes.isRunning(process), "\(process) of \(name)") }
  }

  /// Writes down itself and a child, both deaf to SIGTERM, then does something, then waits for ever.
  private func deafTree(then action: String) -> String {
    "trap '' TERM; sleep 300 & echo $! > pids; echo $$ >> pids; \(action); wait; sleep 300"
  }

  #if os(Linux)
    /// Starts a process that leaves the group of its job.
    private let escape = Self.escape(then: "exec sleep 300")

    private static func escape(then action: String) -> String {
      "setsid sh -c 'echo $$ >> pids; touch escaped; \(action)' & while [ ! -e escaped ]; do :; done"
    }
  #endif

  @Test func anOwnerEndsWhenItsFileGoesWithItsWholeProcessTree() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("flag", "")
    let json = """
      {"owners":[{"name":"parent","endsWhen":{"fileRemoved":"flag"}},{"name":"child","parent":"parent","maxConcurrent":1}],
       "jobs":[{"name":"tree","owner":"child","command":\(quoted(deafTree(then: "rm flag")))},
               {"name":"pending","owner":"child","priority":"low","command":["touch","ran"]},
               {"name":"other","command":["true"]}]}
      """
    let outcome = try await ToolBinary.run(["run", "-", "--grace", "100ms"], in: directory, input: json)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("cancelled tree: its owner parent ended: flag has gone"))
    #expect(outcome.output.contains("cancelled pending: its owner parent ended: flag has gone"))
    #expect(outcome.output.hasSuffix("1 succeeded, 0 failed, 2 cancelled\n"))
    #expect(!directory.contains("ran"))
    expectGone("pids", 2, in: directory)
  }

  @Test func anOwnerEndsWhenAProcessExits() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let watched = try Child(["sleep", "300"], in: directory)
    let json = """
      {"owners":[{"name":"o","endsWhen":{"process":\(watched.identifier)}}],
       "jobs":[{"name":"a","owner":"o","command":\(quoted("kill -KILL \(watched.identifier); sleep 300"))}]}
      """
    let outcome = try await ToolBinary.run(["run", "-"], in: directory, input: json)
    #expect(watched.waitForStatus() == -SIGKILL)
    #expect(outcome.output.contains("cancelled a: its owner o ended: process \(watched.identifier) has exited"))
    // Now it has gone before the beginning.
    let late = try await ToolBinary.run(["run", "-"], in: directory, input: json.replacingOccurrences(of: "sleep 300", with: "touch ran"))
    #expect(late.status == 1)
    #expect(late.output.hasSuffix("0 succeeded, 0 failed, 1 cancelled\n"))
    #expect(!directory.contains("ran"))
  }

  /// Each of them cancels its own jobs. To look at all jobs for each takes minutes.
  @Test func thousandsOfOwnersEndAtOneTime() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = Sanitizer.isActive ? 1000 : 5000
    let owners = (0..<count).map { number in
      "{\"name\":\"o\(number)\",\"endsWhen\":{\"fileRemoved\":\"nothing\"}\(number % 2 == 0 ? "" : ",\"parent\":\"o\(number - 1)\"")}"
    }
    let jobs = (0..<count * 10).map { "{\"name\":\"j\($0)\",\"owner\":\"o\($0 / 10)\",\"command\":[\"touch\",\"ran\"]}" }
    try directory.write("g", "{\"owners\":[\(owners.joined(separator: ","))],\"jobs\":[\(jobs.joined(separator: ","))]}")
    let outcome = try await ToolBinary.run(["run", "g"], in: directory)
    let time = outcome.processorTime
    print("\(count) owners that end, with \(count * 10) jobs: \(time) of processors")
    #expect(outcome.output.contains("cancelled j0: its owner o0 ended: nothing has gone\n"))
    #expect(outcome.output.hasSuffix("0 succeeded, 0 failed, \(Shown.count(count * 10)) cancelled\n"))
    #expect(!directory.contains("ran") && time < .seconds(20))
  }

  /// They are looked at again and again, and the jobs are to have the processor.
  @Test func thousandsOfOwnersProcessesAreLookedAtMoreSeldom() async throws {
    #expect(OwnerWatch.pause(after: .milliseconds(1)) == .milliseconds(20))
    #expect(OwnerWatch.pause(after: .milliseconds(50)) == .milliseconds(500))
    #if os(Linux)
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let owners = (0..<2000).map { "{\"name\":\"o\($0)\",\"endsWhen\":{\"process\":\(getpid())}}" }.joined(separator: ",")
      // How much processor time the tool takes within how much time, in hundredths of a second. The time begins before and ends after.
      let line = """
        ticks() { set -- $(cut -d ' ' -f 14,15 /proc/$PPID/stat); echo $(($1 + $2)); }
        now() { cut -d ' ' -f 1 /proc/uptime | tr -d .; }
        sleep 1; began=$(now); before=$(ticks); sleep 2; used=$(($(ticks) - before)); echo $used $(($(now) - began)) > ticks
        """
      try directory.write("line", line)
      try directory.write("g", "{\"owners\":[\(owners)],\"jobs\":[{\"name\":\"a\",\"owner\":\"o7\",\"command\":[\"sh\",\"line\"]}]}")
      #expect(try await ToolBinary.run(["run", "g"], in: directory).status == 0)
      let ticks = directory.read("ticks").split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
      try #require(ticks.count == 2)
      #expect(ticks[0] * 10 < ticks[1] * 3, "\(ticks)")
    #endif
  }

  @Test func aProcessThatCanNotBeLookedAtHasNotExited() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let child = try Child(["sleep", "300"], in: directory)
    let birth = ProcessFields(of: child.identifier)?.birth
    #expect(!OwnerWatch.hasExited(child.identifier, bornAt: birth))
    #expect(!OwnerWatch.hasExited(child.identifier, bornAt: birth) { _ in nil })
    #expect(birth == nil || OwnerWatch.hasExited(child.identifier, bornAt: "another time"))
    kill(child.identifier, SIGKILL)
    child.waitForStatus()
    #expect(OwnerWatch.hasExited(child.identifier, bornAt: birth) && OwnerWatch.hasExited(child.identifier, bornAt: birth) { _ in nil })
  }

  @Test func anOwnerEndsAfterATime() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = """
      {"owners":[{"name":"o","endsWhen":{"after":"50ms"}}],
       "jobs":[{"name":"a","owner":"o","command":["sleep","300"]},{"name":"b","after":["a"],"command":["touch","ran"]}]}
      """
    let outcome = try await ToolBinary.run(["run", "-"], in: directory, input: json)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("its owner o ended: 50.0 ms have passed"))
    #expect(outcome.output.contains("cancelled b: a did not succeed"))
    #expect(!directory.contains("ran"))
  }

  @Test(arguments: [("INT", SIGINT), ("TERM", SIGTERM), ("HUP", SIGHUP), ("QUIT", SIGQUIT)])
  func interruptingLeavesNoProcess(name: String, number: Int32) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = """
      {"jobs":[{"name":"tree","command":\(quoted(deafTree(then: "kill -\(name) $PPID")))},
               {"name":"pending","after":["tree"],"command":["touch","ran"]}]}
      """
    let outcome = try await ToolBinary.run(["run", "-", "--grace=100ms"], in: directory, input: json)
    #expect(outcome.status == 128 + number)
    #expect(outcome.output.contains("cancelled tree: interrupted"))
    // No report of a crash, only this.
    #expect(outcome.errors == "ownedops: interrupted: waiting for 1 command to end (tree), 0.10 s at most; once more kills at once\n")
    #expect(outcome.output.hasSuffix("0 succeeded, 0 failed, 2 cancelled\n"))
    #expect(!directory.contains("ran"))
    expectGone("pids", 2, in: directory)
  }

  @Test func interruptingTwiceDoesNotWaitForTheGrace() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // The second signal follows the SIGTERM that the first leads to.
    let line = "trap 'kill -INT $PPID' TERM; echo $$ > pids; kill -INT $PPID; while :; do sleep 1; done"
    let outcome = try await ToolBinary.run(
      ["run", "-", "--grace=1h"], in: directory, input: "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(line))}]}")
    #expect(outcome.status == 130)
    expectGone("pids", 1, in: directory)
  }

  @Test func whatACommandLeavesRunningEndsWithIt() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    var line = "sleep 300 & echo $! > pids"
    var count = 1
    #if os(Linux)
      line += "; \(escape)"
      count = 2
    #endif
    let outcome = try await ToolBinary.run(["run", "-"], in: directory, input: "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(line))}]}")
    #expect(outcome.status == 0)
    expectGone("pids", count, in: directory)
  }

  #if os(Linux)
    /// One ends when asked, one is deaf; both have left their job's group.
    @Test(arguments: [("echo told > told; exit", "1h", "told\n"), ("", "100ms", "")])
    func whatJobsLeaveBehindIsAskedToEndBeforeItIsKilled(trap: String, grace: String, told: String) async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      try directory.write("told", "")
      let line = """
        setsid sh -c 'trap "\(trap)" TERM; echo $$ >> pids; while :; do sleep 0.02; done' &
        while [ ! -s pids ]; do :; done
        """
      let outcome = try await ToolBinary.run(
        ["run", "-", "--grace", grace], in: directory, input: "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(line))}]}")
      #expect(outcome.status == 0)
      #expect(directory.read("told") == told)
      expectGone("pids", 1, in: directory)
    }

    @Test func orphansAreLeftAloneIfAsked() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      // One stays in the group, one leaves it, and both write to what was their job's output when the tool has gone.
      let orphan = "echo $$ >> pids; read x < go; echo more; echo more >&2; echo alive > $1"
      try directory.write("orphan", orphan)
      #expect(mkfifo(directory.path + "/go", 0o600) == 0)
      let near = try ListeningPipe("near", in: directory)
      let far = try ListeningPipe("far", in: directory)
      let line = "sh orphan near & setsid sh orphan far & while [ $(wc -l < pids) -lt 2 ]; do :; done; echo out"
      try directory.write("pids", "")
      let outcome = try await ToolBinary.run(
        ["run", "-", "--keep-orphans"], in: directory, input: "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(line))}]}")
      #expect(outcome.status == 0)
      #expect(outcome.output.contains("succeeded a"))
      let processes = directory.processes(in: "pids")
      #expect(processes.count == 2)
      for process in processes { #expect(Processes.isRunning(process)) }
      let go = open(directory.path + "/go", O_RDWR | O_CLOEXEC)
      #expect(write(go, "x\nx\n", 4) == 4)
      #expect(await near.readToEnd() == "alive\n")
      #expect(await far.readToEnd() == "alive\n")
      close(go)
    }

    @Test func aProcessThatTheRunDidNotStartIsLeftAlone() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      // It does not become another program: while it did, nobody could tell for a moment that it comes from this run.
      let escape = Self.escape(then: "sleep 300; exit")
      try directory.write("jobs.json", "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(escape))}]}")
      // The shell's child, and that one's, become the executable's with the shell.
      let line =
        "sh -c 'sleep 300 & echo $! $$ > others; wait' & while [ ! -s others ]; do :; done; exec \"$OWNEDOPS\" run jobs.json"
      let outcome = try await ToolBinary.shell(line, in: directory)
      #expect(outcome.status == 0)
      expectGone("pids", 1, in: directory)
      let others = directory.processes(in: "others")
      #expect(others.count == 2)
      for process in others { #expect(Processes.isRunning(process)) }
      // Only then: one ends with the other.
      for process in others { kill(process, SIGKILL) }
    }
  #endif

  @Test func killingTheToolItselfLeavesNoProcess() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // The shell and what it has started hold the pipe until they are gone.
    let pipe = try ListeningPipe("pipe", in: directory)
    var end = "echo begun >&9; kill -KILL $PPID"
    var count = 2
    #if os(Linux)
      end = "\(escape); \(end)"
      count = 3
    #endif
    let line = "exec 9>pipe; " + deafTree(then: end)
    let outcome = try await ToolBinary.run(
      ["run", "-", "--grace=100ms"], in: directory, input: "{\"jobs\":[{\"name\":\"a\",\"command\":\(quoted(line))}]}")
    #expect(outcome.status == -SIGKILL)
    #expect(directory.processes(in: "pids").count == count)
    // The guard needs a moment, however long the machine takes; the suite's limit ends a wait in vain.
    #expect(await pipe.readToEnd() == "begun\n")
  }

  @Test func aCancellationIsRecordedForTheMomentItCameNotTheOneItIsTold() throws {
    let recorder = JobRecorder()
    let mark = recorder.begin()
    let time = recorder.now
    recorder.end(mark, name: "long", owner: "o", outcome: .succeeded)
    recorder.cancelled(name: "next", owner: "o", at: time)
    let events = recorder.record.events
    let long = try #require(events.first { $0.name == "long" })
    let next = try #require(events.first { $0.name == "next" })
    #expect(next.start == time && next.start <= long.end)
  }

  @Test func picturesOfARunShowCancellationsWhenTheyCame() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = """
      {"owners":[{"name":"o<1>"}],"jobs":[{"name":"bad","owner":"o<1>","command":["false"],"priority":"high"},
      {"name":"next","after":["bad"],"command":["true"]},{"name":"free","command":["true"]}]}
      """
    let outcome = try await ToolBinary.run(["run", "-", "-k", "-j", "1", "--timeline=t.svg", "--trace=t.json"], in: directory, input: json)
    #expect(outcome.status == 1)
    let trace = try JSONSerialization.jsonObject(with: Data(directory.read("t.json").utf8)) as? [String: Any]
    var outcomes: [String: String] = [:]
    var begins: [String: Double] = [:]
    var ends: [String: Double] = [:]
    for event in trace?["traceEvents"] as? [[String: Any]] ?? [] {
      guard let name = event["name"] as? String, let arguments = event["args"] as? [String: Any] else { continue }
      outcomes[name] = arguments["outcome"] as? String
      begins[name] = event["ts"] as? Double
      ends[name] = (event["ts"] as? Double).map { $0 + (event["dur"] as? Double ?? 0) }
    }
    #expect(outcomes["bad"] == "failed" && outcomes["next"] == "cancelled" && outcomes["free"] == "succeeded")
    // Whether that is before the end of the third job is for the system to decide.
    #expect(try #require(begins["next"]) >= #require(ends["bad"]))
    #expect(directory.read("t.svg").contains("next, run: cancelled, never ran"))
    #expect(directory.read("t.svg").contains("o&lt;1&gt;"))
  }
}
