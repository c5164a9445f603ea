import Foundation
import Testing

@testable import OwnedOpsTool

@Suite(.timeLimit(.minutes(1)))
struct GraphTests {
  private let json = """
    {"owners":[{"name":"inner","parent":"site"},{"name":"site"},{"name":"other"}],
     "jobs":[{"name":"a","command":["true"]},{"name":"b \\"x\\"","owner":"inner","after":["a"],"command":["true"]},
             {"name":"c","owner":"site","command":["true"]}]}
    """

  @Test func ownersAreDrawnInTheirParents() throws {
    let picture = GraphPicture(try RunFile(Data(json.utf8), source: ""))
    #expect(
      picture.dot == """
        digraph jobs {
          rankdir=LR;
          node [shape=box, fontname="sans-serif"];
          subgraph cluster_1 {
            label="site";
            j2;
            subgraph cluster_0 {
              label="inner";
              j1;
            }
          }
          subgraph cluster_2 {
            label="other";
          }
          j0 [label="a"];
          j1 [label="b \\"x\\""];
          j0 -> j1;
          j2 [label="c"];
        }

        """)
    #expect(
      picture.mermaid == """
        flowchart LR
          subgraph o1["site"]
            j2["c"]
            subgraph o0["inner"]
              j1["b &quot;x&quot;"]
            end
          end
          subgraph o2["other"]
          end
          j0["a"]
          j0 --> j1

        """)
  }

  @Test func ownersMayBeNestedWithoutEnd() throws {
    let count = 50_000
    let owners = (0..<count).map { "{\"name\":\"o\($0)\"\($0 == 0 ? "" : ",\"parent\":\"o\($0 - 1)\"")}" }.joined(separator: ",")
    let file = try RunFile(Data("{\"owners\":[\(owners)],\"jobs\":[{\"name\":\"a\",\"command\":[\"true\"]}]}".utf8), source: "")
    let lines = GraphPicture(file).dot.split(separator: "\n")
    #expect(lines.count == 3 + 3 * count + 2)
    #expect(lines.allSatisfy { $0.utf8.count < 100 })
  }

  @Test func whatDotAndMermaidTakeForSomethingElseIsEscaped() {
    #expect(GraphPicture.dotText("a\u{0}b\nc\u{1b}") == #""a\\x00b\\nc\\x1b""#)
    #expect(GraphPicture.dotText(#"\N "q" a\"#) == #""\\N \"q\" a\\""#)
    #expect(GraphPicture.dotText("&lt;b&gt; <b>") == "\"&amp;lt;b&amp;gt; <b>\"")
    #expect(GraphPicture.dotText("\u{ffff}") == #""\\u{ffff}""#)
    #expect(GraphPicture.dotText(String(repeating: "é", count: 100_000)) == "\"" + String(repeating: "é", count: 199) + "…\"")
    #expect(GraphPicture.mermaidText("`a` #b; \"c\"\n") == "#96;a#96; #35;b; &quot;c&quot;\\n")
  }

  // MARK: With a program in Graphviz's place

  /// A shell script that is called dot.
  private func directory(dot: String) throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    try directory.write("bin/dot", "#!/bin/sh\n\(dot)\n")
    #expect(chmod(directory.path + "/bin/dot", 0o700) == 0)
    return directory
  }

  private func draw(in directory: TemporaryDirectory, path: String = "/bin:/usr/bin") async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(
      ["graph", "-", "--format=svg"], in: directory, input: json, environment: ["PATH": "\(directory.path)/bin:\(path)"])
  }

  @Test func dotDrawsThePicture() async throws {
    let directory = try directory(dot: "echo \"<svg $1>\"; exec cat")
    defer { directory.remove() }
    let dot = GraphPicture(try RunFile(Data(json.utf8), source: "")).dot(isDrawn: true)
    let drawn = try await draw(in: directory)
    #expect(drawn.status == 0)
    #expect(drawn.output == "<svg -Tsvg>\n" + dot)
    let missing = try await ToolBinary.run(
      ["graph", "-", "--format=svg"], in: directory, input: json, environment: ["PATH": directory.path])
    #expect(missing.status == 2)
    #expect(missing.errors.contains("install Graphviz"))
  }

  @Test func aDotThatFailsIsAnErrorAndWhatItSaysIsShown() async throws {
    let directory = try directory(dot: "echo half of it; echo 'syntax error' >&2; exit 3")
    defer { directory.remove() }
    let drawn = try await draw(in: directory)
    #expect(drawn.status == 1)
    #expect(drawn.output == "")
    #expect(drawn.errors.hasPrefix("syntax error\nownedops: graph: "))
    #expect(drawn.errors.contains("failed with exit status 3"))
  }

  @Test(arguments: [("INT", SIGINT), ("TERM", SIGTERM), ("QUIT", SIGQUIT)])
  func dotEndsWithTheSignalThatEndsTheTool(name: String, number: Int32) async throws {
    let directory = try directory(dot: "echo $$ > pid; kill -\(name) $PPID; sleep 300")
    defer { directory.remove() }
    let drawn = try await draw(in: directory)
    #expect(drawn.status == 128 + number)
    #expect(drawn.errors == "")
    let processes = directory.processes(in: "pid")
    #expect(processes.count == 1)
    for process in processes { #expect(!Processes.isRunning(process)) }
  }

  @Test func dotDiesWithTheToolEvenIfThatIsKilled() async throws {
    // The shell and what it has started hold the pipe until they are gone.
    let directory = try directory(dot: "exec 9>pipe; echo begun >&9; kill -KILL $PPID; sleep 300")
    defer { directory.remove() }
    let pipe = try ListeningPipe("pipe", in: directory)
    #expect(try await draw(in: directory).status == -SIGKILL)
    #expect(await pipe.readToEnd() == "begun\n")
  }
}
