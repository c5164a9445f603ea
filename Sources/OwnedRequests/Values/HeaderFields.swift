/// Header fields of a request or an answer. Names are compared without regard to case, as HTTP has it.
///
/// ```swift
/// let fields: HeaderFields = ["Content-Type": "text/plain"]
/// print(fields["content-type"] ?? "none")  // text/plain
/// ```
public struct HeaderFields: Sendable, Hashable, ExpressibleByDictionaryLiteral {
  private struct Field: Sendable {
    var name: String
    var value: String
  }

  /// By the name in lower case.
  private var fields: [String: Field] = [:]

  /// Makes a set without fields.
  public init() {}

  init(capacity: Int) { fields.reserveCapacity(capacity) }

  /// Of names that differ only in case, one is kept.
  /// - Complexity: linear in the fields.
  public init(_ dictionary: [String: String]) {
    for (name, value) in dictionary { self[name] = value }
  }

  /// Of names that differ only in case, the last is kept.
  /// - Complexity: linear in the fields.
  public init(dictionaryLiteral elements: (String, String)...) {
    for (name, value) in elements { self[name] = value }
  }

  /// The value of the field with this name, whatever its case; nil removes the field.
  public subscript(name: String) -> String? {
    get { fields[name.lowercased()]?.value }
    set { fields[name.lowercased()] = newValue.map { Field(name: name, value: $0) } }
  }

  /// Names as they were written, with their values.
  /// - Complexity: linear in the fields.
  public var dictionary: [String: String] {
    Dictionary(fields.values.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
  }

  /// How many fields there are.
  public var count: Int { fields.count }
  /// Whether there is no field.
  public var isEmpty: Bool { fields.isEmpty }

  /// Names in lower case, in order, with their values: equal for equal fields.
  var sortedPairs: [(name: String, value: String)] { fields.map { ($0.key, $0.value.value) }.sorted { $0.0 < $1.0 } }

  /// Fields are equal if names, without regard to case, and values are.
  /// - Complexity: linear in the fields.
  public static func == (left: HeaderFields, right: HeaderFields) -> Bool {
    left.fields.mapValues(\.value) == right.fields.mapValues(\.value)
  }

  /// Hashes the names, without regard to case, and the values.
  /// - Complexity: linear in the fields.
  public func hash(into hasher: inout Hasher) { hasher.combine(fields.mapValues(\.value)) }
}

extension HeaderFields: CustomStringConvertible {
  /// A line for each field, in the order of their names.
  /// - Complexity: of a sort, in the fields.
  public var description: String { sortedPairs.map { "\($0.name): \($0.value)" }.joined(separator: "\n") }
}

extension HeaderFields {
  /// Why a field can't be sent; nil if it can.
  static func complaint(about name: String, value: String) -> String? {
    if name.isEmpty { return "the name of a header is empty" }
    if !isToken(name) { return "header \"\(name)\" has a character in its name that HTTP does not allow" }
    if value.utf8.contains(where: { $0 == 0x0A || $0 == 0x0D || $0 == 0 }) {
      return "header \"\(name)\" has a line break or a zero byte in its value, which would begin another header"
    }
    switch name.lowercased() {
    case "content-length", "transfer-encoding": return "header \"\(name)\" follows from the body; leave it out"
    default: return nil
    }
  }

  /// Whether it can be the name of a header, or a method.
  static func isToken(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy(isTokenCharacter) }

  private static func isTokenCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }
}
