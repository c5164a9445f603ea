/// Which node waits for which. Made before the clock starts, and gone through in the same order by all contenders.
struct GraphShape {
  /// Two numbers in memory, which is how the C++ side reads it.
  struct Edge {
    var from: UInt32
    var to: UInt32
  }

  let name: String
  let nodeCount: Int
  let edges: [Edge]
  /// The nodes that wait for none.
  let roots: [UInt32]

  private init(_ name: String, nodeCount: Int, edges: [Edge]) {
    self.name = name
    self.nodeCount = nodeCount
    self.edges = edges
    var waits = [Bool](repeating: false, count: nodeCount)
    for edge in edges { waits[Int(edge.to)] = true }
    roots = (0..<UInt32(nodeCount)).filter { !waits[Int($0)] }
  }

  static func chain(_ count: Int) -> GraphShape {
    GraphShape("chain", nodeCount: count, edges: (1..<count).map { Edge(from: UInt32($0 - 1), to: UInt32($0)) })
  }

  /// All but one, which waits for them.
  static func fanIn(_ count: Int) -> GraphShape {
    GraphShape("fan-in", nodeCount: count, edges: (0..<count - 1).map { Edge(from: UInt32($0), to: UInt32(count - 1)) })
  }

  /// A binary tree, from its root.
  static func tree(_ count: Int) -> GraphShape {
    GraphShape("tree", nodeCount: count, edges: (1..<count).map { Edge(from: UInt32(($0 - 1) / 2), to: UInt32($0)) })
  }

  /// A square in which each waits for its left and upper neighbours.
  static func grid(side: Int) -> GraphShape {
    var edges: [Edge] = []
    for row in 0..<side {
      for column in 0..<side {
        let node = UInt32(row * side + column)
        if column < side - 1 { edges.append(Edge(from: node, to: node + 1)) }
        if row < side - 1 { edges.append(Edge(from: node, to: node + UInt32(side))) }
      }
    }
    return GraphShape("grid", nodeCount: side * side, edges: edges)
  }

  /// Rows of 64, in which each waits for `fanIn` of the row before.
  static func layers(_ count: Int, edgesPerNode fanIn: Int) -> GraphShape {
    let width = 64
    var edges: [Edge] = []
    for node in width..<count {
      let (layer, column) = node.quotientAndRemainder(dividingBy: width)
      for step in 0..<fanIn {
        edges.append(Edge(from: UInt32((layer - 1) * width + (column + step) % width), to: UInt32(node)))
      }
    }
    return GraphShape("layers", nodeCount: count, edges: edges)
  }
}
