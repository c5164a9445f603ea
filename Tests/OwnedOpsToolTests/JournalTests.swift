import Foundation
import Testing

@testable import OwnedOpsTool

/// The journal's format, its reader, and the lease, without processes.
@Suite(.timeLimit(.minutes(1)))
struct JournalTests {
  private let awkward = "a \"b\" \\ \n \u{1} \u{7f} é 𝄞 'c' $d"

  private func file(_ jobs: String) throws -> RunFile { try RunFile(Data("{\"jobs\":[\(jobs)]}".utf8), source: "test") }

  private func text(_ value: String) throws -> String { String(decoding: try JSONEncoder().encode(value), as: UTF8.self) }

  /// Writes a journal of this graph with these events, and reads it.
  private func journal(_ file: RunFile, _ events: [JournalEvent], in directory: TemporaryDirectory, tail: String = "") throws -> Journal {
    try directory.write("j", Data(JournalHead(file).bytes + events.flatMap { $0.line(at: 1000) } + Array(tail.utf8)))
    return try JournalReader.read(directory.path + "/j")
  }

  @Test func everyEventIsReadAsItWasWritten() throws {
    let run = JournalRun(
      identifier: awkward, runner: .current, keeper: MachineProcess(number: getppid()), grace: .milliseconds(1500), keepsOrphans: true)
    let events: [JournalEvent] = [
      .run(run), .submitted(job: awkward, attempt: 1), .started(job: awkward, attempt: 2, process: 4711),
      .exited(job: awkward, attempt: 3, JournalExit(.status(7))),
      .exited(job: "a", attempt: 1, JournalExit(.signal(9), wasStopped: true, reason: awkward, output: awkward)),
      .succeeded(job: "a", attempts: 2), .failed(job: "a", attempts: 1, reason: awkward, output: awkward), .cancelled(job: "a", reason: ""),
      .again(job: "a", reason: awkward), .kept(run: "r"), .ended(run: "r"),
    ]
    for event in events {
      let line = event.line(at: 1_795_292_913.000042)
      #expect(line.last == UInt8(ascii: "\n") && line.count { $0 == UInt8(ascii: "\n") } == 1)
      let value = try JSONParser.parse(Array(line.dropLast()))
      #expect(JournalEvent(value) == event)
      #expect(value["time"]?.asNumber == 1_795_292_913.000042)
      // Also for others' readers.
      #expect(try JSONSerialization.jsonObject(with: Data(line)) is [String: Any])
    }
  }

  @Test func anyNumberIsATime() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let file = try file(#"{"name":"a","command":["x"]},{"name":"b","command":["x"]},{"name":"c","command":["x"]}"#)
    for time in [1e300, -1e300, 0] {
      let far = String(decoding: JournalEvent.started(job: "a", attempt: 1, process: 1).line(), as: UTF8.self)
      let tail = far.split(separator: ",").dropLast().joined(separator: ",") + ",\"time\":\(time)}\n"
      let run = JournalRun(identifier: "r", runner: .current, keeper: nil, grace: .zero, keepsOrphans: false)
      let journal = try journal(
        file, [.run(run), .submitted(job: "b", attempt: 1), .cancelled(job: "c", reason: "")], in: directory, tail: tail)
      #expect(journal.jobs[0].startedAt == min(max(time, 0), 1e12))
      #expect(StatusReport(journal).text.contains("a: for ") && StatusReport(journal).json.contains("\"started\":"))
      let record = JournalPicture.record(of: journal)
      #expect(TimelinePicture(record).svg.hasSuffix("</svg>\n") && TraceDocument(record).json.contains("\"a\""))
      #expect(JournalEvent.started(job: "a", attempt: 1, process: 1).line(at: time).last == UInt8(ascii: "\n"))
      let lease = "{\"run\":\"r\",\"host\":\"far\",\"machine\":\"another\",\"process\":1,\"start\":\(time),\"heartbeat\":\(time)}\n"
      try directory.write("j.lease", lease)
      #expect { _ = try self.lease(directory.path + "/j", "me") } throws: { "\($0)".contains("is in use by process 1 on far") }
    }
  }

  /// For which there is room before a job begins, also on a disk that is full when it ends.
  @Test func theEndOfAnOutputFitsIntoTheRoomOfALine() throws {
    for output in ["\u{1}", "\"", "é\u{1f}", "𝄞", "a\n"] {
      let whole = String(repeating: output, count: 2000)
      for event in [
        JournalEvent.exited(job: "a job", attempt: 1, JournalExit(.signal(15), wasStopped: true, reason: "timed out", output: whole)),
        .failed(job: "a job", attempts: 1, reason: "exit status 1", output: whole),
      ] {
        let line = event.line()
        #expect(line.count < RunJournal.roomForOne && line.count > RunJournal.roomForOne / 2)
        let kept = try #require(try JSONParser.parse(Array(line.dropLast()))["output"]?.asText)
        #expect(whole.hasSuffix(kept))
      }
    }
  }

  /// The disk was full for a moment, and another process has written meanwhile.
  @Test func aLineThatWasCutOffComesOnceMore() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let file = try file(#"{"name":"a","command":["x"]},{"name":"b","command":["x"]},{"name":"c","command":["x"]}"#)
    try directory.write("j", Data(JournalHead(file).bytes))
    let descriptor = open(directory.path + "/j", O_RDWR | O_APPEND | O_CLOEXEC)
    defer { close(descriptor) }
    let lines = JournalEvent.submitted(job: "a", attempt: 1).line() + JournalEvent.submitted(job: "b", attempt: 1).line()
    var calls = 0
    let error = JournalFile.append(lines, to: descriptor) { descriptor, bytes in
      calls += 1
      guard calls == 1 else { return Foundation.write(descriptor, bytes.baseAddress, bytes.count) }
      let count = Foundation.write(descriptor, bytes.baseAddress, bytes.count - 10)
      #expect(JournalFile.append(JournalEvent.submitted(job: "c", attempt: 1).line(), to: descriptor) == nil)
      return count
    }
    #expect(error == nil && calls == 2)
    let journal = try JournalReader.read(directory.path + "/j")
    #expect(journal.jobs.map(\.state) == [.submitted, .submitted, .submitted] && journal.tornLines.count == 1)
    // Where nothing but a part ever fits there is an end.
    #expect(JournalFile.append(lines, to: descriptor) { Foundation.write($0, $1.baseAddress, 5) } == ENOSPC)
  }

  @Test func aGraphIsReadAsItWasWritten() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let name = try text(awkward)
    let file = try file(
      "{\"name\":\"b\",\"command\":[\"x\"],\"after\":[\(name)]},"
        + "{\"name\":\(name),\"command\":[\(name),\"\"],\"directory\":\(name),\"environment\":{\"A\":\(name),\"B\":\"\"}}")
    let journal = try journal(file, [], in: directory)
    #expect(journal.graph == JournalHead.hash(of: file))
    for (job, known) in zip(file.jobs, journal.jobs) { #expect(JournalDefinition(job, in: file) == known.definition) }
  }

  @Test func theLastLineOfAJobSaysWhatHasBecomeOfIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let names = ["new", "submitted", "running", "left", "stopped", "done", "failed", "again", "cancelled"]
    let file = try file(names.map { "{\"name\":\"\($0)\",\"command\":[\"true\"]}" }.joined(separator: ","))
    func begin(_ job: String) -> [JournalEvent] { [.submitted(job: job, attempt: 1), .started(job: job, attempt: 1, process: 5)] }
    let exit = JournalExit(.status(0))
    let failure: [JournalEvent] = [
      .exited(job: "failed", attempt: 1, JournalExit(.status(3))), .failed(job: "failed", attempts: 1, reason: "r", output: "o"),
    ]
    var events = begin("running") + begin("left") + [.exited(job: "left", attempt: 1, exit)]
    events += begin("stopped") + [.exited(job: "stopped", attempt: 1, JournalExit(.status(0), wasStopped: true))]
    events += begin("done") + [.exited(job: "done", attempt: 1, exit), .succeeded(job: "done", attempts: 1)] + begin("failed") + failure
    events += begin("again") + [.succeeded(job: "again", attempts: 1), .again(job: "again", reason: "r")]
    events += [
      .submitted(job: "submitted", attempt: 1), .cancelled(job: "cancelled", reason: "r"), .succeeded(job: "unknown", attempts: 1),
    ]
    let journal = try journal(file, events, in: directory)
    let states: [Journal.State] = [.waiting, .submitted, .running, .exited, .exited, .succeeded, .failed, .waiting, .cancelled]
    #expect(journal.jobs.map(\.state) == states)
    #expect(journal.jobs.filter(\.hasSucceeded).map(\.definition.name) == ["left", "done"])
    #expect(journal.jobs.filter(\.isUnderWay).map(\.definition.name) == ["submitted", "running"])
    #expect(journal.jobs[6].exit?.exit == .status(3) && journal.jobs[6].output == "o")
  }

  @Test func linesWithoutAnEndAreDroppedAndNumbered() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let file = try file(#"{"name":"a","command":["true"]}"#)
    let whole = JournalEvent.succeeded(job: "a", attempts: 1).line(at: 1)
    // In the middle, as it is when a disk was full for a while; and at the end, as a power failure leaves it.
    let journal = try journal(
      file, [], in: directory, tail: "{\"event\":\"submi\n" + String(decoding: whole, as: UTF8.self) + "{\"event\":\"fai")
    #expect(journal.tornLines == [3, 5])
    #expect(journal.jobs[0].state == .succeeded)
    #expect(journal.length == Data(directory.read("j").utf8).count - "{\"event\":\"fai".utf8.count)
  }

  @Test func anEmptyLineIsNoLineThatWasDropped() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let whole = String(decoding: JournalEvent.succeeded(job: "a", attempts: 1).line(at: 1), as: UTF8.self)
    let journal = try journal(try file(#"{"name":"a","command":["true"]}"#), [], in: directory, tail: "\n" + whole + "\n")
    #expect(journal.tornLines.isEmpty && journal.jobs[0].state == .succeeded)
    #expect(journal.length == directory.read("j").utf8.count)
  }

  @Test func whatIsNoJournalIsRefused() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let head = String(decoding: JournalHead(try file(#"{"name":"a","command":["true"]}"#)).bytes, as: UTF8.self)
    let cases = [
      ("", "is no journal: it is empty"), ("hello", "is no journal: its first line"), ("{}\n", "is no journal: its first line"),
      (head.replacingOccurrences(of: "\"version\":1", with: "\"version\":2"), "is a journal of version 2; this program knows version 1"),
      (head.split(separator: "\n")[0] + "\n", "is no whole journal: it lists 0 of 1 jobs"),
    ]
    for (text, message) in cases {
      try directory.write("j", text)
      #expect {
        _ = try JournalReader.read(directory.path + "/j")
      } throws: { "\($0)".contains(message) }
    }
    #expect {
      _ = try JournalReader.read(directory.path)
    } throws: { "\($0)".contains("is no journal: it is a directory") }
  }

  @Test func whatHasChangedAndWhatDependsOnItIsNotDone() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func graph(_ change: String) throws -> RunFile {
      try file(
        #"{"name":"d","command":["true"],"after":["b"]},{"name":"b","command":["true"],"after":["a"]"# + change
          + #"},{"name":"a","command":["true"]},{"name":"c","command":["true"],"after":["a"]},{"name":"e","command":["true"],"after":["c"]}"#
      )
    }
    let old = try graph("")
    let events = ["a", "b", "d", "c"].map { JournalEvent.succeeded(job: $0, attempts: 1) }
    let journal = try journal(old, events, in: directory)
    func done(_ file: RunFile, _ journal: Journal) throws -> Set<String> {
      let resumption = try Resumption(journal, file, path: "j", doubtful: [])
      return Set(file.jobs.indices.filter { resumption.isDone[$0] }.map { file.jobs[$0].name })
    }
    #expect(try done(old, journal) == ["a", "b", "c", "d"])
    for (change, what) in [(#","directory":"x""#, "directory"), (#","environment":{"A":"1"}"#, "environment")] {
      let new = try graph(change)
      #expect(try done(new, journal) == ["a", "c"])
      let resumption = try Resumption(journal, new, path: "j", doubtful: [])
      #expect(resumption.notes == ["the \(what) of b has changed: it runs again, and 1 job that depends on that"])
      // Once that is written down, a later resumption does the same, though nothing changes any more; and so when b has succeeded.
      let tail = String(decoding: resumption.lines, as: UTF8.self)
      let begun = try self.journal(old, events, in: directory, tail: tail)
      #expect(try done(new, begun) == ["a", "c"])
      let line = String(decoding: JournalEvent.succeeded(job: "b", attempts: 1).line(), as: UTF8.self)
      #expect(try done(new, try self.journal(old, events, in: directory, tail: tail + line)) == ["a", "b", "c"])
    }
    // Another order of the jobs is no change.
    let turned = RunFileReversed.of(old)
    #expect(try done(try file(turned), journal) == ["a", "b", "c", "d"])
  }

  private enum RunFileReversed {
    static func of(_ file: RunFile) -> String {
      file.jobs.reversed().map { job in
        let after = job.after.map { "\"\(file.jobs[$0].name)\"" }.joined(separator: ",")
        return "{\"name\":\"\(job.name)\",\"command\":[\"true\"],\"after\":[\(after)]}"
      }.joined(separator: ",")
    }
  }

  @Test func aJournalOfAnotherGraphIsRefusedWithTheFirstDifference() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let journal = try journal(try file(#"{"name":"a","command":["true"]},{"name":"b","command":["true"]}"#), [], in: directory)
    let cases = [
      (#"{"name":"a","command":["true"]},{"name":"c","command":["true"]}"#, "it knows no job c"),
      (#"{"name":"a","command":["true"]}"#, "it has a job b, which is not in the file"),
    ]
    for (jobs, message) in cases {
      let file = try file(jobs)
      #expect {
        _ = try Resumption(journal, file, path: "j", doubtful: [])
      } throws: { "\($0)".contains("--resume: j is the journal of another graph: \(message)") }
    }
  }

  // MARK: The lease

  private func lease(
    _ journal: String, _ identifier: String, takesOver: Bool = false, watch: Duration = .zero, pause: () -> Void = {}
  ) throws -> JournalLease {
    do throws(JournalLease.Refusal) {
      return try JournalLease.take(journal, identifier: identifier, takesOver: takesOver, watch: watch, pause: pause).lease
    } catch {
      throw error.usageError("j")
    }
  }

  private func elsewhere(silentFor silence: Double, _ path: String) throws {
    let here = MachineProcess.current
    var line = JournalLine("lease")
    line.add("run", "other")
    line.add("host", "far")
    line.add("machine", "another")
    line.add("process", Int(here.number))
    line.add("birth", here.birth)
    line.add("start", time: WallClock.now - silence - 10)
    line.add("heartbeat", time: WallClock.now - silence)
    try Data(line.bytes).write(to: URL(fileURLWithPath: JournalLease.path(of: path)))
  }

  @Test func aLeaseIsHeldByOneAndFreeWhenGivenUp() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let path = directory.path + "/j"
    let first = try lease(path, "first")
    #expect(first.keep())
    // It is this process, which is there, whatever it has said and when.
    #expect { _ = try lease(path, "second") } throws: { error in
      let text = "\(error)"
      return text.contains("is in use by process \(getpid()) on ") && text.contains("at work since") && text.contains("last heard of at")
    }
    #expect { _ = try lease(path, "second", takesOver: true) } throws: { "\($0)".contains("after 60.00 s of silence") }
    first.giveUp()
    let second = try lease(path, "second")
    #expect(!first.keep())
    first.giveUp()
    #expect(second.keep())
  }

  @Test func aLeaseFromElsewhereIsTakenOverAfterAMinuteOfSilenceOnly() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let path = directory.path + "/j"
    try elsewhere(silentFor: 30, path)
    #expect { _ = try lease(path, "me") } throws: { "\($0)".contains("process \(getpid()) on far") && "\($0)".contains("wait for it") }
    #expect { _ = try lease(path, "me", takesOver: true) } throws: { "\($0)".contains("after 60.00 s of silence") }
    try elsewhere(silentFor: 61, path)
    #expect { _ = try lease(path, "me") } throws: { "\($0)".contains("if it is gone, give --take-over") }
    let mine = try lease(path, "me", takesOver: true)
    #expect(mine.keep())
  }

  /// It seems to be silent, and speaks while it is listened to.
  @Test func aRunnerWhoseClockIsLateIsNotTakenOverFrom() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let path = directory.path + "/j"
    try elsewhere(silentFor: 70, path)
    var pauses = 0
    #expect {
      _ = try lease(path, "me", takesOver: true, watch: .seconds(20)) {
        pauses += 1
        if pauses == 3 { #expect(throws: Never.self) { try elsewhere(silentFor: 65, path) } }
      }
    } throws: {
      "\($0)".contains("process \(getpid()) on far")
    }
    #expect(pauses == 3)
    // Also if it comes to speak at the last moment.
    #expect { _ = try lease(path, "me", takesOver: true) { try? elsewhere(silentFor: 61, path) } } throws: { "\($0)".contains("on far") }
    let mine = try lease(path, "me", takesOver: true)
    #expect(mine.keep())
  }

  @Test func aLeaseOfADeadProcessOfThisMachineIsFree() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let path = directory.path + "/j"
    let child = try Child(["sleep", "300"], in: directory)
    let now = WallClock.now
    let record = JournalLease.Record(
      identifier: "dead", holder: MachineProcess(number: child.identifier), start: now, heartbeat: now)
    try Data(record.bytes).write(to: URL(fileURLWithPath: JournalLease.path(of: path)))
    #expect { _ = try lease(path, "me") } throws: { "\($0)".contains("is in use by process \(child.identifier)") }
    kill(child.identifier, SIGKILL)
    #expect(child.waitForStatus() == -SIGKILL)
    let mine = try lease(path, "me")
    #expect(mine.keep())
    // A keeper that comes late changes nothing.
    #expect(JournalLease.look(JournalLease.path(of: path), of: "dead", speaks: true).standing == .awaited)
    #expect(mine.keep())
  }
}
