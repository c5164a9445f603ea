import Foundation
import Testing

@testable import OwnedOpsTool

/// `ownedops status`, and pictures from journals.
@Suite(.timeLimit(.minutes(1)))
struct StatusTests {
  private func run(_ directory: TemporaryDirectory) async throws {
    let json = #"""
      {"owners":[{"name":"site"}],"jobs":[
       {"name":"good","owner":"site","command":["sh","-c","exit 0"]},
       {"name":"bad","after":["good"],"command":["sh","-c","for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 7"]},
       {"name":"free","after":["good"],"command":["true"]},
       {"name":"next","after":["bad","good"],"command":["true"]}]}
      """#
    try directory.write("graph.json", json)
    _ = try await ToolBinary.run(["run", "graph.json", "--journal", "j", "-k", "-j1"], in: directory)
  }

  @Test func statusSaysHowFarARunHasCome() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try await run(directory)
    let outcome = try await ToolBinary.run(["status", "j"], in: directory)
    #expect(outcome.status == 1)
    #expect(
      outcome.output
        == """
        2 of 4 jobs succeeded, 1 failed, 1 cancelled
        the last run has ended

        failed:
          bad: exit status 7
            line 3
            line 4
            line 5
            line 6
            line 7
            line 8
            line 9
            line 10
            line 11
            line 12

        cancelled:
          next: bad did not succeed

        """)
    let missing = try await ToolBinary.run(["status", "nowhere"], in: directory)
    #expect(missing.status == 2)
    #expect(missing.errors == "ownedops: can't read the journal nowhere: No such file or directory\n")
    #expect(try await ToolBinary.run(["status", "graph.json"], in: directory).errors.contains("graph.json is no journal"))
  }

  @Test func linesThatEndWithACarriageReturnAreLines() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let command = #"["sh","-c","for i in 1 2 3 4 5 6 7 8 9 10 11; do printf \"line $i\\r\\n\"; done; exit 7"]"#
    try directory.write("graph.json", "{\"jobs\":[{\"name\":\"bad\",\"command\":\(command)}]}")
    _ = try await ToolBinary.run(["run", "graph.json", "--journal", "j"], in: directory)
    let outcome = try await ToolBinary.run(["status", "j"], in: directory)
    #expect(outcome.output.hasSuffix("failed:\n  bad: exit status 7\n" + (2...11).map { "    line \($0)\n" }.joined()))
  }

  @Test func statusAsJSONIsForPrograms() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try await run(directory)
    let outcome = try await ToolBinary.run(["status", "j", "--json"], in: directory)
    let document = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
    #expect(document["version"] as? Int == 1)
    #expect((document["counts"] as? [String: Int])?["succeeded"] == 2)
    let jobs = try #require(document["jobs"] as? [[String: Any]])
    #expect(jobs.map { $0["name"] as? String } == ["good", "bad", "free", "next"])
    #expect(jobs.map { $0["state"] as? String } == ["succeeded", "failed", "succeeded", "cancelled"])
    #expect(jobs[1]["status"] as? Int == 7 && (jobs[1]["output"] as? String)?.hasSuffix("line 12\n") == true)
    #expect(jobs[0]["owner"] as? String == "site")
    for key in ["submitted", "started", "ended"] { #expect((jobs[0][key] as? Double ?? 0) > 1e9) }
    let runners = try #require(document["runners"] as? [[String: Any]])
    #expect(runners.count == 1 && runners[0]["ended"] as? Bool == true && runners[0]["isRunning"] as? Bool == false)
  }

  @Test func picturesAreDrawnFromAJournalWithItsDependencies() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try await run(directory)
    let outcome = try await ToolBinary.run(["status", "j", "--timeline", "t.svg", "--trace", "t.json"], in: directory)
    #expect(outcome.status == 1)
    #expect(directory.read("t.svg").contains("next, run: cancelled, never ran"))
    let trace = try #require(try JSONSerialization.jsonObject(with: Data(directory.read("t.json").utf8)) as? [String: Any])
    let events = try #require(trace["traceEvents"] as? [[String: Any]])
    let times = events.compactMap { $0["ts"] as? Double }
    #expect(times == times.sorted() && times.first == 0)
    func arguments(_ name: String) -> [String: Any]? {
      events.first { $0["name"] as? String == name && $0["ph"] as? String == "X" }?["args"] as? [String: Any]
    }
    #expect(arguments("good")?["command"] as? [String] == ["sh", "-c", "exit 0"] && arguments("good")?["status"] as? Int == 0)
    #expect(arguments("bad")?["status"] as? Int == 7 && arguments("bad")?["outcome"] as? String == "failed")
    // One arrow to each of the two that ran after it, from within its bar to the beginning of theirs.
    let good = try #require(events.first { $0["name"] as? String == "good" && $0["ph"] as? String == "X" })
    let end = try #require(good["ts"] as? Double) + (good["dur"] as? Double ?? 0)
    let starts = events.filter { $0["ph"] as? String == "s" }
    let finishes = events.filter { $0["ph"] as? String == "f" }
    #expect(starts.count == 2 && Set(starts.map { $0["id"] as? Int }) == Set(finishes.map { $0["id"] as? Int }))
    for start in starts { #expect(start["tid"] as? Int == good["tid"] as? Int && (start["ts"] as? Double ?? .infinity) <= end) }
    let begins = ["bad", "free"].compactMap { name in
      events.first { $0["name"] as? String == name && $0["ph"] as? String == "X" }?["ts"] as? Double
    }
    #expect(Set(finishes.compactMap { $0["ts"] as? Double }) == Set(begins))
  }
}
