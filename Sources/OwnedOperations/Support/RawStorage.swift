import Synchronization

/// Memory for values that are written, moved out and shared by a protocol of the user's of it: which thread has which element, and when.
///
/// It doesn't know which of its elements are there. Whoever has it initialises them, and deinitialises them before it goes; then the memory
/// goes with it.
struct RawStorage<Element: ~Copyable>: ~Copyable, @unchecked Sendable {  // a constant pointer; the elements are the protocol's
  let start: UnsafeMutablePointer<Element>

  init(capacity: Int) {
    start = .allocate(capacity: capacity)
  }

  deinit { start.deallocate() }

  /// For whoever must not count references to get there.
  var borrowed: BorrowedStorage<Element> { BorrowedStorage(start) }

  /// An element that is there.
  subscript(index: Int) -> Element {
    @inline(__always) unsafeAddress { UnsafePointer(start + index) }  // an addition
    @inline(__always) nonmutating unsafeMutableAddress { start + index }
  }
}

/// Memory that somebody else keeps for as long as this is used; a pointer, no more. Good for whoever must not count references to get
/// there.
struct BorrowedStorage<Element: ~Copyable>: @unchecked Sendable {  // as ``RawStorage``
  let start: UnsafeMutablePointer<Element>

  init(_ start: UnsafeMutablePointer<Element>) {
    self.start = start
  }

  /// An element that is there.
  subscript(index: Int) -> Element {
    @inline(__always) unsafeAddress { UnsafePointer(start + index) }  // an addition
    @inline(__always) nonmutating unsafeMutableAddress { start + index }
  }
}

extension RawStorage where Element: ~Copyable {
  /// Atomics that are zero. They need not be deinitialised.
  init<Value: FixedWidthInteger & AtomicRepresentable>(zeroes count: Int) where Element == Atomic<Value> {
    self.init(capacity: count)
    for index in 0..<count { (start + index).initialize(to: Atomic(0)) }
  }

  /// Atomics with these values at first. They need not be deinitialised.
  init<Value: FixedWidthInteger & AtomicRepresentable>(copying values: UnsafePointer<Value>, count: Int) where Element == Atomic<Value> {
    self.init(capacity: count)
    for index in 0..<count { (start + index).initialize(to: Atomic(values[index])) }
  }
}
