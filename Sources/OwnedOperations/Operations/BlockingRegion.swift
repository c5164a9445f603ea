#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Hears that the work on this thread is about to block: a queue's worker has another one take over.
protocol BlockingObserver: AnyObject {
  func willBlock()
  func didUnblock()
}

/// Every wait that blocks a thread goes through here.
enum BlockingRegion {
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()

  /// Whom to tell on this thread. Whoever sets it keeps it alive, and clears it before that ends.
  static var observer: (any BlockingObserver)? {
    get {
      guard let raw = pthread_getspecific(key) else { return nil }
      return Unmanaged<BlockingObserverBox>.fromOpaque(raw).takeUnretainedValue().observer
    }
    set {
      if let raw = pthread_getspecific(key) { Unmanaged<BlockingObserverBox>.fromOpaque(raw).release() }
      pthread_setspecific(key, newValue.map { UnsafeMutableRawPointer(Unmanaged.passRetained(BlockingObserverBox($0)).toOpaque()) })
    }
  }

  static func perform<Result>(_ wait: () throws -> Result) rethrows -> Result {
    guard let observer else { return try wait() }
    observer.willBlock()
    defer { observer.didUnblock() }
    return try wait()
  }
}

private final class BlockingObserverBox {
  unowned(unsafe) let observer: any BlockingObserver
  init(_ observer: any BlockingObserver) { self.observer = observer }
}
