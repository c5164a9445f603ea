#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Knows which operations this thread is inside of: running their work or releasing it. A wait for one of them could never end.
enum OperationThread {
  private struct Frame {
    let operation: Unmanaged<OwnedOperation>
    let outer: UnsafeMutableRawPointer?
    let isReleasing: Bool
  }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()

  static func run(inside operation: OwnedOperation, isReleasing: Bool = false, _ body: () -> Void) {
    let outer = pthread_getspecific(key)
    var frame = Frame(operation: .passUnretained(operation), outer: outer, isReleasing: isReleasing)
    withUnsafeMutablePointer(to: &frame) { pointer in
      pthread_setspecific(key, pointer)
      body()
      pthread_setspecific(key, outer)
    }
  }

  /// Whether this thread, further out, is letting go of somebody's work: a deinit of the user's is running.
  static var isReleasingWork: Bool {
    var next = pthread_getspecific(key)
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if frame.isReleasing { return true }
      next = frame.outer
    }
    return false
  }

  static func isInside(_ operation: OwnedOperation) -> Bool {
    var next = pthread_getspecific(key)
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if frame.operation.toOpaque() == Unmanaged.passUnretained(operation).toOpaque() { return true }
      next = frame.outer
    }
    return false
  }
}
