import Foundation

/// `ownedops graph`: draws the graph of a file.
enum GraphCommand {
  static let syntax = CommandSyntax(
    name: "graph", operands: "FILE", summary: "Draws the graph of a file for ownedops run; - reads standard input.",
    options: [.init(names: ["--format", "-f"], value: "NAME", help: "dot (default), mermaid, or svg, which needs Graphviz")],
    details: "", examples: ["ownedops graph build.json --format svg > build.svg"])

  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let format = try arguments.choice("--format", among: ["dot", "mermaid", "svg"]) ?? "dot"
    let file = try RunFile(path: RunOptions.file(arguments, command: "graph"))
    switch format {
    case "mermaid": Console.shared.write(mermaid(file))
    case "svg": Console.shared.write(Array(try svg(dot(file))))
    default: Console.shared.write(dot(file))
    }
    return Tool.ExitStatus.success
  }

  /// Jobs in a box for each owner.
  static func dot(_ file: RunFile) -> String {
    var text = "digraph jobs {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n"
    for (place, (owner, jobs)) in zip(file.owners, file.jobsByOwner).enumerated() {
      text += "  subgraph cluster_\(place) {\n    label=\(quoted(owner.name));\n"
      for job in jobs { text += "    j\(job);\n" }
      text += "  }\n"
    }
    for (place, job) in file.jobs.enumerated() {
      text += "  j\(place) [label=\(quoted(job.name))];\n"
      for dependency in job.after { text += "  j\(dependency) -> j\(place);\n" }
    }
    return text + "}\n"
  }

  static func mermaid(_ file: RunFile) -> String {
    var text = "flowchart LR\n"
    func node(_ place: Int) -> String { "j\(place)[\"\(escaped(file.jobs[place].name))\"]" }
    for (place, (owner, jobs)) in zip(file.owners, file.jobsByOwner).enumerated() {
      text += "  subgraph o\(place)[\"\(escaped(owner.name))\"]\n"
      for job in jobs { text += "    \(node(job))\n" }
      text += "  end\n"
    }
    for (place, job) in file.jobs.enumerated() {
      if job.owner == nil { text += "  \(node(place))\n" }
      for dependency in job.after { text += "  j\(dependency) --> j\(place)\n" }
    }
    return text
  }

  private static func svg(_ dot: String) throws(UsageError) -> Data {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    guard let program = path.split(separator: ":").map({ $0 + "/dot" }).first(where: { access(String($0), X_OK) == 0 }) else {
      throw UsageError("graph: svg needs Graphviz's program dot, which is not there; install Graphviz, or use --format dot or mermaid")
    }
    let picture = try SelfProcess.output(of: [Array("-Tsvg".utf8)], program: String(program), input: dot)
    guard !picture.isEmpty else { throw UsageError("graph: \(program) made no picture") }
    return picture
  }

  private static func quoted(_ text: String) -> String {
    var result = "\""
    for character in text {
      switch character {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      default: result.append(character)
      }
    }
    return result + "\""
  }

  private static func escaped(_ text: String) -> String {
    TimelinePicture.escaped(text).replacingOccurrences(of: "\n", with: " ").replacingOccurrences(of: "#", with: "#35;")
  }
}

extension RunFile {
  /// The places of each owner's jobs, in the order of the file.
  fileprivate var jobsByOwner: [[Int]] {
    var result = Array(repeating: [Int](), count: owners.count)
    for (place, job) in jobs.enumerated() {
      if let owner = job.owner { result[owner].append(place) }
    }
    return result
  }
}
