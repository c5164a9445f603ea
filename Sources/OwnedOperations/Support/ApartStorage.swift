/// Memory in which each value has cache lines of its own: whoever writes one disturbs nobody who reads another.
///
/// Which values are there is the affair of whoever has it, and of which types they are. They need not be deinitialised.
struct ApartStorage: ~Copyable, @unchecked Sendable {  // as ``RawStorage``
  private let start: UnsafeMutableRawPointer
  private let distance: Int

  /// - Parameter distance: from value to value, in bytes: a power of two.
  init(capacity: Int, distance: Int) {
    start = .allocate(byteCount: capacity * distance, alignment: distance)
    self.distance = distance
  }

  deinit { start.deallocate() }

  /// A place of its own for the value, once for each index.
  func place<Value: ~Copyable>(_ value: consuming Value, at index: Int) -> BorrowedStorage<Value> {
    let place = (start + index * distance).bindMemory(to: Value.self, capacity: 1)
    place.initialize(to: value)
    return BorrowedStorage(place)
  }
}
