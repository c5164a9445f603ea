import Foundation

/// One JSON object in one line, with its newline, as bytes.
struct JournalLine {
  private var text: [UInt8] = [UInt8(ascii: "{")]

  init(_ event: String) {
    text.reserveCapacity(160)
    add("event", event)
  }

  /// The line as it stands in the file.
  var bytes: [UInt8] { text + "}\n".utf8 }

  mutating func add(_ key: String, _ value: String) {
    begin(key)
    quote(value)
  }

  mutating func add(_ key: String, _ value: Int) {
    begin(key)
    text += String(value).utf8
  }

  mutating func add(_ key: String, _ value: Bool) {
    begin(key)
    text += (value ? "true" : "false").utf8
  }

  /// With six decimals.
  mutating func add(_ key: String, time: Double) {
    begin(key)
    let microseconds = Int((WallClock.plausible(time) * 1e6).rounded())
    let fraction = String(microseconds % 1_000_000)
    text += String(microseconds / 1_000_000).utf8
    text.append(UInt8(ascii: "."))
    for _ in fraction.utf8.count..<6 { text.append(UInt8(ascii: "0")) }
    text += fraction.utf8
  }

  mutating func add(_ key: String, list: [String]) {
    begin(key)
    text.append(UInt8(ascii: "["))
    for (place, element) in list.enumerated() {
      if place > 0 { text.append(UInt8(ascii: ",")) }
      quote(element)
    }
    text.append(UInt8(ascii: "]"))
  }

  mutating func add(_ key: String, map: [String: String]) {
    begin(key)
    text.append(UInt8(ascii: "{"))
    for (place, element) in map.sorted(by: { $0.key < $1.key }).enumerated() {
      if place > 0 { text.append(UInt8(ascii: ",")) }
      quote(element.key)
      text.append(UInt8(ascii: ":"))
      quote(element.value)
    }
    text.append(UInt8(ascii: "}"))
  }

  /// What there is room for in a line, in bytes as they stand there. What is not plain text takes up to six times as much.
  private static let roomForOutput = 3000

  /// Nothing if that is empty.
  mutating func add(_ key: String, endOf output: String) {
    var room = Self.roomForOutput
    let scalars = output.unicodeScalars
    let end = scalars.reversed().prefix { scalar in
      room -= Self.length(scalar)
      return room >= 0
    }
    guard !end.isEmpty else { return }
    add(key, String(String.UnicodeScalarView(end.reversed())))
  }

  private static func length(_ scalar: Unicode.Scalar) -> Int {
    switch scalar {
    case "\"", "\\", "\n": 2
    case "\u{0}"..<"\u{20}": 6
    default: scalar.utf8.count
    }
  }

  private mutating func begin(_ key: String) {
    if text.count > 1 { text.append(UInt8(ascii: ",")) }
    quote(key)
    text.append(UInt8(ascii: ":"))
  }

  private static let digits = Array("0123456789abcdef".utf8)

  private mutating func quote(_ value: String) {
    text.append(UInt8(ascii: "\""))
    for byte in value.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        text.append(UInt8(ascii: "\\"))
        text.append(byte)
      case UInt8(ascii: "\n"): text += #"\n"#.utf8
      case 0..<0x20:
        text += #"\u00"#.utf8
        text.append(Self.digits[Int(byte >> 4)])
        text.append(Self.digits[Int(byte & 15)])
      default: text.append(byte)
      }
    }
    text.append(UInt8(ascii: "\""))
  }
}

extension JSONValue {
  /// Nil if this is no object, or has no such key. What is not known is no error: a later version may have written it.
  subscript(key: String) -> JSONValue? {
    guard case .object(let members) = content else { return nil }
    return members.first { $0.key == key }?.value
  }

  var asText: String? {
    if case .text(let text) = content { text } else { nil }
  }

  var asNumber: Double? {
    if case .number(let number) = content { number } else { nil }
  }

  /// A time of day. What stands in a file may be any number.
  var asTime: Double? { asNumber.map { WallClock.plausible($0) } }

  var asInteger: Int? { asNumber.flatMap { Int(exactly: $0) } }

  var asBool: Bool {
    if case .bool(true) = content { true } else { false }
  }

  var asTexts: [String]? {
    guard case .list(let list) = content else { return nil }
    var texts: [String] = []
    texts.reserveCapacity(list.count)
    for element in list {
      guard let text = element.asText else { return nil }
      texts.append(text)
    }
    return texts
  }

  var asTextMap: [String: String]? {
    guard case .object(let members) = content else { return nil }
    var map: [String: String] = [:]
    for member in members {
      guard let text = member.value.asText else { return nil }
      map[member.key] = text
    }
    return map
  }
}

/// The time of day, in seconds since 1970.
enum WallClock {
  static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  /// The same, or the nearest that can be one.
  static func plausible(_ time: Double) -> Double { max(0, min(time, 1e12)) }
}
