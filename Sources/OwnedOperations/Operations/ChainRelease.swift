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

  /// Leaves the array empty. (It is `inout` because a caller's copy would keep the operations, to be released after this returns, one inside the other.)
  static func release(_ operations: inout [Operation]) {
    if let outermost = pthread_getspecific(key) {
      outermost.assumingMemoryBound(to: [Operation].self).pointee += operations
      operations = []
      return
    }
    var waiting: [Operation] = []
    swap(&waiting, &operations)
    withUnsafeMutablePointer(to: &waiting) { pointer in
      pthread_setspecific(key, pointer)
      while let operation = pointer.pointee.popLast() { withExtendedLifetime(operation) {} }
      pthread_setspecific(key, nil)
    }
  }
}
