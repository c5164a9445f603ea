/// How much room text takes on a terminal, which gives two columns to what is as wide as it is high.
extension StringProtocol {
  var columns: Int { reduce(0) { $0 + $1.columns } }

  /// As much of the beginning as has room.
  func prefix(columns: Int) -> String {
    var left = columns
    return String(
      prefix { character in
        left -= character.columns
        return left >= 0
      })
  }
}

extension Character {
  /// Of the first scalar: the others are drawn onto it.
  fileprivate var columns: Int {
    guard let first = unicodeScalars.first, first.value >= 0x1100 else { return 1 }
    if unicodeScalars.count > 1, unicodeScalars.contains("\u{fe0f}") { return 2 }
    return Self.wide.contains { $0.contains(first.value) } ? 2 : 1
  }

  /// What Unicode calls wide (East Asian Width W and F), in large pieces.
  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115f, 0x231a...0x231b, 0x23e9...0x23ec, 0x25fd...0x25fe, 0x2614...0x2615, 0x2648...0x2653, 0x26aa...0x26ab, 0x2705...0x2705,
    0x270a...0x270b, 0x274c...0x274c, 0x2753...0x2755, 0x2795...0x2797, 0x2b1b...0x2b1c, 0x2e80...0x303e, 0x3041...0xa4cf, 0xa960...0xa97f,
    0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60, 0xffe0...0xffe6, 0x16fe0...0x18dff, 0x1b000...0x1b2ff,
    0x1f300...0x1f64f, 0x1f680...0x1f6ff, 0x1f900...0x1faff, 0x20000...0x3fffd,
  ]
}
