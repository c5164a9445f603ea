import Synchronization

/// A value that threads share by a protocol: at any time either one of them has it, or all only read it.
///
/// Whose it is, and when, is said where the cell is declared: under which lock, after which claim, before whom else it is shown. Where the
/// lock stands beside the value, take ``Locked``, which sees to that by itself.
///
/// The value stands in place: the cell has no memory of its own. It is an underscored declaration of `Synchronization`'s, whose `Mutex`
/// keeps its value in one. The compiler takes nothing of it for constant, and checks no accesses for being exclusive. Not a function
/// itself, for the reason that ``Locked`` has.
struct SharedCell<Value: ~Copyable>: ~Copyable, @unchecked Sendable {  // by the protocol of whoever declares it
  private let cell: _Cell<Value>

  /// Not inlined. A global variable that the compiler gives its first value, it gives zeros when a part of the value can't be copied and
  /// has a deinitialiser (Swift 6.3, optimised; `Mutex` as well). A call is nothing that it can work out beforehand.
  @inline(never)
  init(_ value: consuming Value) { cell = _Cell(value) }

  var value: Value {
    @inline(__always) unsafeAddress { UnsafePointer(cell._address) }  // the cell's own address
    @inline(__always) nonmutating unsafeMutableAddress { cell._address }  // as above
  }
}
