import Foundation

/// `ownedops graph`: draws the graph of a file.
enum GraphCommand {
  static let syntax = CommandSyntax(
    name: "graph", operands: "FILE", summary: "Draws the graph of a file for ownedops run; - reads standard input.",
    options: [
      .init(
        names: ["--format", "-f"], value: "NAME", help: "dot (default), mermaid, or svg, which needs Graphviz",
        choices: ["dot", "mermaid", "svg"]),
      .init(names: ["--around"], value: "JOB", help: "draw only this job and those near it: what it comes after, and what comes after it"),
      .init(names: ["--depth"], value: "N", help: "with --around: how many edges away (default: 2)"),
    ],
    details: """
      Owners are boxes around their jobs, inside the boxes of their parents. Control characters in names are shown as \\n or \\x1b, and names of
      more than \(GraphPicture.longestName) characters are cut. Owners of whom no job is drawn are left out of what --around draws. More than
      \(Self.mostDrawn) jobs, or \(Self.mostEdgesDrawn) edges, are too much for an SVG: Graphviz would take minutes, and nobody could read it.

      Exit status: 0 drawn; 1 dot failed, or standard output could not be written; 2 bad input, or no Graphviz;
      129, 130, 131, 143 ended by SIGHUP, SIGINT (Ctrl-C), SIGQUIT or SIGTERM.
      """,
    examples: [
      "ownedops graph build.json --format svg > build.svg", "ownedops graph build.json --around link --depth 2 -f svg > link.svg",
    ],
    completion: .files)

  /// Of which Graphviz makes a picture within seconds.
  static let mostDrawn = 2000
  static let mostEdgesDrawn = 6000

  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let format = try arguments.choice("--format", among: ["dot", "mermaid", "svg"]) ?? "dot"
    let depth = try arguments.positiveInteger("--depth")
    var file = try RunFile(path: arguments.file(of: "graph"))
    if let job = arguments.text("--around") {
      file = try file.around(job, depth: depth ?? 2).keepingUsedOwners
    } else if depth != nil {
      throw UsageError("graph: --depth says how far from a job; give --around JOB, too")
    }
    if format == "svg" { try checkSize(file) }
    let picture = GraphPicture(file)
    switch format {
    case "mermaid": Console.shared.write(picture.mermaid)
    case "svg": return try drawWithGraphviz(picture.dot(isDrawn: true))
    default: Console.shared.write(picture.dot)
    }
    return ExitStatus.success
  }

  private static func checkSize(_ file: RunFile) throws(UsageError) {
    let edges = file.jobs.reduce(0) { $0 + $1.after.count }
    guard file.jobs.count > mostDrawn || edges > mostEdgesDrawn else { return }
    throw UsageError(
      "graph: \(Shown.count(file.jobs.count, "job")) with \(Shown.count(edges, "edge")) are too much for a picture (at most "
        + "\(Shown.count(mostDrawn)) and \(Shown.count(mostEdgesDrawn))); draw a part with --around JOB --depth 2, or use --format dot")
  }

  private static func drawWithGraphviz(_ dot: String) throws(UsageError) -> Int32 {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    guard let program = path.split(separator: ":").map({ $0 + "/dot" }).first(where: { access(String($0), X_OK) == 0 }) else {
      throw UsageError("graph: svg needs Graphviz's program dot, which is not there; install Graphviz, or use --format dot or mermaid")
    }
    let graphviz = OutsideProgram()
    let interruption = Interruption { _, _ in graphviz.interrupt() }
    let outcome = try graphviz.run(String(program), [Array("-Tsvg".utf8)], input: dot)
    if let status = interruption.exitStatus { return status }
    guard outcome.exit == .status(0), !outcome.output.isEmpty else {
      let how =
        switch outcome.exit {
        case .status(0): "made no picture"
        case .status(let status): "failed with exit status \(status)"
        case .signal(let number): "was killed by signal \(number), \(String(cString: strsignal(number)))"
        }
      Console.shared.note("ownedops: graph: \(program) \(how); try --format dot or mermaid")
      return ExitStatus.failure
    }
    Console.shared.write(Array(outcome.output))
    return ExitStatus.success
  }
}
