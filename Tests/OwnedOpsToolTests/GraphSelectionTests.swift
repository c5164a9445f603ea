import Foundation
import Testing

@testable import OwnedOpsTool

/// Pictures of graphs that are too large to be seen at once.
@Suite(.timeLimit(.minutes(2)))
struct GraphSelectionTests {
  /// a <- b <- c <- d <- e, a <- x, y <- c
  private let json = """
    {"owners":[{"name":"top"},{"name":"inner","parent":"top"},{"name":"other"}],
     "jobs":[{"name":"a","command":["true"]},{"name":"b","owner":"inner","after":["a"],"command":["true"]},
             {"name":"y","owner":"other","command":["true"]},{"name":"c","after":["b","y"],"command":["true"]},
             {"name":"d","after":["c"],"command":["true"]},{"name":"e","after":["d"],"command":["true"]},
             {"name":"x","owner":"other","after":["a"],"command":["true"]}]}
    """

  @Test func aJobIsDrawnWithWhatIsNearIt() async throws {
    let file = try RunFile(Data(json.utf8), source: "")
    func names(_ job: String, _ depth: Int) throws -> [String] { try file.around(job, depth: depth).jobs.map(\.name) }
    #expect(try names("c", 1) == ["b", "y", "c", "d"])
    #expect(try names("c", 2) == ["a", "b", "y", "c", "d", "e"])
    #expect(try names("b", 9) == ["a", "b", "c", "d", "e"], "what else comes after what it comes after is not near")
    let near = try file.around("b", depth: 1).keepingUsedOwners
    #expect(near.owners.map(\.name) == ["top", "inner"])
    #expect(near.owners[1].parent == 0 && near.jobs[1].owner == 1)
    #expect(near.jobs.map(\.after) == [[], [0], [1]])
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let drawn = try await ToolBinary.run(["graph", "-", "--around", "d", "--depth", "1", "-f", "mermaid"], in: directory, input: json)
    #expect(drawn.output == "flowchart LR\n  j0[\"c\"]\n  j1[\"d\"]\n  j0 --> j1\n  j2[\"e\"]\n  j1 --> j2\n")
    for (arguments, message) in [
      (["--around", "dd"], "there is no job \"dd\"; did you mean"), (["--depth", "2"], "give --around JOB, too"),
      (["--around", "d", "--depth", "0"], "not a whole number above 0"),
    ] {
      let outcome = try await ToolBinary.run(["graph", "-"] + arguments, in: directory, input: json)
      #expect(outcome.status == 2 && outcome.errors.contains(message), "\(outcome.errors)")
    }
  }

  /// Jobs in a hundred layers, with two dependencies each, of as many owners as there are layers of fifty.
  private func large(_ count: Int) -> String {
    let owners = (0..<max(1, count / 50)).map { "{\"name\":\"owner \($0)\"}" }
    let jobs = (0..<count).map { number in
      let after = number < 50 ? "" : "\"after\":[\"job \(number - 50)\",\"job \(number - 50 + (number % 50 == 0 ? 1 : -1))\"],"
      return "{\"name\":\"job \(number)\",\"owner\":\"owner \(number / 50 % owners.count)\",\(after)\"command\":[\"true\"]}"
    }
    return "{\"owners\":[\(owners.joined(separator: ","))],\"jobs\":[\(jobs.joined(separator: ","))]}"
  }

  @Test func fiftyThousandJobsAreTooMuchForAPictureAndNotForAPartOfIt() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", large(50_000))
    let whole = try await ToolBinary.run(["graph", "jobs.json", "-f", "svg"], in: directory)
    #expect(whole.status == 2)
    #expect(
      whole.errors
        == "ownedops: graph: 50,000 jobs with 99,900 edges are too much for a picture (at most 2,000 and 6,000); draw a part with "
        + "--around JOB --depth 2, or use --format dot\n")
    let part = try await ToolBinary.run(["graph", "jobs.json", "--around", "job 25000", "--depth", "2"], in: directory)
    #expect(part.output.contains("label=\"job 25000\"") && part.output.split(separator: "\n").count < 60)
    let dot = try await ToolBinary.run(["graph", "jobs.json"], in: directory)
    #expect(dot.output.count { $0 == "\n" } > 150_000)
    let time = whole.processorTime + part.processorTime + dot.processorTime
    print("50,000 jobs, three times: \(time) of a processor")
    #expect(time < .seconds(30))
  }

  @Test func sixHundredJobsAreDrawnByOwner() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await ToolBinary.run(["graph", "-", "-f", "svg"], in: directory, input: large(600))
    // Without Graphviz there is nothing to be seen.
    guard outcome.status != 2 else { return }
    let time = outcome.processorTime
    print("600 jobs as SVG: \(time) of a processor")
    #expect(outcome.status == 0)
    #expect(outcome.output.components(separatedBy: "class=\"cluster\"").count == 13)
    #expect(outcome.output.components(separatedBy: "class=\"node\"").count == 601)
    #expect(time < .seconds(30))
  }

  @Test func jobsThatAreAlikeStandInRowsOfAPicture() throws {
    let compiled = (0..<9).map { "{\"name\":\"c\($0)\",\"command\":[\"true\"]}" }
    let names = (0..<9).map { "\"c\($0)\"" }.joined(separator: ",")
    let json = "{\"jobs\":[\(compiled.joined(separator: ",")),{\"name\":\"link\",\"after\":[\(names)],\"command\":[\"true\"]}]}"
    let picture = GraphPicture(try RunFile(Data(json.utf8), source: ""))
    let rows = picture.dot(isDrawn: true).split(separator: "\n").filter { $0.contains("style=invis") }
    #expect(
      rows == [
        "  j0 -> j1 -> j2 [style=invis, weight=5];", "  j3 -> j4 -> j5 [style=invis, weight=5];",
        "  j6 -> j7 -> j8 [style=invis, weight=5];",
      ])
    #expect(!picture.dot.contains("invis"))
  }
}
