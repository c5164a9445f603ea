import Foundation

/// What a graph consists of, as it is being built. The graph and its nodes share it. Only the graph keeps the closures alive, so that a
/// closure may capture nodes of its own graph.
///
/// A node is a number. What is known of it lies in arrays: its closure, its attributes (priority and owner in four bytes), and its name, if
/// it has one. An edge is eight bytes.
final class GraphStorage: Sendable {
  private let contents: Locked<Contents>

  private struct Contents {
    var bodies = NodeBodies()
    var attributes: ContiguousArray<NodeAttributes> = []
    var edges: ContiguousArray<GraphEdge> = []
    var names: [UInt32: String] = [:]
    /// That of the graph first, then those of nodes, each once.
    var lifetimes: [OwnerLifetime]
    var lifetimeIndexes: [ObjectIdentifier: Int] = [:]
    var lastLifetimeIndex = 0
    var foreignNode: String?
    var policy = DependencyPolicy.runAlways
    /// Until the graph is edited.
    var structure: GraphStructure?

    mutating func lifetimeIndex(_ lifetime: OwnerLifetime) -> Int {
      if lifetimes[lastLifetimeIndex] === lifetime { return lastLifetimeIndex }
      var index = lifetimes[0] === lifetime ? 0 : lifetimeIndexes[ObjectIdentifier(lifetime)]
      if index == nil {
        index = lifetimes.count
        lifetimes.append(lifetime)
        lifetimeIndexes[ObjectIdentifier(lifetime)] = index
      }
      lastLifetimeIndex = index ?? 0
      return lastLifetimeIndex
    }

    mutating func makeStructure() -> GraphStructure {
      if let structure { return structure }
      let made = GraphStructure(attributes: attributes, edges: edges, names: names, lifetimes: lifetimes)
      structure = made
      return made
    }
  }

  init(lifetime: OwnerLifetime) {
    contents = Locked(Contents(lifetimes: [lifetime]))
  }

  // MARK: Building

  /// - Parameter holdsOwner: the body is called with the owner, which it holds.
  func append(
    name: String?, level: Int, lifetime: OwnerLifetime?, holdsOwner: Bool = false, _ body: @escaping NodeBodies.Body
  ) -> UInt32 {
    contents.withLock { contents in
      contents.structure = nil
      let index = UInt32(contents.attributes.count)
      let owner = lifetime.map { contents.lifetimeIndex($0) } ?? 0
      contents.attributes.append(NodeAttributes(level: level, lifetime: owner, holdsOwner: holdsOwner))
      contents.bodies.append(body)
      if let name, !name.isEmpty { contents.names[index] = name }
      return index
    }
  }

  func connect(_ first: OperationGraph.Node, to second: OperationGraph.Node) {
    guard first.storage === second.storage else {
      first.storage.noteForeignNode(second)
      second.storage.noteForeignNode(first)
      return
    }
    contents.withLock { contents in
      contents.structure = nil
      contents.edges.append(GraphEdge(from: first.index, to: second.index))
    }
  }

  /// The connection can't be made and its call can't throw: `compiled()` will.
  private func noteForeignNode(_ node: OperationGraph.Node) {
    let name = node.name
    contents.withLock { contents in
      if contents.foreignNode == nil { contents.foreignNode = name }
    }
  }

  /// The graph has gone: nobody can run the closures any more, but for runs that hold them.
  func close() {
    var bodies = NodeBodies()
    contents.withLock { contents in
      swap(&bodies, &contents.bodies)
      contents.structure = nil
      contents.edges = []
    }
  }

  // MARK: Looking

  func name(of index: UInt32) -> String { contents.withLock { $0.names[index] } ?? Self.defaultName(of: index) }

  /// Nodes without a name are called by their place, the first being 1.
  static func defaultName(of index: UInt32) -> String { "node \(Int(index) + 1)" }

  var lifetime: OwnerLifetime { contents.withLock { $0.lifetimes[0] } }
  var nodeCount: Int { contents.withLock { $0.attributes.count } }

  var policy: DependencyPolicy {
    get { contents.withLock { $0.policy } }
    set { contents.withLock { $0.policy = newValue } }
  }

  /// The graph as it is now, validated, and what a run of it needs besides. Linear after an edit, else constant.
  func compiled() throws(OwnerScopedQueueError) -> (structure: GraphStructure, bodies: NodeBodies, policy: DependencyPolicy) {
    let (structure, foreignNode, bodies, policy) = contents.withLock { contents in
      (contents.makeStructure(), contents.foreignNode, contents.bodies, contents.policy)
    }
    if let foreignNode { throw .foreignNode(foreignNode) }
    if let cycle = structure.cycle { throw .dependencyCycle(cycle) }
    return (structure, bodies, policy)
  }

  /// Also of a graph that is not valid.
  var structure: GraphStructure { contents.withLock { $0.makeStructure() } }
}

/// A node's priority, as the level of a ready list, and the place of its owner among the graph's lifetimes.
struct NodeAttributes: Equatable {
  private var word: UInt32
  private static let onePredecessor: UInt32 = 8
  private static let ownersBody: UInt32 = 16

  init(level: Int, lifetime: Int, holdsOwner: Bool = false) {
    word = UInt32(level) | UInt32(lifetime) << 5 | (holdsOwner ? Self.ownersBody : 0)
  }

  var level: Int { Int(word & 7) }
  var lifetime: Int { Int(word >> 5) }
  /// Its body gets the owner. No part of what makes attributes equal.
  var holdsOwner: Bool { word & Self.ownersBody != 0 }
  /// Such a node is ready when that one has finished: nobody has to count. Set when the graph is compiled, and no part of what makes
  /// attributes equal.
  var hasOnePredecessor: Bool { word & Self.onePredecessor != 0 }
  mutating func markOnePredecessor() { word |= Self.onePredecessor }

  static func == (left: NodeAttributes, right: NodeAttributes) -> Bool {
    (left.word | onePredecessor | ownersBody) == (right.word | onePredecessor | ownersBody)
  }
}

/// The node `to` runs after the node `from`.
struct GraphEdge {
  let from: UInt32
  let to: UInt32
}
