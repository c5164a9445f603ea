import Foundation

/// SHA-256 (FIPS 180-4), for the names and checksums of files. Linux has none without a package. The tool of this package uses it, too.
package struct SHA256 {
  private var hash: [UInt32] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
  ]
  private var schedule = [UInt32](repeating: 0, count: 64)
  /// Less than a block.
  private var rest: [UInt8] = []
  private var length: UInt64 = 0

  package init() {}

  static func digest(of data: Data) -> [UInt8] {
    var hasher = SHA256()
    hasher.update(data)
    return hasher.finish()
  }

  package static func hexadecimal(_ digest: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  mutating func update(_ data: Data) {
    data.withUnsafeBytes { update($0) }
  }

  package mutating func update(_ bytes: UnsafeRawBufferPointer) {
    length += UInt64(bytes.count)
    var bytes = bytes[...]
    if !rest.isEmpty {
      let taken = bytes.prefix(64 - rest.count)
      rest += taken
      bytes = bytes.dropFirst(taken.count)
      guard rest.count == 64 else { return }
      let block = rest
      rest.removeAll(keepingCapacity: true)
      block.withUnsafeBytes { compress($0) }
    }
    let whole = bytes.count & ~63
    if whole > 0 { compress(UnsafeRawBufferPointer(rebasing: bytes.prefix(whole))) }
    rest += bytes.dropFirst(whole)
  }

  /// The digest of all that was given. The hasher is used up.
  package mutating func finish() -> [UInt8] {
    let bits = length * 8
    var padding: [UInt8] = [0x80]
    padding += [UInt8](repeating: 0, count: (119 - rest.count) % 64)
    for shift in stride(from: 56, through: 0, by: -8) { padding.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }
    padding.withUnsafeBytes { update($0) }
    return hash.flatMap { word in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> UInt32($0)) } }
  }

  /// Whole blocks. Through pointers: checks of bounds would take most of the time that this takes.
  private mutating func compress(_ blocks: UnsafeRawBufferPointer) {
    hash.withUnsafeMutableBufferPointer { hash in
      schedule.withUnsafeMutableBufferPointer { schedule in
        Self.constants.withUnsafeBufferPointer { constants in
          for start in stride(from: 0, to: blocks.count, by: 64) {
            Self.compress(UnsafeRawBufferPointer(rebasing: blocks[start..<start + 64]), hash, schedule, constants)
          }
        }
      }
    }
  }

  private static func compress(
    _ block: UnsafeRawBufferPointer, _ hash: UnsafeMutableBufferPointer<UInt32>, _ schedule: UnsafeMutableBufferPointer<UInt32>,
    _ constants: UnsafeBufferPointer<UInt32>
  ) {
    for index in 0..<16 { schedule[index] = UInt32(bigEndian: block.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self)) }
    for index in 16..<64 {
      let (early, late) = (schedule[index - 15], schedule[index - 2])
      let first = rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3)
      let second = rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10)
      schedule[index] = schedule[index - 16] &+ first &+ schedule[index - 7] &+ second
    }
    var (a, b, c, d) = (hash[0], hash[1], hash[2], hash[3])
    var (e, f, g, h) = (hash[4], hash[5], hash[6], hash[7])
    for index in 0..<64 {
      let choice = (e & f) ^ (~e & g)
      let first = h &+ (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) &+ choice &+ constants[index] &+ schedule[index]
      let majority = (a & b) ^ (a & c) ^ (b & c)
      let second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) &+ majority
      (h, g, f, e) = (g, f, e, d &+ first)
      (d, c, b, a) = (c, b, a, first &+ second)
    }
    hash[0] &+= a
    hash[1] &+= b
    hash[2] &+= c
    hash[3] &+= d
    hash[4] &+= e
    hash[5] &+= f
    hash[6] &+= g
    hash[7] &+= h
  }

  @inline(__always)  // for each word that is hashed
  private static func rotate(_ word: UInt32, _ bits: UInt32) -> UInt32 { word >> bits | word << (32 - bits) }

  private static let constants: [UInt32] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
  ]
}
