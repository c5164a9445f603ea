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

  static func release(_ operations: [Operation]) {
    if let outermost = pthread_getspecific(key) {
      outermost.assumingMemoryBound(to: [Operation].self).pointee += operations
      return
    }
    var waiting = operations
    withUnsafeMutablePointer(to: &waiting) { pointer in
      pthread_setspecific(key, pointer)
      while let operation = pointer.pointee.popLast() { withExtendedLifetime(operation) {} }
      pthread_setspecific(key, nil)
    }
  }
}
