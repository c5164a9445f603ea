import Foundation

extension Duration {
  /// Reads a number with a unit: `250ms`, `30s`, `1.5m`, `2h`. Nil for anything else.
  init?(text: String) {
    let units: [(String, Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600)]
    guard let (unit, factor) = units.first(where: { text.hasSuffix($0.0) }) else { return nil }
    let digits = text.dropLast(unit.count)
    guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && $0.isNumber || $0 == "." }), let number = Double(digits) else { return nil }
    let seconds = number * factor
    guard seconds.isFinite, seconds <= 1e9 else { return nil }
    self = .nanoseconds(Int64(seconds * 1e9))
  }

  static func complaint(about text: String) -> String {
    "\"\(text)\" is not a duration; write a number and a unit, such as 250ms, 30s, 5m or 1h"
  }

  var inSeconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}

/// Sizes as people write them.
enum ByteCount {
  private static let units: [(String, Double)] = [
    ("ki", 0x1p10), ("mi", 0x1p20), ("gi", 0x1p30), ("ti", 0x1p40), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12),
  ]

  /// Reads a number, with a unit or without: `512`, `10k`, `1.5M`, `64Ki`, `2GB`. Nil for anything else.
  static func parse(_ text: String) -> Int? {
    var digits = text.lowercased()[...]
    let isPlain = digits.last?.isNumber == true
    if digits.hasSuffix("b") { digits = digits.dropLast() }
    var factor = 1.0
    if let (unit, value) = units.first(where: { digits.hasSuffix($0.0) }) {
      digits = digits.dropLast(unit.count)
      factor = value
    }
    guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && $0.isNumber || $0 == "." && factor > 1 }) else { return nil }
    // A large number of bytes is not to be rounded.
    if isPlain { return Int(digits) }
    guard let number = Double(digits), number * factor < 9e18 else { return nil }
    return Int(number * factor)
  }

  static func complaint(about text: String) -> String {
    "\"\(text)\" is not a size; write a number of bytes, or one with a unit, such as 10k, 1.5M, 2G or 64Ki"
  }
}

extension Int {
  /// Adds, and stays at the largest number there is where the sum would be above it. Sparse files may be as long as that, each.
  mutating func addSaturating(_ other: Int) {
    let (sum, isBeyond) = addingReportingOverflow(other)
    self = !isBeyond ? sum : other < 0 ? .min : .max
  }
}

/// How numbers are shown.
enum Shown {
  /// For example `12,345`.
  static func count(_ number: Int) -> String {
    var digits = Array(String(abs(number)))
    var place = digits.count - 3
    while place > 0 {
      digits.insert(",", at: place)
      place -= 3
    }
    return (number < 0 ? "-" : "") + String(digits)
  }

  /// For example `1 file`, `2 files`, `3 entries`.
  static func count(_ number: Int, _ noun: String, plural: String? = nil) -> String {
    "\(count(number)) \(number == 1 ? noun : plural ?? noun + "s")"
  }

  /// For example `512 B`, `1.5 MB`. Powers of 1,000.
  static func bytes(_ number: Int) -> String {
    var value = Double(number)
    for unit in ["B", "kB", "MB", "GB", "TB"] {
      if value < 999.95 || unit == "TB" { return unit == "B" ? "\(number) B" : "\(decimal(value, 1)) \(unit)" }
      value /= 1000
    }
    return "\(number) B"
  }

  /// For example `0.42 s`, `3 min 20 s`.
  static func seconds(_ seconds: Double) -> String {
    if seconds < 0.0995 { return "\(decimal(seconds * 1000, 1)) ms" }
    if seconds < 120 { return "\(decimal(seconds, 2)) s" }
    return "\(Int(seconds) / 60) min \(Int(seconds) % 60) s"
  }

  static func decimal(_ number: Double, _ places: Int) -> String { String(format: "%.\(places)f", number) }
}

extension String {
  /// The same text with nothing in it that a terminal obeys or that changes the order of what is read. In its place are `\n`, `\x1b`,
  /// `\u{202e}`.
  var controlsEscaped: String {
    guard unicodeScalars.contains(where: \.isControl) else { return self }
    var result = ""
    for scalar in unicodeScalars {
      switch scalar {
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      case "\r": result += "\\r"
      default:
        guard scalar.isControl else {
          result.unicodeScalars.append(scalar)
          continue
        }
        let digits = String(scalar.value, radix: 16)
        result += scalar.value < 0x80 ? "\\x\(digits.count == 1 ? "0" : "")\(digits)" : "\\u{\(digits)}"
      }
    }
    return result
  }
}

extension Unicode.Scalar {
  /// C0, C1, the separators of lines and paragraphs, and what turns the direction of writing.
  var isControl: Bool {
    switch value {
    case 0..<0x20, 0x7f..<0xa0, 0x2028...0x202e, 0x2066...0x2069: true
    default: false
    }
  }
}

extension Array where Element == UInt8 {
  /// The name as text that shows every byte: what is not UTF-8 as `\xff`, control characters as `\n` or `\x1b`, a backslash twice.
  var escapedName: String {
    // Most names are plain.
    if allSatisfy({ $0 >= 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "\\") }) { return String(decoding: self, as: UTF8.self) }
    var result = ""
    var rest = self[...]
    while let first = rest.first {
      if first < 0x80 {
        rest = rest.dropFirst()
        switch first {
        case UInt8(ascii: "\n"): result += "\\n"
        case UInt8(ascii: "\t"): result += "\\t"
        case UInt8(ascii: "\r"): result += "\\r"
        case UInt8(ascii: "\\"): result += "\\\\"
        case 0..<0x20, 0x7f: result += Self.escape(first)
        default: result.unicodeScalars.append(Unicode.Scalar(first))
        }
        continue
      }
      let length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
      if let text = String(validating: rest.prefix(length), as: UTF8.self), let scalar = text.unicodeScalars.first {
        // C1 control characters would be obeyed by some terminals.
        if (0x80..<0xa0).contains(scalar.value) {
          for byte in rest.prefix(length) { result += Self.escape(byte) }
        } else {
          result += text.controlsEscaped
        }
        rest = rest.dropFirst(length)
      } else {
        result += Self.escape(first)
        rest = rest.dropFirst()
      }
    }
    return result
  }

  private static func escape(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16)
    return "\\x" + (digits.count == 1 ? "0" : "") + digits
  }
}
