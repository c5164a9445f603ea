import Foundation
import Testing

@testable import OwnedOpsTool

/// Jobs that run whatever has become of what they come after: `"when": "always"`.
@Suite(.timeLimit(.minutes(1)))
struct RunAlwaysTests {
  private func job(_ name: String, _ line: String, _ more: String = "") -> String {
    let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
  }

  private func write(_ jobs: String..., owners: String = "", to directory: TemporaryDirectory) throws {
    try directory.write("graph.json", "{\(owners)\"jobs\":[\(jobs.joined(separator: ","))]}")
  }

  private func lastLine(_ outcome: ToolBinary.Outcome) -> String { outcome.output.split(separator: "\n").last.map(String.init) ?? "" }

  @Test(arguments: [[], ["-k"], ["--journal", "j"], ["-j1", "--load", "1000"]])
  func aJobThatRunsAlwaysRunsAfterFailuresAndWhatNeverBegan(_ options: [String]) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(
      job("bad", "exit 3"), job("never", "echo never >> log", #""after":["bad"]"#),
      job("tidy", "echo tidy >> log", #""after":["never","bad"],"when":"always","owner":"o""#),
      job("report", "echo report >> log", #""after":["tidy"]"#), job("strict", "true", #""after":["never"],"when":"success""#),
      owners: #""owners":[{"name":"o","maxConcurrent":1}],"#, to: directory)
    let outcome = try await ToolBinary.run(["run", "graph.json"] + options, in: directory)
    #expect(outcome.status == 1)
    // What depends on it is a job like any other: nothing more begins after a failure.
    let goesOn = options == ["-k"]
    #expect(directory.read("log") == (goesOn ? "tidy\nreport\n" : "tidy\n"))
    let summary = goesOn ? "2 succeeded, 1 failed, 2 cancelled; failed: bad" : "1 succeeded, 1 failed, 3 cancelled; failed: bad"
    #expect(lastLine(outcome) == summary)
  }

  @Test func aJobThatRunsAlwaysEndsWithItsOwner() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("flag", "")
    try write(
      job("first", "rm flag; exec sleep 300", #""owner":"o""#), job("own", "touch own", #""owner":"o","after":["first"],"when":"always""#),
      job("other", "touch other", #""after":["first"],"when":"always""#),
      owners: #""owners":[{"name":"o","endsWhen":{"fileRemoved":"flag"}}],"#, to: directory)
    let outcome = try await ToolBinary.run(["run", "graph.json", "--grace", "100ms"], in: directory)
    #expect(lastLine(outcome) == "1 succeeded, 0 failed, 2 cancelled")
    #expect(outcome.output.contains("cancelled own: its owner o ended: flag has gone"))
    #expect(directory.contains("other") && !directory.contains("own"))
  }

  @Test func aResumedRunTidiesAgainAfterWhatRunsAgain() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try write(
      job("work", "echo work >> log; [ -e go ]"), job("tidy", "echo tidy >> log", #""after":["work"],"when":"always""#), to: directory)
    func run() async throws -> String {
      lastLine(try await ToolBinary.run(["run", "graph.json", "--journal", "j", "--resume"], in: directory))
    }
    #expect(try await run() == "1 succeeded, 1 failed, 0 cancelled; failed: work")
    try directory.write("go", "")
    #expect(try await run() == "2 succeeded, 0 failed, 0 cancelled")
    #expect(try await run() == "2 succeeded (2 before), 0 failed, 0 cancelled")
    #expect(directory.read("log") == "work\ntidy\nwork\ntidy\n")
  }

  @Test func statusKnowsWhatAJobThatRunsAlwaysWaitsFor() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let jobs = [job("bad", "false"), job("slow", "true"), job("tidy", "true", #""after":["bad","slow"],"when":"always""#)]
    let file = try RunFile(Data("{\"jobs\":[\(jobs.joined(separator: ","))]}".utf8), source: "test")
    let events: [JournalEvent] = [
      .submitted(job: "bad", attempt: 1), .failed(job: "bad", attempts: 1, reason: "exit status 1", output: ""),
      .submitted(job: "slow", attempt: 1), .started(job: "slow", attempt: 1, process: 5),
    ]
    try directory.write("j", Data(JournalHead(file).bytes + events.flatMap { $0.line(at: 1000) }))
    let journal = try JournalReader.read(directory.path + "/j")
    #expect(zip(file.jobs, journal.jobs).allSatisfy { JournalDefinition($0, in: file) == $1.definition })
    let report = StatusReport(journal)
    #expect(report.text.hasSuffix("\nwaiting:\n  tidy: for slow\n"))
    #expect(report.json.contains(#"{"name":"tidy","state":"waiting","when":"always","waitsFor":["slow"]}"#))
  }

  @Test func anUnknownConditionIsRefused() throws {
    #expect {
      _ = try RunFile(Data(#"{"jobs":[{"name":"a","command":["true"],"when":"failure"}]}"#.utf8), source: "f")
    } throws: { "\($0)" == "f: job \"a\": \"when\" is \"failure\"; it must be success or always (line 1, column 48)" }
  }
}
