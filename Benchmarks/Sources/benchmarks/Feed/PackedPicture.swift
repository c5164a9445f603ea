/// A picture as it comes from a disk or a network: packed, with a checksum over what comes out.
///
/// Packed as pieces: a byte below 128 stands before one literal byte more than it says; another stands for a repetition of what came
/// before, four bytes more than it says without its top bit, from the distance in the two bytes that follow, low byte first.
struct PackedPicture: Sendable {
  let bytes: [UInt8]
  let unpackedCount: Int
  let checksum: UInt32

  private static let shortestRepetition = 4
  private static let longestRepetition = shortestRepetition + 127

  /// Packs the picture with that number: slopes of brightness, edges, and noise.
  init(number: Int, unpackedCount: Int) {
    var random = UInt64(number) &* 0x9e37_79b9_7f4a_7c15 | 1
    let pixels = (0..<unpackedCount).map { index -> UInt8 in
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let (row, column) = index.quotientAndRemainder(dividingBy: 512)
      let noise = random >> 60 == 0 ? UInt8(truncatingIfNeeded: random >> 50) & 7 : 0
      return UInt8(truncatingIfNeeded: (row + number) / 8 + column / 16 + (column / 96) * 40) ^ noise
    }
    self.unpackedCount = unpackedCount
    checksum = pixels.crc32
    bytes = Self.pack(pixels)
  }

  private static func pack(_ pixels: [UInt8]) -> [UInt8] {
    var packed: [UInt8] = []
    var literals: [UInt8] = []
    var lastPlaces = [Int](repeating: -1, count: 1 << 14)
    func flushLiterals() {
      guard !literals.isEmpty else { return }
      packed.append(UInt8(literals.count - 1))
      packed += literals
      literals.removeAll(keepingCapacity: true)
    }
    var index = 0
    while index < pixels.count {
      var length = 0
      if index + shortestRepetition <= pixels.count {
        let next = (0..<4).reduce(UInt32(0)) { $0 << 8 | UInt32(pixels[index + $1]) }
        let key = Int((next &* 2_654_435_761) >> 18)
        let place = lastPlaces[key]
        lastPlaces[key] = index
        if place >= 0, index - place <= 0xffff {
          let limit = min(longestRepetition, pixels.count - index)
          while length < limit, pixels[place + length] == pixels[index + length] { length += 1 }
          if length >= shortestRepetition {
            flushLiterals()
            let distance = index - place
            packed += [UInt8(128 + length - shortestRepetition), UInt8(distance & 0xff), UInt8(distance >> 8)]
          } else {
            length = 0
          }
        }
      }
      if length == 0 {
        literals.append(pixels[index])
        length = 1
        if literals.count == 128 { flushLiterals() }
      }
      index += length
    }
    flushLiterals()
    return packed
  }

  /// Unpacks, and compares checksums.
  /// - Returns: the pixels, or nil if the bytes are damaged.
  func decode() -> [UInt8]? {
    var isDamaged = false
    let pixels = [UInt8](unsafeUninitializedCapacity: unpackedCount) { output, count in
      count = bytes.withUnsafeBufferPointer { Self.unpack($0, into: output, capacity: unpackedCount) }
      isDamaged = count != unpackedCount
    }
    return isDamaged || pixels.crc32 != checksum ? nil : pixels
  }

  /// - Returns: how many bytes came out; fewer than should if the input makes no sense.
  private static func unpack(_ input: UnsafeBufferPointer<UInt8>, into output: UnsafeMutableBufferPointer<UInt8>, capacity: Int) -> Int {
    var read = 0
    var written = 0
    while read < input.count {
      let control = Int(input[read])
      read += 1
      if control < 128 {
        let length = control + 1
        guard read + length <= input.count, written + length <= capacity else { return written }
        for offset in 0..<length { output.initializeElement(at: written + offset, to: input[read + offset]) }
        read += length
        written += length
      } else {
        let length = control - 128 + shortestRepetition
        guard read + 2 <= input.count, written + length <= capacity else { return written }
        let distance = Int(input[read]) | Int(input[read + 1]) << 8
        read += 2
        guard distance > 0, distance <= written else { return written }
        for offset in 0..<length { output.initializeElement(at: written + offset, to: output[written + offset - distance]) }
        written += length
      }
    }
    return written
  }
}

/// Pictures that take about a millisecond each to decode on this machine: measured once, in bytes, and then the same for all.
struct PictureLibrary: Sendable {
  private let pictures: [PackedPicture]
  /// Of one picture, unpacked.
  let byteCount: Int

  init() {
    let sample = PackedPicture(number: 0, unpackedCount: 1 << 18)
    let times = (0..<11).map { _ in nanoseconds { blackHole(sample.decode()) } }
    let byteCount = Int(1_000_000 * Double(sample.unpackedCount) / times.sorted()[5])
    self.byteCount = byteCount
    pictures = (0..<16).map { PackedPicture(number: $0, unpackedCount: byteCount) }
  }

  /// There are only a few, used again and again.
  subscript(number: Int) -> PackedPicture { pictures[number % pictures.count] }
}
