import COwnedOperations

/// Having the processor fetch memory before it is needed, so that several fetches are under way at a time. Changes nothing else. What is
/// fetched may have gone.
enum Prefetch {
  /// The first 65 bytes of an object, at least.
  @inline(__always)  // two instructions
  static func toWrite(_ address: UnsafeMutableRawPointer?) {
    coo_prefetch_to_write(address)
    coo_prefetch_to_write(address.map { $0 + 64 })
  }

  /// The same, where others only read, too.
  @inline(__always)  // two instructions
  static func toRead(_ address: UnsafeMutableRawPointer?) {
    coo_prefetch_to_read(address)
    coo_prefetch_to_read(address.map { $0 + 64 })
  }
}
