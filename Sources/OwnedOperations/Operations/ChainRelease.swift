import Foundation

/// Lets go of operations one after the other.
///
/// An operation holds its dependencies, they hold theirs, and so on. If each were released in the deinit of the one before, a line of a
/// million would need a million frames on the stack. So the deinit of an operation that is let go of here leaves what it held to whoever
/// does that.
///
/// A subclass's deinit may let go of other operations, and wait for what becomes of them: these are dealt with before that goes on, as long
/// as such deinits don't nest deeper than `depthLimit`.
enum ChainRelease {
  private static let depthLimit = 32

  private struct Line {
    var waiting: [Operation] = []
    /// The one that is being let go of.
    var current: ObjectIdentifier?
    let depth: Int
  }

  /// Closes the cell and lets go of what it held, or leaves that to whoever lets go of the operation.
  /// - Parameters:
  ///   - operation: whose deinit this is.
  ///   - another: what it held besides.
  static func release(_ cell: DependencyCell, of operation: OwnedOperation, and another: consuming Operation?) {
    let outer = ThreadSlot.chainRelease.pointer
    if let further = outer?.assumingMemoryBound(to: Line.self),
      further.pointee.current == ObjectIdentifier(operation) || further.pointee.depth == depthLimit
    {
      if let another { further.pointee.waiting.append(another) }
      return cell.close(into: &further.pointee.waiting)
    }
    var line = Line(depth: outer.map { $0.assumingMemoryBound(to: Line.self).pointee.depth + 1 } ?? 0)
    if let another { line.waiting.append(another) }
    another = nil
    cell.close(into: &line.waiting)
    withUnsafeMutablePointer(to: &line) { line in
      ThreadSlot.chainRelease.pointer = UnsafeMutableRawPointer(line)
      while let operation = line.pointee.waiting.popLast() {
        line.pointee.current = ObjectIdentifier(operation)
        withExtendedLifetime(operation) {}
      }
      ThreadSlot.chainRelease.pointer = outer
    }
  }
}
