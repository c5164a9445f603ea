import Foundation
import Testing

@testable import OwnedOpsTool

@Suite(.timeLimit(.minutes(1)))
struct CommandLineTests {
  private func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> ToolBinary.Outcome {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    return try await ToolBinary.run(arguments, in: directory, environment: environment)
  }

  @Test func everyCommandHasHelpWithAnExample() async throws {
    for command in ["scan", "run", "graph"] {
      let outcome = try await run(command, "--help")
      #expect(outcome.status == 0)
      #expect(outcome.output.contains("Usage: ownedops \(command)"))
      #expect(outcome.output.contains("Example"))
      #expect(outcome.output.contains("\n  ownedops \(command) "))
    }
    #expect(try await run("--help").output.contains("Usage: ownedops <command>"))
    #expect(try await run("--version").output == "ownedops \(Tool.version)\n")
    #expect(try await run().status == 2)
  }

  @Test func unknownWordsAreRefusedWithASuggestion() async throws {
    let cases: [([String], String)] = [
      (["scan", "--budgt", "2s"], "unknown option --budgt; did you mean \"--budget\"?"),
      (["scna"], "unknown command scna; did you mean \"scan\"?"),
      (["scan", "--engine", "gdc"], "did you mean \"gcd\"?"),
      (["scan", "--budget", "2"], "\"2\" is not a duration"),
      (["scan", "--budget"], "--budget needs a value"),
      (["scan", "--json=yes"], "--json takes no value"),
      (["scan", "--jobs", "0"], "not a whole number above 0"),
      (["scan", "nowhere"], "can't read nowhere: No such file or directory"),
      (["run"], "give one FILE"),
      (["run", "nowhere.json"], "can't read nowhere.json: No such file or directory"),
      (["graph", "-", "--format", "svgg"], "did you mean \"svg\"?"),
    ]
    for (arguments, message) in cases {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let outcome = try await ToolBinary.run(arguments, in: directory)
      #expect(outcome.status == 2, "\(arguments)")
      #expect(outcome.errors.contains(message), "\(outcome.errors)")
      #expect(outcome.output.isEmpty)
    }
  }

  @Test func aClosedStandardOutputIsAnErrorAndNoCrash() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for number in 0..<3000 { try directory.write("\(number)", "x") }
    let closed = try await ToolBinary.shell("\"$OWNEDOPS\" scan -q >&-", in: directory)
    #expect(closed.status == 1)
    #expect(closed.errors.contains("can't write to standard output"))
    // A reader that leaves: nothing is said, and the signal doesn't kill.
    let pipe = try await ToolBinary.shell("{ \"$OWNEDOPS\" scan -q; echo $? >&2; } | head -n 1", in: directory)
    #expect(pipe.output == "3,000 files of 1 B, 3.0 kB too much\n")
    #expect(["0\n", "1\n"].contains(pipe.errors))
  }

  @Test func durationsHaveANumberAndAUnit() {
    #expect(Duration(text: "250ms") == .milliseconds(250))
    #expect(Duration(text: "30s") == .seconds(30))
    #expect(Duration(text: "1.5m") == .seconds(90))
    #expect(Duration(text: "2h") == .seconds(7200))
    for text in ["", "s", "5", "-1s", "1 s", "5d", "1e3s", "nan", "infs", "..s", "99999999999h"] {
      #expect(Duration(text: text) == nil, "\(text)")
    }
  }

  @Test func picturesOfAScanAreWellFormed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a<b/x", "c\"d/y"] { try directory.write(name, "same") }
    let outcome = try await ToolBinary.run(["scan", "-q", "--timeline", "t.svg", "--trace", "t.json"], in: directory)
    #expect(outcome.status == 0)
    let trace = try JSONSerialization.jsonObject(with: Data(directory.read("t.json").utf8)) as? [String: Any]
    let events = trace?["traceEvents"] as? [[String: Any]] ?? []
    let names = events.compactMap { $0["ph"] as? String == "X" ? $0["name"] as? String : nil }
    #expect(Set(names) == ["list", "fingerprint", "compare", "summarise"])
    let picture = directory.read("t.svg")
    #expect(picture.hasPrefix("<svg ") && picture.hasSuffix("</svg>\n"))
    #expect(picture.contains("a&lt;b"))
    #expect(!picture.contains("a<b"))
  }

  @Test func aPictureIsSmallHoweverManyJobsThereWere() {
    let recorder = JobRecorder()
    for number in 0..<100_000 {
      let mark = recorder.begin()
      recorder.end(mark, name: "job", owner: "owner \(number % 3)", outcome: number % 50_000 == 7 ? .failed : .succeeded)
    }
    let picture = TimelinePicture(recorder.record).svg
    #expect(picture.utf8.count < 400_000)
    #expect(picture.components(separatedBy: "job, owner 1: failed").count == 2, "those that fail are all there")
    #expect(picture.components(separatedBy: ": failed").count == 3)
  }

  @Test func namesThatXMLForbidsAreShownWithoutWhatItForbids() {
    #expect(TimelinePicture.escaped("a\u{1b}[0m<\u{0}>&\"é") == "a\u{fffd}[0m&lt;\u{fffd}&gt;&amp;&quot;é")
  }

  @Test func ticksAreRoundAndToldApart() {
    #expect(TimelineLayout.ticks(upTo: 0.95).times.map(TimelineLayout.ticks(upTo: 0.95).label).prefix(3) == ["0.0 s", "0.1 s", "0.2 s"])
    #expect(TimelineLayout.ticks(upTo: 0.012).times.map(TimelineLayout.ticks(upTo: 0.012).label).last == "12 ms")
    for last in [1e-6, 0.0037, 0.1, 1, 7, 59, 3600, 86_400] {
      let (times, label) = TimelineLayout.ticks(upTo: last)
      #expect((2...11).contains(times.count), "\(last)")
      #expect(Set(times.map(label)).count == times.count, "\(last)")
      #expect(times.allSatisfy { $0 <= last * 1.000001 })
    }
  }

  @Test func aPictureThatCannotBeWrittenIsAnErrorAndTheRestIsShown() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", #"{"jobs":[{"name":"a","command":["true"]}]}"#)
    let run = try await ToolBinary.run(["run", "jobs.json", "--timeline", "nowhere/t.svg"], in: directory)
    #expect(run.status == 1)
    #expect(run.errors == "ownedops: can't create nowhere/t.svg: No such file or directory\n")
    #expect(run.output.hasSuffix("1 succeeded, 0 failed, 0 cancelled\n"))
    let scan = try await ToolBinary.run(["scan", "-q", "--trace", "nowhere/t.json"], in: directory)
    #expect(scan.status == 1)
    #expect(scan.errors == "ownedops: can't create nowhere/t.json: No such file or directory\n")
    #expect(scan.output.hasPrefix("1 file in 1 directory"))
    #if os(Linux)
      let full = try await ToolBinary.run(["run", "jobs.json", "--timeline", "/dev/full"], in: directory)
      #expect(full.status == 1)
      #expect(full.errors == "ownedops: can't write /dev/full: No space left on device\n")
    #endif
  }

  @Test func theGraphIsDrawn() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json =
      #"{"owners":[{"name":"site"}],"jobs":[{"name":"a","command":["true"]},{"name":"b \"x\"","owner":"site","after":["a"],"command":["true"]}]}"#
    let dot = try await ToolBinary.run(["graph", "-"], in: directory, input: json)
    #expect(dot.output.contains("j0 -> j1;") && dot.output.contains(#"label="b \"x\"""#) && dot.output.contains("label=\"site\""))
    let mermaid = try await ToolBinary.run(["graph", "-", "--format", "mermaid"], in: directory, input: json)
    #expect(mermaid.output.contains("j0 --> j1") && mermaid.output.contains("subgraph o0[\"site\"]"))
    // A program in Graphviz's place, which shows what it was given.
    try directory.write("bin/dot", "#!/bin/sh\necho \"<svg $1>\"; exec /bin/cat")
    #expect(chmod(directory.path + "/bin/dot", 0o700) == 0)
    let drawn = try await ToolBinary.run(
      ["graph", "-", "--format=svg"], in: directory, input: json, environment: ["PATH": directory.path + "/bin"])
    #expect(drawn.status == 0)
    #expect(drawn.output == "<svg -Tsvg>\n" + dot.output)
    let svg = try await ToolBinary.run(["graph", "-", "--format=svg"], in: directory, input: json, environment: ["PATH": directory.path])
    #expect(svg.status == 2)
    #expect(svg.errors.contains("install Graphviz"))
  }
}
