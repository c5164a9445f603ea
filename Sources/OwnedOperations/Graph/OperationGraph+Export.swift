import Foundation

/// The graph as text. Nodes appear in the order in which they were made, edges in the order in which they were connected, each once.
/// Graphs that are not valid can be exported too, which helps to find out why they are not.
extension OperationGraph {
  /// The graph in Graphviz's DOT language. Priorities other than normal, and owners of nodes that have their own, are the
  /// attributes `priority` and `owner`.
  /// - Complexity: linear in nodes and edges.
  public func dot() -> String {
    let structure = storage.structure
    var text = "digraph OperationGraph {\n"
    for node in 0..<UInt32(structure.nodeCount) {
      text += "  n\(node) [label=\"\(Self.dotEscaped(structure.name(of: node)))\""
      if let priority = structure.priorityName(of: node) { text += ", priority=\"\(priority)\"" }
      if let owner = structure.ownerName(of: node) { text += ", owner=\"\(Self.dotEscaped(owner))\"" }
      text += "];\n"
    }
    structure.forEachDistinctEdge { text += "  n\($0) -> n\($1);\n" }
    return text + "}\n"
  }

  /// The graph as a Mermaid flowchart. Priorities other than normal, and owners of nodes that have their own, stand in the
  /// nodes' labels on lines of their own.
  /// - Complexity: linear in nodes and edges.
  public func mermaid() -> String {
    let structure = storage.structure
    var text = "flowchart TD\n"
    for node in 0..<UInt32(structure.nodeCount) {
      text += "  n\(node)[\"\(Self.mermaidEscaped(structure.name(of: node)))"
      if let priority = structure.priorityName(of: node) { text += "<br/>priority: \(priority)" }
      if let owner = structure.ownerName(of: node) { text += "<br/>owner: \(Self.mermaidEscaped(owner))" }
      text += "\"]\n"
    }
    structure.forEachDistinctEdge { text += "  n\($0) --> n\($1)\n" }
    return text
  }

  /// For a quoted string that is a label: quotes, backslashes (which begin Graphviz's own escapes) and control characters.
  static func dotEscaped(_ name: String) -> String {
    var escaped = ""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "\"": escaped += "\\\""
      case "\\": escaped += "\\\\"
      case "\n": escaped += "\\n"
      case "\r": escaped += "\\r"
      case "\t": escaped += " "
      default: if scalar.value >= 32 && scalar.value != 127 { escaped.unicodeScalars.append(scalar) }
      }
    }
    return escaped
  }

  /// For a quoted label: what Mermaid or HTML would read as markup becomes an entity, in Mermaid's notation.
  static func mermaidEscaped(_ name: String) -> String {
    var escaped = ""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "\"", "#", "&", "<", ">", "`", "\\", ";": escaped += "#\(scalar.value);"
      case "\n": escaped += "<br/>"
      case "\t": escaped += " "
      default: if scalar.value >= 32 && scalar.value != 127 { escaped.unicodeScalars.append(scalar) }
      }
    }
    return escaped
  }
}

extension GraphStructure {
  /// Nil for the normal one.
  fileprivate func priorityName(of node: UInt32) -> String? {
    let name = PriorityLevel.name(of: attributes(of: node).level)
    return name == "normal" ? nil : name
  }

  /// Nil for nodes that belong to the graph's owner. The name, if the lifetime has one, else the identifier.
  fileprivate func ownerName(of node: UInt32) -> String? {
    let index = attributes(of: node).lifetime
    guard index > 0 else { return nil }
    return lifetimes[index].name ?? lifetimes[index].id.description
  }

  fileprivate func forEachDistinctEdge(_ body: (UInt32, UInt32) -> Void) {
    // For each node, the last one (plus one) that it was found to follow.
    var lastPredecessor = ContiguousArray<UInt32>(repeating: 0, count: nodeCount)
    for node in 0..<UInt32(nodeCount) {
      for successor in successors(of: node) where lastPredecessor[Int(successor)] != node + 1 {
        lastPredecessor[Int(successor)] = node + 1
        body(node, successor)
      }
    }
  }
}
