#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Knows which operations this thread is inside of: running their work or releasing it. A wait for one of them could never end.
enum OperationThread {
  enum Purpose {
    case work
    /// Letting go of the work.
    case release
    /// Asking `isReady`, which a subclass may override, for a start by hand.
    case question
  }

  private struct Frame {
    let operation: Unmanaged<OwnedOperation>
    let outer: UnsafeMutableRawPointer?
    let purpose: Purpose

    func concerns(_ other: OwnedOperation) -> Bool { operation.toOpaque() == Unmanaged.passUnretained(other).toOpaque() }
  }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()

  static func run<Result>(inside operation: OwnedOperation, for purpose: Purpose = .work, _ body: () -> Result) -> Result {
    let outer = pthread_getspecific(key)
    var frame = Frame(operation: .passUnretained(operation), outer: outer, purpose: purpose)
    return withUnsafeMutablePointer(to: &frame) { pointer in
      pthread_setspecific(key, pointer)
      defer { pthread_setspecific(key, outer) }
      return body()
    }
  }

  /// Whether this thread is just asking the operation `isReady`, for a start.
  static func isAsking(_ operation: OwnedOperation) -> Bool {
    guard let frame = pthread_getspecific(key)?.load(as: Frame.self), case .question = frame.purpose else { return false }
    return frame.concerns(operation)
  }

  /// Whether this thread, further out, is letting go of somebody's work: a deinit of the user's is running.
  static var isReleasingWork: Bool {
    var next = pthread_getspecific(key)
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if case .release = frame.purpose { return true }
      next = frame.outer
    }
    return false
  }

  static func isInside(_ operation: OwnedOperation) -> Bool {
    var next = pthread_getspecific(key)
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if case .question = frame.purpose {} else if frame.concerns(operation) { return true }
      next = frame.outer
    }
    return false
  }
}
