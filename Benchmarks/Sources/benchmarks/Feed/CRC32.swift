extension [UInt8] {
  /// The checksum of gzip and PNG.
  var crc32: UInt32 {
    withUnsafeBufferPointer { bytes in
      CRC32.table.withUnsafeBufferPointer { table in
        ~bytes.reduce(~0) { checksum, byte in (checksum >> 8) ^ table[Int(UInt8(truncatingIfNeeded: checksum) ^ byte)] }
      }
    }
  }
}

private enum CRC32 {
  static let table: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 0 ? value >> 1 : (value >> 1) ^ 0xedb8_8320 }
  }
}
