import Foundation
import Testing

@testable import OwnedOpsTool

/// `run --journal` together with the other options of `run`.
@Suite(.timeLimit(.minutes(2)))
struct ResumeOptionTests {
  private func job(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func write(_ jobs: String..., to directory: TemporaryDirectory) throws {
    try directory.write("graph.json", "{\"jobs\":[\(jobs.joined(separator: ","))]}")
  }

  private func run(_ arguments: String..., in directory: TemporaryDirectory) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(["run", "graph.json"] + arguments, in: directory)
  }

  private func lastLine(_ outcome: ToolBinary.Outcome) -> String { outcome.output.split(separator: "\n").last.map(String.init) ?? "" }

  @Test func theJournalIsThatOfTheWholeFileWhicheverJobsAreNamed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func write(a: String = "a", d: String = "d") throws {
      try self.write(
        job("d", "echo \(d) >> log"), job("a", "echo \(a) >> log"), job("b", "echo b >> log", #""after":["a"]"#),
        job("c", "echo c >> log", #""after":["b"]"#), to: directory)
    }
    func log() -> [String] {
      defer { unlink(directory.path + "/log") }
      return directory.read("log").split(separator: "\n").map(String.init).sorted()
    }
    try write()
    #expect(lastLine(try await run("b", "--journal", "j", in: directory)) == "2 succeeded, 0 failed, 0 cancelled")
    #expect(log() == ["a", "b"])
    let status = try await ToolBinary.run(["status", "j"], in: directory)
    #expect(status.status == 1 && status.output.hasPrefix("2 of 4 jobs succeeded"), "\(status.output)")
    #expect(
      lastLine(try await run("c", "b", "--journal", "j", "--resume", in: directory)) == "3 succeeded (2 before), 0 failed, 0 cancelled")
    #expect(log() == ["c"])
    #expect(lastLine(try await run("--journal", "j", "--resume", in: directory)) == "4 succeeded (3 before), 0 failed, 0 cancelled")
    #expect(log() == ["d"])
    // What has changed and is not named is neither run nor spoken of; what depends on what runs again is to run again, too.
    try write(a: "A", d: "D")
    let named = try await run("b", "--journal", "j", "--resume", in: directory)
    #expect(named.errors == "ownedops: the command of a has changed: it runs again, and 1 job that depends on that\n")
    #expect(lastLine(named) == "2 succeeded, 0 failed, 0 cancelled")
    #expect(log() == ["A", "b"])
    let all = try await run("--journal", "j", "--resume", in: directory)
    #expect(all.errors == "ownedops: the command of d has changed: it runs again\n")
    #expect(lastLine(all) == "4 succeeded (2 before), 0 failed, 0 cancelled")
    #expect(log() == ["D", "c"])
  }

  @Test func aDryRunLeavesTheJournalAlone() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(job("a", "echo a >> log"), to: directory)
    let script = "# a\nsh -c 'echo a >> log'\n"
    #expect(try await run("--dry-run", "--journal", "j", in: directory).output == script)
    #expect(!directory.contains("j") && !directory.contains("j.lease"))
    #expect(try await run("--journal", "j", in: directory).status == 0)
    let before = directory.read("j")
    #expect(try await run("--dry-run", "--journal", "j", "--resume", in: directory).output == script)
    #expect(directory.read("j") == before && directory.read("log") == "a\n")
  }

  private struct Results: Decodable {
    struct Attempt: Decodable {
      let begin: Double
      let end: Double
      let exitStatus: Int?
      let userSeconds: Double
      let peakMemory: Int?
    }
    struct Job: Decodable {
      let name: String
      let result: String
      let succeededBefore: Bool?
      let attempts: [Attempt]
    }
    let succeeded: Int
    let jobs: [Job]
  }

  @Test func resultsTellWhatCommandsOfAKeeperHaveUsedAndWhatWasDoneBefore() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(
      job("large", "head -c 400000000 /dev/zero | tail -c 400000000 >/dev/null"), job("small", "true"),
      job("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; [ -e go ]", #""after":["large"]"#), to: directory)
    func results() throws -> Results { try JSONDecoder().decode(Results.self, from: Data(directory.read("r.json").utf8)) }
    #expect(try await run("-k", "--journal", "j", "--results", "r.json", in: directory).status == 1)
    let first = try results()
    #expect(first.succeeded == 2 && first.jobs.map(\.attempts.count) == [1, 1, 1])
    #expect(Sanitizer.isActive || (first.jobs[0].attempts[0].peakMemory ?? 0) > 350_000_000)
    let small = first.jobs[1].attempts[0]
    #expect(small.peakMemory == nil)
    // It begins before the keeper says so, which it may do together with the end.
    let known = try JournalReader.read(directory.path + "/j").jobs[1]
    #expect(small.begin < (known.startedAt ?? 0) && (known.endedAt ?? .infinity) < small.end)
    #expect(first.jobs[2].attempts[0].userSeconds > 0 && first.jobs[2].attempts[0].exitStatus == 1)
    try directory.write("go", "")
    #expect(try await run("--journal", "j", "--resume", "--results", "r.json", in: directory).status == 0)
    let second = try results()
    #expect(second.succeeded == 3 && second.jobs.map(\.result) == ["succeeded", "succeeded", "succeeded"])
    #expect(second.jobs.map(\.succeededBefore) == [true, true, nil] && second.jobs.map(\.attempts.count) == [0, 0, 1])
  }

  @Test(arguments: ["--results", "--timeline", "--trace"]) func nothingIsWrittenOverTheJournalOrItsLease(_ option: String) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(job("a", "touch ran"), to: directory)
    for path in ["j", "j.lease"] {
      let outcome = try await run("--journal", "j", option, path, in: directory)
      #expect(outcome.status == 2)
      #expect(outcome.errors == "ownedops: \(option): \(path) is the file of the input, too; give another\n")
      #expect(!directory.contains("ran") && !directory.contains("j") && !directory.contains("j.lease"))
    }
  }

  @Test func jobsThatWereDoneBeforeWaitForNoShareOfTheMachine() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    #expect(mkfifo(directory.path + "/p", 0o600) == 0)
    // The first holds what the second would need until the third, which comes after the second, has begun.
    try write(
      job("holder", "[ -e go ] && read x < p", #""timeout":"30s","priority":"veryHigh""#), job("done", "true", #""cpus":2"#),
      job("next", "[ -e go ] && echo x > p", #""timeout":"30s","after":["done"]"#), to: directory)
    let first = try await run("-k", "-j2", "--journal", "j", in: directory)
    #expect(lastLine(first) == "1 succeeded, 2 failed, 0 cancelled; failed: holder, next")
    try directory.write("go", "")
    let second = try await run("-j2", "--journal", "j", "--resume", in: directory)
    #expect(lastLine(second) == "3 succeeded (1 before), 0 failed, 0 cancelled", "\(second.output)")
  }

  @Test func whatWasDoneBeforeCountsAsProgress() {
    let counter = RunCounter(total: 3, done: 1) { "\($0)" }
    #expect(counter.progress.line(width: 80) == "[1/3] 0 running")
    counter.begin(1)
    counter.end(1, hasFailed: true)
    #expect(counter.progress.line(width: 80) == "[2/3] 1 failed, 0 running")
  }
}
