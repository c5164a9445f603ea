/// A value that a lock guards, in place behind the lock: it can't be reached but by way of it.
///
/// The lock is a ``Lock``: not recursive, and no code of the user's runs under it, nor is anything of the user's released.
///
/// What goes in at first is nobody else's: the compiler sees to that. What bodies put in and take out it doesn't check, unlike those of
/// `Synchronization.Mutex`: here references are kept that nobody else counts.
///
/// Not a function itself, nor an optional one, but a structure that has it. As a generic value a function is converted by a thunk when it
/// is lent, and by another when it is given back. Each look would put two more around it, until a call of it used up the stack.
struct Locked<Value: ~Copyable>: ~Copyable, Sendable {
  private let lock: Lock
  private let cell: SharedCell<Value>  // the lock's holder's

  /// - Parameter seed: as for ``Lock/init(seed:)``.
  init(_ value: consuming sending Value, seed: UInt64 = 0) {
    lock = Lock(seed: seed)
    cell = SharedCell(value)
  }

  /// The body has the value for itself.
  @inline(__always)  // or the closure would be made, and what it captures boxed, at each call
  func withLock<Result: ~Copyable, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&cell.value)
  }
}
