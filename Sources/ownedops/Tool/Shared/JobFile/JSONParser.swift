/// Reads JSON as RFC 8259 has it and nothing more: Foundation's reader takes trailing commas and keys that are there twice, and keeps no
/// places.
///
/// Linear in the document. Lists and objects go no deeper than ``deepest``.
struct JSONParser {
  static let deepest = 512

  /// A list right in the document whose elements are handed on one after the other, and not kept. It may be much longer than what is made
  /// of it. In the document it is empty.
  struct Stream {
    let key: String
    /// Told of what stands before the list, when it begins.
    let begin: ([JSONValue.Member]) throws(JSONFault) -> Void
    let element: (JSONValue) throws(JSONFault) -> Void
  }

  private let bytes: UnsafeBufferPointer<UInt8>
  private let stream: Stream?
  private var place = 0
  private var depth = 0

  static func parse(_ document: [UInt8], stream: Stream? = nil) throws(JSONFault) -> JSONValue {
    let result: Result<JSONValue, JSONFault> = document.withUnsafeBufferPointer { bytes in
      do throws(JSONFault) {
        var parser = JSONParser(bytes, stream)
        return .success(try parser.document())
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  private init(_ bytes: UnsafeBufferPointer<UInt8>, _ stream: Stream?) {
    self.bytes = bytes
    self.stream = stream
  }

  private mutating func document() throws(JSONFault) -> JSONValue {
    let mark: [UInt8] = [0xef, 0xbb, 0xbf]
    if bytes.starts(with: mark) { place = mark.count }
    skipSpace()
    guard place < bytes.count else { throw fault("there is nothing in it") }
    let value = try value()
    skipSpace()
    guard place == bytes.count else { throw fault("there is something after the end of the document: \(shown)") }
    return value
  }

  // MARK: Values

  private mutating func value() throws(JSONFault) -> JSONValue {
    let start = place
    guard let first = current else { throw fault("it ends where a value should be") }
    switch first {
    case UInt8(ascii: "{"): return JSONValue(content: try object(), place: start)
    case UInt8(ascii: "["): return JSONValue(content: try list(), place: start)
    case UInt8(ascii: "\""): return JSONValue(content: .text(try text()), place: start)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return JSONValue(content: .number(try number()), place: start)
    default: break
    }
    for (word, content) in [("true", JSONValue.Content.bool(true)), ("false", .bool(false)), ("null", .null)]
    where bytes[place...].starts(with: word.utf8) {
      place += word.utf8.count
      return JSONValue(content: content, place: start)
    }
    throw fault("\(shown) is not a value")
  }

  private mutating func object() throws(JSONFault) -> JSONValue.Content {
    try open("{")
    var members: [JSONValue.Member] = []
    // Looked up when there are more than can be looked through quickly.
    var seen: Set<String> = []
    if try isClosed(by: "}") { return .object(members) }
    members.reserveCapacity(4)
    while true {
      let start = place
      guard current == UInt8(ascii: "\"") else {
        if current == UInt8(ascii: "}") { throw fault("there is a comma before the }; leave it out") }
        throw fault("a key in quotes should be here, not \(shown)")
      }
      let key = try text()
      if members.count == 16 { seen = Set(members.map(\.key)) }
      let isNew = members.count < 16 ? !members.contains { $0.key == key } : seen.insert(key).inserted
      guard isNew else { throw fault("the key \"\(key)\" is there twice", at: start) }
      skipSpace()
      guard current == UInt8(ascii: ":") else { throw fault("a : should follow the key \"\(key)\", not \(shown)") }
      place += 1
      skipSpace()
      if depth == 1, let stream, stream.key == key, current == UInt8(ascii: "[") {
        let listStart = place
        try stream.begin(members)
        members.append(JSONValue.Member(key: key, place: start, value: JSONValue(content: try list(stream.element), place: listStart)))
      } else {
        members.append(JSONValue.Member(key: key, place: start, value: try value()))
      }
      guard try continues(to: "}") else { return .object(members) }
    }
  }

  private mutating func list(
    _ element: ((JSONValue) throws(JSONFault) -> Void)? = nil
  ) throws(JSONFault) -> JSONValue.Content {
    try open("[")
    var values: [JSONValue] = []
    if try isClosed(by: "]") { return .list(values) }
    while true {
      if current == UInt8(ascii: "]") { throw fault("there is a comma before the ]; leave it out") }
      let value = try value()
      if let element { try element(value) } else { values.append(value) }
      guard try continues(to: "]") else { return .list(values) }
    }
  }

  private mutating func open(_ character: Character) throws(JSONFault) {
    guard depth < Self.deepest else { throw fault("lists and objects go deeper than \(Self.deepest) levels") }
    depth += 1
    place += 1
    skipSpace()
  }

  private mutating func isClosed(by end: Unicode.Scalar) throws(JSONFault) -> Bool {
    guard current == UInt8(ascii: end) else { return false }
    place += 1
    depth -= 1
    return true
  }

  /// After an element: past the comma, or the end.
  private mutating func continues(to end: Unicode.Scalar) throws(JSONFault) -> Bool {
    skipSpace()
    if try isClosed(by: end) { return false }
    guard current == UInt8(ascii: ",") else { throw fault("a comma or \(end) should be here, not \(shown)") }
    place += 1
    skipSpace()
    return true
  }

  // MARK: Numbers and texts

  private mutating func number() throws(JSONFault) -> Double {
    let start = place
    if current == UInt8(ascii: "-") { place += 1 }
    let first = current
    var isSound = digits() > 0 && !(first == UInt8(ascii: "0") && place - start > (bytes[start] == UInt8(ascii: "-") ? 2 : 1))
    if current == UInt8(ascii: ".") {
      place += 1
      isSound = digits() > 0 && isSound
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      place += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { place += 1 }
      isSound = digits() > 0 && isSound
    }
    let text = String(decoding: bytes[start..<place], as: UTF8.self)
    guard isSound, let number = Double(text), number.isFinite else { throw fault("\(text) is not a number that JSON has", at: start) }
    return number
  }

  private mutating func digits() -> Int {
    let start = place
    while let byte = current, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { place += 1 }
    return place - start
  }

  private mutating func text() throws(JSONFault) -> String {
    let start = place
    place += 1
    var pieceStart = place
    var result = ""
    // The bits of all bytes.
    var bits: UInt8 = 0
    while true {
      guard let byte = current else { throw fault("the text that begins here has no end", at: start) }
      switch byte {
      case UInt8(ascii: "\""):
        let piece = bits < 0x80 ? ascii(pieceStart..<place) : try utf8(pieceStart..<place)
        place += 1
        return result.isEmpty ? piece : result + piece
      case UInt8(ascii: "\\"):
        result += try utf8(pieceStart..<place)
        result.unicodeScalars.append(try escape())
        pieceStart = place
      case 0..<0x20: throw fault("there is a control character in a text; write it as \\n, \\t or \\u\(Self.fourDigits(byte))")
      default:
        bits |= byte
        place += 1
      }
    }
  }

  private func ascii(_ range: Range<Int>) -> String { String(decoding: UnsafeBufferPointer(rebasing: bytes[range]), as: UTF8.self) }

  private func utf8(_ range: Range<Int>) throws(JSONFault) -> String {
    guard let text = String(validating: bytes[range], as: UTF8.self) else {
      throw fault("there is a text that is not UTF-8", at: range.lowerBound)
    }
    return text
  }

  private mutating func escape() throws(JSONFault) -> Unicode.Scalar {
    let start = place
    place += 1
    let letter = current
    place += 1
    switch letter {
    case UInt8(ascii: "\""): return "\""
    case UInt8(ascii: "\\"): return "\\"
    case UInt8(ascii: "/"): return "/"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): break
    default: throw fault("there is no such escape in JSON; a backslash is written \\\\", at: start)
    }
    var value = try fourDigits(from: start)
    if (0xd800..<0xdc00).contains(value), current == UInt8(ascii: "\\"), place + 1 < bytes.count, bytes[place + 1] == UInt8(ascii: "u") {
      place += 2
      let low = try fourDigits(from: start)
      if (0xdc00..<0xe000).contains(low) { value = 0x10000 + (value - 0xd800) << 10 + (low - 0xdc00) }
    }
    guard let scalar = Unicode.Scalar(value) else { throw fault("half a pair of \\u escapes is no character", at: start) }
    return scalar
  }

  private mutating func fourDigits(from start: Int) throws(JSONFault) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = current, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        throw fault("\\u wants four hexadecimal digits", at: start)
      }
      value = value << 4 | UInt32(digit)
      place += 1
    }
    return value
  }

  // MARK: Places

  private var current: UInt8? { place < bytes.count ? bytes[place] : nil }

  private mutating func skipSpace() {
    while let byte = current, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { place += 1 }
  }

  /// What stands here, for a message.
  private var shown: String {
    guard place < bytes.count else { return "the end" }
    let word = bytes[place...].prefix { $0 > 0x20 && !",:[]{}\"".utf8.contains($0) }.prefix(20)
    return String(
      decoding: word.isEmpty ? bytes[place...place] : Slice(base: bytes, bounds: word.startIndex..<word.endIndex), as: UTF8.self)
  }

  private static func fourDigits(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }

  private func fault(_ description: String, at other: Int? = nil) -> JSONFault { JSONFault("not JSON: \(description)", at: other ?? place) }
}
