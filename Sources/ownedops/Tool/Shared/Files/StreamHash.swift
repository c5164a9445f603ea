/// Tells most different contents apart. Equal hashes prove nothing: contents are compared.
struct StreamHash {
  private var state: UInt64 = 0x9e37_79b9_7f4a_7c15
  private var length: UInt64 = 0

  /// Pieces of other lengths than a multiple of eight must come last.
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    var place = 0
    while place + 8 <= bytes.count {
      mix(bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
      place += 8
    }
    var last: UInt64 = 0
    while place < bytes.count {
      last = last << 8 | UInt64(bytes[place])
      place += 1
    }
    mix(last)
    length &+= UInt64(bytes.count)
  }

  @inline(__always)  // for each word that is hashed
  private mutating func mix(_ word: UInt64) {
    let product = (state ^ word).multipliedFullWidth(by: 0xd6e8_feb8_6659_fd93)
    state = (product.high ^ product.low) &+ 0xa076_1d64_78bd_642f
  }

  var value: UInt64 { (state ^ length) &* 0xff51_afd7_ed55_8ccd }
}
