/// Memory in which each value has cache lines of its own: whoever writes one disturbs nobody who reads another.
///
/// Which values are there is the affair of whoever has it, and of which types they are. They go with the memory, without being
/// deinitialised.
struct ApartStorage: ~Copyable, @unchecked Sendable {  // as ``RawStorage``
  private let memory: UnsafeMutableRawPointer
  private let start: UnsafeMutableRawPointer
  private let distance: Int
  private let capacity: Int

  /// - Parameter distance: from value to value, in bytes: a power of two.
  init(capacity: Int, distance: Int) {
    // From the first place that is aligned in somewhat more: malloc takes five times as long for memory that is aligned.
    memory = .allocate(byteCount: (capacity + 1) * distance, alignment: MemoryLayout<Int>.alignment)
    start = memory.alignedUp(toMultipleOf: distance)
    (self.distance, self.capacity) = (distance, capacity)
  }

  deinit { memory.deallocate() }

  /// A place of its own for the value, once for each index.
  func place<Value: ~Copyable>(_ value: consuming Value, at index: Int) -> BorrowedStorage<Value> {
    assert(index < capacity && MemoryLayout<Value>.stride <= distance)
    let place = (start + index * distance).bindMemory(to: Value.self, capacity: 1)
    place.initialize(to: value)
    return BorrowedStorage(place)
  }
}
