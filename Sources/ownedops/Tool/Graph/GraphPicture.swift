import Foundation

/// The jobs of a file as text for programs that draw graphs. A box for each owner, in that of its parent; jobs of the run itself in none.
struct GraphPicture {
  /// Some versions of dot take no text of more than 16 kB, and a picture has no room for it.
  static let longestName = 200

  private let file: RunFile
  /// The owners right below each owner, and those without a parent, in the order of the file.
  private let children: [[Int]]
  private let topmost: [Int]
  private let jobsByOwner: [[Int]]

  init(_ file: RunFile) {
    self.file = file
    var children = Array(repeating: [Int](), count: file.owners.count)
    var topmost: [Int] = []
    for (place, owner) in file.owners.enumerated() {
      if let parent = owner.parent { children[parent].append(place) } else { topmost.append(place) }
    }
    var jobsByOwner = Array(repeating: [Int](), count: file.owners.count)
    for (place, job) in file.jobs.enumerated() {
      if let owner = job.owner { jobsByOwner[owner].append(place) }
    }
    self.children = children
    self.topmost = topmost
    self.jobsByOwner = jobsByOwner
  }

  var dot: String { dot(isDrawn: false) }

  /// - Parameter isDrawn: with what makes Graphviz draw hundreds of jobs so that they can be read, and thousands within seconds.
  func dot(isDrawn: Bool) -> String {
    var text = "digraph jobs {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n"
    if isDrawn { text += Self.drawing }
    walkOwners { step, indentation in
      switch step {
      case .begin(let owner):
        text += "\(indentation)subgraph cluster_\(owner) {\n\(indentation)  label=\(Self.dotText(file.owners[owner].name));\n"
        for job in jobsByOwner[owner] { text += "\(indentation)  j\(job);\n" }
      case .end: text += "\(indentation)}\n"
      }
    }
    for (place, job) in file.jobs.enumerated() {
      text += "  j\(place) [label=\(Self.dotText(job.name))];\n"
      for dependency in job.after { text += "  j\(dependency) -> j\(place);\n" }
    }
    if isDrawn { for row in rowsOfAlike { text += "  \(row.map { "j\($0)" }.joined(separator: " -> ")) [style=invis, weight=5];\n" } }
    return text + "}\n"
  }

  private static let drawing = """
      graph [fontname="sans-serif", fontsize=12, color="#8899aa", nodesep=0.1, ranksep=0.35, nslimit=1, nslimit1=1, mclimit=0.3];
      node [fontsize=10, height=0.25, margin="0.08,0.04", color="#556677"];
      edge [color="#8899aa", arrowsize=0.6];

    """

  private struct Kind: Hashable {
    let owner: Int?
    let after: [Int]
    let before: [Int]
  }

  /// Jobs of one owner that come after the same and before the same would all be in one column, however many they are. In rows they make a
  /// square.
  private var rowsOfAlike: [[Int]] {
    var dependents = Array(repeating: [Int](), count: file.jobs.count)
    for (place, job) in file.jobs.enumerated() { for dependency in job.after { dependents[dependency].append(place) } }
    var groups: [Kind: [Int]] = [:]
    for (place, job) in file.jobs.enumerated() {
      groups[Kind(owner: job.owner, after: job.after, before: dependents[place]), default: []].append(place)
    }
    return groups.values.filter { $0.count >= Self.fewestInRows }.sorted { $0[0] < $1[0] }.flatMap { group in
      let length = Int(Double(group.count).squareRoot().rounded(.up))
      return stride(from: 0, to: group.count, by: length).map { Array(group[$0..<min($0 + length, group.count)]) }
    }
  }

  private static let fewestInRows = 6

  var mermaid: String {
    var text = "flowchart LR\n"
    func node(_ place: Int) -> String { "j\(place)[\"\(Self.mermaidText(file.jobs[place].name))\"]" }
    walkOwners { step, indentation in
      switch step {
      case .begin(let owner):
        text += "\(indentation)subgraph o\(owner)[\"\(Self.mermaidText(file.owners[owner].name))\"]\n"
        for job in jobsByOwner[owner] { text += "\(indentation)  \(node(job))\n" }
      case .end: text += "\(indentation)end\n"
      }
    }
    for (place, job) in file.jobs.enumerated() {
      if job.owner == nil { text += "  \(node(place))\n" }
      for dependency in job.after { text += "  j\(dependency) --> j\(place)\n" }
    }
    return text
  }

  private enum Step {
    case begin(Int)
    case end(Int)
  }

  /// Each owner before those below it, and its end after them. Goes deep without recursion; indents no deeper than can be seen.
  private func walkOwners(_ body: (Step, _ indentation: String) -> Void) {
    var rest: [(step: Step, depth: Int)] = topmost.reversed().map { (.begin($0), 1) }
    while let (step, depth) = rest.popLast() {
      body(step, String(repeating: "  ", count: min(depth, 20)))
      guard case .begin(let owner) = step else { continue }
      rest.append((.end(owner), depth))
      for child in children[owner].reversed() { rest.append((.begin(child), depth + 1)) }
    }
  }

  // MARK: Names

  /// In quotes. Without control characters: dot ends its text at a NUL, and SVG has no others. Not with `&` as it is, which dot reads as
  /// HTML does.
  static func dotText(_ name: String) -> String {
    var result = "\""
    for scalar in shown(name).unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "&": result += "&amp;"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }

  static func mermaidText(_ name: String) -> String {
    var result = ""
    for scalar in shown(name).unicodeScalars {
      switch scalar {
      case "#": result += "#35;"
      // A text that begins with one is taken for Markdown.
      case "`": result += "#96;"
      default: result += TimelinePicture.escaped(String(scalar))
      }
    }
    return result
  }

  private static func shown(_ name: String) -> String {
    let cut = name.count > longestName ? name.prefix(longestName - 1) + "…" : name[...]
    var result = ""
    for scalar in String(cut).controlsEscaped.unicodeScalars {
      // No characters, and not to be had in SVG.
      if scalar.value & 0xfffe == 0xfffe {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
