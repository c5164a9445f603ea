/// A value of a form. Literals stand for themselves: `["name": "Ann", "ids": [1, 2], "all": true]`.
public enum ParameterValue: Sendable, Hashable {
  /// Sent as it is, percent-encoded.
  case string(String)
  /// Sent in decimal digits.
  case integer(Int)
  /// Has to be finite.
  case number(Double)
  /// Sent as 1 or 0.
  case bool(Bool)
  /// Sent as an empty value.
  case null
  /// Sent as `name[]=first&name[]=second`; nothing if it is empty.
  case array([ParameterValue])
  /// Sent as `name[key]=value`, sorted by key; nothing if it is empty.
  case dictionary([String: ParameterValue])
}

extension ParameterValue: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByBooleanLiteral,
  ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  /// A literal text stands for itself.
  public init(stringLiteral value: String) { self = .string(value) }
  /// A literal whole number stands for itself.
  public init(integerLiteral value: Int) { self = .integer(value) }
  /// A literal number with a fraction stands for itself.
  public init(floatLiteral value: Double) { self = .number(value) }
  /// `true` and `false` are sent as 1 and 0.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// `nil` is sent as an empty value.
  public init(nilLiteral: ()) { self = .null }
  /// A literal array is a list of values.
  public init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
  /// A literal dictionary has values by key; of those with the same key, the last.
  public init(dictionaryLiteral elements: (String, ParameterValue)...) {
    self = .dictionary(Dictionary(elements, uniquingKeysWith: { _, last in last }))
  }
}

/// `application/x-www-form-urlencoded`, for queries and bodies.
///
/// Names are sorted. Everything but letters, digits and `-._~?/` is escaped (RFC 3986; a space is `%20`, brackets are `%5B` and `%5D`).
enum FormEncoding {
  static func encode(_ values: [String: ParameterValue]) throws(RequestError) -> String {
    var pairs: [String] = []
    for (name, value) in values.sorted(by: { $0.key < $1.key }) { try append(value, name, to: &pairs) }
    return pairs.joined(separator: "&")
  }

  private static func append(_ value: ParameterValue, _ name: String, to pairs: inout [String]) throws(RequestError) {
    switch value {
    case .string(let string): pairs.append("\(escape(name))=\(escape(string))")
    case .integer(let integer): pairs.append("\(escape(name))=\(integer)")
    case .number(let number):
      guard number.isFinite else { throw .invalidParameters("parameter \"\(name)\" is \(number), which no form can say") }
      pairs.append("\(escape(name))=\(escape(text(of: number)))")
    case .bool(let bool): pairs.append("\(escape(name))=\(bool ? 1 : 0)")
    case .null: pairs.append("\(escape(name))=")
    case .array(let elements): for element in elements { try append(element, name + "[]", to: &pairs) }
    case .dictionary(let members):
      for (key, member) in members.sorted(by: { $0.key < $1.key }) { try append(member, "\(name)[\(key)]", to: &pairs) }
    }
  }

  /// Whole numbers without a fraction: 2, not 2.0.
  private static func text(of number: Double) -> String {
    number.rounded() == number && abs(number) < 1e15 ? String(Int64(number)) : String(number)
  }

  static func escape(_ text: String) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count)
    for byte in text.utf8 {
      if isPlain(byte) {
        bytes.append(byte)
      } else {
        bytes.append(UInt8(ascii: "%"))
        bytes.append(hexadecimal[Int(byte >> 4)])
        bytes.append(hexadecimal[Int(byte & 15)])
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static let hexadecimal = Array("0123456789ABCDEF".utf8)

  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "?"), UInt8(ascii: "/"):
      true
    default: false
    }
  }
}
