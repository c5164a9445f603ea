/// Fibonacci hashing of addresses, which are multiples of 16 and come in rows: the higher bits of the product are well mixed.
///
/// A shard is chosen by the highest bits, a place in a table by the middle ones.
///
/// - Not by the same: the keys of one shard would crowd in one part of its table.
/// - No place by the highest: places of a smaller table would come in the order of those of a larger one. Who moves keys from one to the
///   other in order, or takes them out so, would fill a part of it to the brim.
/// - Neither by the lowest: they say little when addresses are far apart.
struct AddressHash {
  private let bits: UInt

  @inline(__always)  // two instructions, for each job that is added
  init(_ address: UInt) { bits = address >> 4 &* UInt(truncatingIfNeeded: 0x9E37_79B9_7F4A_7C15 as UInt64) }

  init(_ address: UnsafeMutableRawPointer) { self.init(UInt(bitPattern: address)) }

  /// One of `1 << shardBits`.
  @inline(__always)  // as above
  func shard(_ shardBits: Int) -> Int { Int(bits >> UInt(UInt.bitWidth - shardBits)) }

  /// One of a power of two of places, less one.
  @inline(__always)  // as above
  func place(_ mask: UInt) -> Int { Int(bits >> UInt(UInt.bitWidth / 2 - 6) & mask) }
}
