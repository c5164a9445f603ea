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

extension Array where Element == UInt8 {
  /// The name as text that shows every byte: what is not UTF-8 as `\xff`, control characters as `\n` or `\x1b`, a backslash twice.
  var escapedName: String {
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
      // C1 control characters would be obeyed by some terminals.
      if let text = String(validating: rest.prefix(length), as: UTF8.self), let scalar = text.unicodeScalars.first,
        !(0x80..<0xa0).contains(scalar.value)
      {
        result += text
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

  var isUTF8: Bool { String(validating: self, as: UTF8.self) != nil }
}
