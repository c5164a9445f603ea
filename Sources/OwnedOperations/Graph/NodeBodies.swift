/// The closures of a graph's nodes: 16 bytes a node, in pieces that double and never move.
///
/// Because nothing moves, runs read the closures of the nodes they know without a lock while the graph gets more nodes, and need no copy.
/// ``append(_:)`` is called under the graph's lock only. The closures are called for nodes whose number came from under that lock.
final class NodeBodies {
  // What is read without the lock was written before its number was published, and never changes.
  typealias Body = @Sendable () throws -> Void

  private static let mostPieces = 40
  private let table = RawStorage<UnsafeMutablePointer<Body>?>(capacity: mostPieces)
  let pieces: NodeBodyPieces
  private var count = 0

  init() {
    table.start.initialize(repeating: nil, count: Self.mostPieces)
    pieces = NodeBodyPieces(table: table.borrowed)
  }

  deinit {
    var left = count
    for number in 0..<Self.mostPieces {
      guard let piece = table[number] else { break }
      let used = min(left, NodeBodyPieces.smallest << number)
      piece.deinitialize(count: used)
      piece.deallocate()
      left -= used
    }
  }

  func append(_ body: @escaping Body) {
    let (piece, offset) = NodeBodyPieces.locate(count)
    let memory = table[piece] ?? .allocate(capacity: NodeBodyPieces.smallest << piece)
    if table[piece] == nil { table[piece] = memory }
    (memory + offset).initialize(to: body)
    count += 1
  }
}

/// A way to the closures that counts no references. Valid as long as somebody keeps the ``NodeBodies``.
struct NodeBodyPieces: Sendable {
  static let smallest = 16
  let table: BorrowedStorage<UnsafeMutablePointer<NodeBodies.Body>?>

  /// Piece k begins with the closure number 16 * (2^k - 1).
  @inline(__always)  // for each node that runs
  static func locate(_ index: Int) -> (piece: Int, offset: Int) {
    let shifted = index + smallest
    let piece = Int.bitWidth - 1 - shifted.leadingZeroBitCount - smallest.trailingZeroBitCount
    return (piece, shifted - smallest << piece)
  }

  /// Calls the closure of a node.
  @inline(__always)  // for each node that runs
  func call(_ index: UInt32) throws {
    let (piece, offset) = Self.locate(Int(index))
    try table[piece].unsafelyUnwrapped[offset]()
  }
}
