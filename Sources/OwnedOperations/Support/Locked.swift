/// A value that a lock guards, in memory of its own: it can't be reached but by way of the lock.
///
/// The memory costs one allocation, so this is for what there is one of, or few; not for what each job or operation has. The lock is a
/// ``Lock``: not recursive, and no code of the user's runs under it, nor is anything of the user's released.
struct Locked<Value: ~Copyable>: ~Copyable, @unchecked Sendable {  // the value is touched by the lock's holder only
  private let lock: Lock
  private let memory: UnsafeMutablePointer<Value>

  /// - Parameter seed: as for ``Lock/init(seed:)``.
  init(_ value: consuming Value, seed: UInt64 = 0) {
    lock = Lock(seed: seed)
    memory = .allocate(capacity: 1)
    memory.initialize(to: value)
  }

  deinit {
    memory.deinitialize(count: 1)
    memory.deallocate()
  }

  /// The body has the value for itself.
  @inline(__always)  // or the closure would be made, and what it captures boxed, at each call
  func withLock<Result: ~Copyable, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&memory.pointee)
  }
}
