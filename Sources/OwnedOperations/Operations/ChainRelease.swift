import Foundation

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Lets go of operations one after the other.
///
/// An operation holds its dependencies, they hold theirs, and so on. If each were released in the deinit of the one before, a line of a million
/// would need a million frames on the stack.
enum ChainRelease {
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()

  /// Closes the cell and lets go of what it held, or leaves that to the deinit further out that is at it.
  static func release(_ cell: DependencyCell) {
    if let outermost = pthread_getspecific(key) {
      cell.close(into: &outermost.assumingMemoryBound(to: [Operation].self).pointee)
      return
    }
    var waiting: [Operation] = []
    cell.close(into: &waiting)
    withUnsafeMutablePointer(to: &waiting) { pointer in
      pthread_setspecific(key, pointer)
      while let operation = pointer.pointee.popLast() { withExtendedLifetime(operation) {} }
      pthread_setspecific(key, nil)
    }
  }
}
