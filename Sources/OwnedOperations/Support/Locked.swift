/// A value that a lock guards, in memory of its own: it can't be reached but by way of the lock.
///
/// The memory costs one allocation. So this is for what there is one of, or few, and not for what each job or operation has. The lock is a
/// ``Lock``: not recursive, and no code of the user's runs under it, nor is anything of the user's released.
///
/// Not a function itself, nor an optional one, but a structure that has it. As a generic value a function is converted by a thunk when it
/// is lent, and by another when it is given back. Each look would put two more around it, until a call of it used up the stack.
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
    // Lent by way of a copy. Of `&self.memory.pointee` ThreadSanitizer is told that `memory` itself may change. It then holds that against
    // optimised code, which loads a constant before it takes the lock.
    let memory = memory
    lock.lock()
    defer { lock.unlock() }
    return try body(&memory.pointee)
  }
}
