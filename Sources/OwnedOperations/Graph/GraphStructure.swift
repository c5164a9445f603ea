/// A graph made ready to run: which nodes follow which, in arrays that don't change any more.
///
/// Runs share it, and go on with it while the graph is edited. Making it takes linear time, and no recursion.
final class GraphStructure: Sendable {
  let nodeCount: Int
  let edgeCount: Int
  let arrays: GraphArrays
  private let attributes: RawStorage<NodeAttributes>
  private let starts: RawStorage<UInt32>
  private let successorList: RawStorage<UInt32>
  let predecessorCounts: RawStorage<UInt32>
  /// Nodes without predecessors, the most urgent first.
  let roots: ContiguousArray<UInt32>
  /// Many roots are listed in bundles, which are numbered from `nodeCount` on. 0 if there are few, or those of a bundle would not be of one
  /// owner and priority.
  let bundleCount: Int
  static let bundleSize = 64
  private static let fewRoots = 1024
  /// How many nodes have no successors.
  let sinkCount: Int
  private let names: [UInt32: String]
  /// That of the graph first.
  let lifetimes: [OwnerLifetime]
  let nodeCountsByLifetime: [Int]
  /// The names of the nodes of one cycle, each depending on the next; nil if there is none.
  let cycle: [String]?

  init(attributes: ContiguousArray<NodeAttributes>, edges: ContiguousArray<GraphEdge>, names: [UInt32: String], lifetimes: [OwnerLifetime])
  {
    let count = attributes.count
    nodeCount = count
    edgeCount = edges.count
    self.names = names
    self.lifetimes = lifetimes
    self.attributes = RawStorage(capacity: max(1, count))
    let copy = self.attributes.start
    attributes.withUnsafeBufferPointer { if let base = $0.baseAddress { copy.initialize(from: base, count: count) } }
    starts = RawStorage(capacity: count + 1)
    starts.start.initialize(repeating: 0, count: count + 1)
    successorList = RawStorage(capacity: max(1, edges.count))
    arrays = GraphArrays(attributes: self.attributes.borrowed, starts: starts.borrowed, successorList: successorList.borrowed)
    predecessorCounts = RawStorage(capacity: max(1, count))
    predecessorCounts.start.initialize(repeating: 0, count: max(1, count))
    let isForward = Self.connect(edges, nodeCount: count, starts.start, successorList.start, predecessorCounts.start)

    var rootsByLevel = [ContiguousArray<UInt32>](repeating: [], count: Self.levelCount)
    var sinks = 0
    var counts = [Int](repeating: 0, count: lifetimes.count)
    for node in 0..<count {
      if predecessorCounts[node] == 1 { copy[node].markOnePredecessor() }
      if predecessorCounts[node] == 0 { rootsByLevel[copy[node].level].append(UInt32(node)) }
      if starts[node] == starts[node + 1] { sinks += 1 }
      counts[copy[node].lifetime] += 1
    }
    roots = rootsByLevel.dropFirst().reduce(into: rootsByLevel[0]) { $0 += $1 }
    let roots = roots
    let hasBundles =
      roots.count > Self.fewRoots
      && roots.indices.allSatisfy { copy[Int(roots[$0])] == copy[Int(roots[$0 & ~(Self.bundleSize - 1)])] }
    bundleCount = hasBundles ? (roots.count + Self.bundleSize - 1) / Self.bundleSize : 0
    sinkCount = sinks
    nodeCountsByLifetime = counts
    // Most graphs are built in an order in which they could run, and then have no circle.
    cycle = isForward ? nil : Self.findCycle(arrays, predecessorCounts.start, count, roots)?.map { Self.name(of: $0, names) }
  }

  private static let levelCount = 8

  /// Sorts the edges by where they begin, by counting.
  /// - Returns: whether all edges lead to nodes made later.
  private static func connect(
    _ edges: ContiguousArray<GraphEdge>, nodeCount: Int, _ starts: UnsafeMutablePointer<UInt32>, _ successors: UnsafeMutablePointer<UInt32>,
    _ predecessorCounts: UnsafeMutablePointer<UInt32>
  ) -> Bool {
    var isForward = true
    edges.withUnsafeBufferPointer { edges in
      for edge in edges {
        starts[Int(edge.from)] += 1
        predecessorCounts[Int(edge.to)] += 1
        if edge.from >= edge.to { isForward = false }
      }
      var sum: UInt32 = 0
      for node in 0...nodeCount {
        sum += starts[node]
        starts[node] = sum
      }
      // From the back, so that each start comes down to where its node's successors begin, and their order is kept.
      for edge in edges.reversed() {
        starts[Int(edge.from)] -= 1
        successors[Int(starts[Int(edge.from)])] = edge.to
      }
    }
    return isForward
  }

  func nodes(ofBundle number: UInt32) -> ContiguousArray<UInt32>.SubSequence {
    let start = (Int(number) - nodeCount) * Self.bundleSize
    return roots[start..<min(roots.count, start + Self.bundleSize)]
  }

  func attributes(of node: UInt32) -> NodeAttributes { arrays.attributes[Int(node)] }
  func successors(of node: UInt32) -> UnsafeBufferPointer<UInt32> { arrays.successors(of: node) }
  func name(of node: UInt32) -> String { Self.name(of: node, names) }

  private static func name(of node: UInt32, _ names: [UInt32: String]) -> String { names[node] ?? GraphStorage.defaultName(of: node) }

  // MARK: Circles

  /// Takes away nodes without predecessors until none is left, or each that is left has a predecessor among them. In the second case, going
  /// from predecessor to predecessor leads into a cycle.
  private static func findCycle(
    _ arrays: GraphArrays, _ predecessorCounts: UnsafeMutablePointer<UInt32>, _ nodeCount: Int, _ roots: ContiguousArray<UInt32>
  ) -> [UInt32]? {
    var left = ContiguousArray(UnsafeBufferPointer(start: predecessorCounts, count: nodeCount))
    var done = roots
    var next = 0
    while next < done.count {
      for successor in arrays.successors(of: done[next]) {
        left[Int(successor)] -= 1
        if left[Int(successor)] == 0 { done.append(successor) }
      }
      next += 1
    }
    guard done.count < nodeCount, let first = left.firstIndex(where: { $0 > 0 }) else { return nil }

    var predecessor = ContiguousArray<UInt32>(repeating: 0, count: nodeCount)
    for node in 0..<nodeCount where left[node] > 0 {
      for successor in arrays.successors(of: UInt32(node)) { predecessor[Int(successor)] = UInt32(node) }
    }
    var isSeen = ContiguousArray(repeating: false, count: nodeCount)
    var node = UInt32(first)
    while !isSeen[Int(node)] {
      isSeen[Int(node)] = true
      node = predecessor[Int(node)]
    }
    var circle = [node]
    while predecessor[Int(circle[circle.count - 1])] != node { circle.append(predecessor[Int(circle[circle.count - 1])]) }
    // Begin with the node made first, whatever the way that led here.
    let start = circle.indices.min { circle[$0] < circle[$1] } ?? 0
    return Array(circle[start...] + circle[..<start])
  }
}

/// What the workers read of a graph for each node. These are pointers to memory that its ``GraphStructure`` keeps, so that no reference is
/// counted on the way.
struct GraphArrays: Sendable {
  let attributes: BorrowedStorage<NodeAttributes>
  /// The successors of node i are `successorList[starts[i]..<starts[i + 1]]`, in the order in which they were connected. One that was
  /// connected twice stands there twice, and counts twice among the predecessors.
  let starts: BorrowedStorage<UInt32>
  let successorList: BorrowedStorage<UInt32>

  func successors(of node: UInt32) -> UnsafeBufferPointer<UInt32> {
    let start = Int(starts[Int(node)])
    return UnsafeBufferPointer(start: successorList.start + start, count: Int(starts[Int(node) + 1]) - start)
  }
}
