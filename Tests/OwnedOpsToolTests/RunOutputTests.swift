import Foundation
import Testing

@testable import OwnedOpsTool

/// Where output goes, and what happens when there is no room for it, nobody who reads it, or too few processes and descriptors.
@Suite(.timeLimit(.minutes(10)))
struct RunOutputTests {
  private func job(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func write(_ jobs: [String], in directory: TemporaryDirectory) throws {
    try directory.write("jobs.json", "{\"jobs\":[\(jobs.joined(separator: ","))]}")
  }

  /// More than is kept in memory.
  private let much = "head -c 300000 /dev/zero | tr '\\0' x"

  // MARK: No room

  @Test func outputThatCouldNotBeKeptFailsTheJobAndSaysSo() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([job("little", "echo fine"), job("much", much), job("next", "touch next", #""after":["much"]"#)], in: directory)
    // No file may grow beyond 100 blocks of 512 bytes: what a full disk is, without one.
    let line = "{ ulimit -f 100; \"$OWNEDOPS\" run jobs.json -k -j1; echo $? > status; } | cat"
    let full = try await ToolBinary.shell(line, in: directory)
    #expect(directory.read("status") == "1\n")
    #expect(full.output.contains("succeeded little"))
    #expect(full.output.contains("failed much: its output could not be kept in "))
    #expect(full.output.contains(": File too large ("))
    #expect(full.output.contains("cancelled next: much did not succeed"))
    #expect(full.output.hasSuffix("1 succeeded, 1 failed, 1 cancelled; failed: much\n"))
    #expect(!directory.contains("next"))
    let missing = try await ToolBinary.run(["run", "jobs.json", "-k"], in: directory, environment: ["TMPDIR": "/nowhere"])
    #expect(missing.status == 1)
    #expect(missing.output.contains("failed much: its output could not be kept in /nowhere: No such file or directory"))
    #expect(missing.output.contains("xxxxxxxx"), "what had been kept is shown")
    // Not quiet about it, either.
    let quiet = try await ToolBinary.run(["run", "jobs.json", "-kq"], in: directory, environment: ["TMPDIR": "/nowhere"])
    #expect(quiet.output.contains("failed much: its output could not be kept"))
  }

  @Test func aJobWhoseOutputCannotBeKeptIsNotTriedAgain() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([job("much", "echo try >> tries; \(much); exit 1", #""retries":3"#)], in: directory)
    let outcome = try await ToolBinary.run(["run", "jobs.json"], in: directory, environment: ["TMPDIR": "/nowhere"])
    #expect(outcome.output.contains("failed much: exit status 1; its output could not be kept in /nowhere"))
    #expect(directory.read("tries") == "try\n")
  }

  /// Of what ran elsewhere. Whoever reads it does not wait for a copy of it to be made.
  @Test func aLargeLogIsPrintedFromWhereItIs() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let memory = OutputMemory(most: 1 << 20)
    for (name, size, isCopied) in [("small", 1 << 10, true), ("large", 1 << 17, false)] {
      try directory.write(name, String(repeating: "a", count: size - 2) + "z\n")
      let output = try #require(JobOutput(ofLog: directory.path + "/" + name, memory: memory))
      #expect(output.tail(3) == "az\n" && output.isInFile != isCopied)
      let descriptor = open(directory.path + "/" + name, O_RDWR | O_CLOEXEC)
      defer { close(descriptor) }
      #expect(Foundation.write(descriptor, "b", 1) == 1)
      let copy = open(directory.path + "/copy", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
      defer { close(copy) }
      #expect(output.copy(to: copy) == nil)
      #expect(directory.read("copy") == (isCopied ? "a" : "b") + directory.read(name).dropFirst())
      output.release()
    }
    #expect(memory.take(1 << 20))
    #expect(JobOutput(ofLog: directory.path + "/nothing", memory: memory) == nil && JobOutput(ofLog: directory.path, memory: memory) == nil)
  }

  @Test func aLogIsWrittenWhileItsJobRuns() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // It waits for its own line.
    try write([job("a", "echo out; until grep -q out logs/a.log; do :; done; echo end")], in: directory)
    let outcome = try await ToolBinary.run(["run", "jobs.json", "--log-dir", "logs"], in: directory)
    #expect(outcome.status == 0)
    #expect(directory.read("logs/a.log") == "out\nend\n")
    #expect(outcome.output.contains("\nout\nend\n"))
  }

  @Test func muchOutputIsShownWhole() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write([job("a", "\(much); printf end")], in: directory)
    let outcome = try await ToolBinary.run(["run", "jobs.json", "--log-dir", "logs"], in: directory)
    let whole = String(repeating: "x", count: 300_000) + "end"
    #expect(outcome.output.contains("\n\(whole)\n1 succeeded"))
    #expect(directory.read("logs/a.log") == whole)
  }

  // MARK: Nobody reads

  @Test func jobsRunToTheirEndWhileStandardOutputIsBlocked() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let blocked = (0..<8).map { job("j\($0)", much) }
    let names = (0..<8).map { "\"j\($0)\"" }.joined(separator: ",")
    try write(blocked + [job("last", "echo done > signal", "\"after\":[\(names)]")], in: directory)
    let output = try ListeningPipe("output", in: directory)
    let signal = try ListeningPipe("signal", in: directory)
    let child = try Child([ToolBinary.url.path, "run", "jobs.json", "-j2"], in: directory, output: directory.path + "/output")
    // All have run, and nothing has been read.
    #expect(await signal.readToEnd() == "done\n")
    let text = await output.readToEnd()
    #expect(await child.status() == 0)
    #expect(text.utf8.count { $0 == UInt8(ascii: "x") } == 8 * 300_000)
    #expect(text.hasSuffix("9 succeeded, 0 failed, 0 cancelled\n"))
  }

  @Test func outputThatWaitsForItsReaderTakesNoMoreDescriptorsThanThereAre() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = 40
    try write((0..<count).map { job("j\($0)", much) }, in: directory)
    let output = try ListeningPipe("output", in: directory)
    let line = "ulimit -n 60; exec \"$0\" run jobs.json -j8"
    let child = try Child(["/bin/sh", "-c", line, ToolBinary.url.path], in: directory, output: directory.path + "/output")
    let text = await output.readToEnd()
    #expect(await child.status() == 0)
    #expect(text.hasSuffix("\(count) succeeded, 0 failed, 0 cancelled\n"))
  }

  @Test func whoInterruptsTwiceDoesNotWaitForAReader() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // It interrupts once more when it is told to end. Ready for that before it interrupts first: it may be told at once.
    let last = "trap 'kill -INT $PPID' TERM; kill -INT $PPID; while :; do sleep 1; done"
    try write([job("much", much), job("last", last, #""after":["much"]"#)], in: directory)
    let output = try ListeningPipe("output", in: directory)
    let child = try Child([ToolBinary.url.path, "run", "jobs.json", "--grace=1h"], in: directory, output: directory.path + "/output")
    #expect(await child.status() == 130)
    _ = await output.readToEnd()
  }

  // MARK: Too little of everything

  @Test func threeThousandJobsAtATimeNeedNoMoreDescriptorsThanThereAre() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = Sanitizer.isActive ? 600 : 3000
    try write((0..<count).map { job("j\($0)", "sleep 0.05; echo \($0)") }, in: directory)
    let outcome = try await ToolBinary.shell("ulimit -n 256; exec \"$OWNEDOPS\" run jobs.json --log-dir logs -j\(count)", in: directory)
    #expect(outcome.status == 0)
    #expect(outcome.output.hasSuffix("\(Shown.count(count)) succeeded, 0 failed, 0 cancelled\n"))
    #expect(directory.read("logs/j\(count - 1).log") == "\(count - 1)\n")
  }

  /// It neither crashes nor waits for ever.
  @Test(.enabled(if: !Sanitizer.isActive)) func tooFewDescriptorsForAnythingAreAnError() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write((0..<4).map { job("j\($0)", "touch ran") }, in: directory)
    for limit in [8, 10, 12, 14] {
      let outcome = try await ToolBinary.shell("ulimit -n \(limit); exec \"$OWNEDOPS\" run jobs.json -j4", in: directory)
      #expect(outcome.status == 2)
      #expect(outcome.errors.hasSuffix(" descriptors to give, and 16 are needed; see ulimit -n\n"))
    }
    #expect(!directory.contains("ran"))
    // It inherits some from the process that tests.
    #expect(try await ToolBinary.shell("ulimit -n 64; exec \"$OWNEDOPS\" run jobs.json -j4", in: directory).status == 0)
  }

  #if os(Linux)
    @Test(.enabled(if: geteuid() == 0 && ToolBinary.unprivileged != nil && !Sanitizer.isActive, "needs a user with no other processes"))
    func aLimitOfProcessesFailsNoJob() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      #expect(chmod(directory.path, 0o777) == 0)
      // None ends before more than may run have been wanted: each waits for a line of its own.
      try write((0..<60).map { job("j\($0)", "read x < go", #""timeout":"5m""#) }, in: directory)
      #expect(mkfifo(directory.path + "/go", 0o600) == 0 && chmod(directory.path + "/go", 0o666) == 0)
      let user = try #require(ToolBinary.unprivileged)
      let needed = 10 + 2 * ProcessInfo.processInfo.activeProcessorCount
      let line = "\(user) prlimit --nproc=\(needed + 20) \"$OWNEDOPS\" run jobs.json -j60 -k"
      let child = try Child(
        ["/bin/sh", "-c", line], in: directory, environment: ["OWNEDOPS": ToolBinary.url.path], output: directory.path + "/out",
        errors: directory.path + "/err")
      let go = open(directory.path + "/go", O_RDWR | O_CLOEXEC)
      defer { close(go) }
      do {
        try await directory.until("it is short of processes") { directory.read("err").contains("fewer commands run at a time") }
      } catch {
        kill(child.identifier, SIGTERM)  // or its processes would count for other tests
        throw error
      }
      #expect(Foundation.write(go, String(repeating: "\n", count: 60), 60) == 60)
      #expect(await child.status() == 0, "\(directory.read("out").suffix(300)) \(directory.read("err"))")
      #expect(directory.read("out").hasSuffix("60 succeeded, 0 failed, 0 cancelled\n"))
      // With less than it needs itself it says so, and does not wait for ever.
      let none = try await ToolBinary.shell("\(user) prlimit --nproc=6 \"$OWNEDOPS\" run jobs.json", in: directory)
      #expect(none.status == 2)
      #expect(none.errors.contains("see ulimit -u"))
    }

    @Test func aJobThatWantsTheTerminalGetsAnErrorAndIsNotStopped() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      try write([job("asks", "read answer </dev/tty"), job("reads", "read line || echo nothing")], in: directory)
      // The executable has a terminal, as the leader of a session that opens one.
      let line = "setsid -w sh -c ': <>\"$0\"; exec \"$1\" run jobs.json -k' \"$PTY\" \"$OWNEDOPS\""
      let outcome = try await Terminal.withTerminal { name in
        try await ToolBinary.shell(line.replacingOccurrences(of: "$PTY", with: name), in: directory)
      }
      #expect(outcome.status == 1)
      #expect(outcome.output.contains("failed asks: exit status 2"))
      #expect(outcome.output.contains("No such device or address"))
      #expect(outcome.output.contains("nothing\n"))
    }
  #endif
}
