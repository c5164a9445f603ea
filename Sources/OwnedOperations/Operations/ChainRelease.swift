import Foundation

/// Lets go of operations one after the other.
///
/// An operation holds its dependencies, they hold theirs, and so on. If each were released in the deinit of the one before, a line of a
/// million would need a million frames on the stack.
enum ChainRelease {
  /// Closes the cell and lets go of what it held, or leaves that to the deinit further out that is at it.
  static func release(_ cell: DependencyCell) {
    if let outermost = ThreadSlot.chainRelease.pointer {
      cell.close(into: &outermost.assumingMemoryBound(to: [Operation].self).pointee)
      return
    }
    var waiting: [Operation] = []
    cell.close(into: &waiting)
    withUnsafeMutablePointer(to: &waiting) { pointer in
      ThreadSlot.chainRelease.pointer = UnsafeMutableRawPointer(pointer)
      while let operation = pointer.pointee.popLast() { withExtendedLifetime(operation) {} }
      ThreadSlot.chainRelease.pointer = nil
    }
  }
}
