import Foundation

/// A value behind a lock, for what threads share. A word larger than the value, and the system's lock. Not a function itself, but a
/// structure that has it: each look would wrap it in two more thunks.
final class Guarded<Value>: @unchecked Sendable {  // `value` is touched under `mutex` only
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private var value: Value

  init(_ value: Value) {
    self.value = value
    // Not with `NSLock`, which sets aside four times as much: a graph has hundreds of thousands of these.
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value)
  }
}
