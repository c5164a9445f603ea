import Foundation

/// Makes a value of the answer's bytes. Runs on a background thread, for each asker by itself.
///
/// ```swift
/// struct Note: Decodable, Sendable { let text: String }
///
/// let notes = ResponseDecoder.json([Note].self)
/// let lines = ResponseDecoder<Int> { data, _ in data.split(separator: UInt8(ascii: "\n")).count }
/// ```
public struct ResponseDecoder<Value: Sendable>: Sendable {
  let decode: @Sendable (Data, ResponseHead) throws -> Value
  /// Whether it is one of ours, which waits for nothing, unless what is decoded does by itself.
  let isQuick: Bool

  /// Makes a decoder from a closure. What it throws becomes ``RequestError/decoding(_:body:)``.
  public init(_ decode: @escaping @Sendable (_ data: Data, _ head: ResponseHead) throws -> Value) {
    self.init(isQuick: false, decode)
  }

  fileprivate init(isQuick: Bool, _ decode: @escaping @Sendable (Data, ResponseHead) throws -> Value) {
    (self.isQuick, self.decode) = (isQuick, decode)
  }
}

/// The answer is not text in the character set that it claims.
public struct UndecodableText: Error, Sendable, CustomStringConvertible {
  /// As the answer calls it.
  public let characterSet: String
  /// What is wrong, in words.
  public var description: String { "the answer is not text in \(characterSet)" }
}

extension ResponseDecoder where Value == Data {
  /// The bytes as they came.
  public static var data: ResponseDecoder { ResponseDecoder(isQuick: true) { data, _ in data } }
}

extension ResponseDecoder where Value == String {
  /// Text in the character set of `Content-Type`; UTF-8 if it names none.
  /// - Complexity: of a decoding, linear in the bytes.
  public static var string: ResponseDecoder {
    ResponseDecoder(isQuick: true) { data, head in
      let name = characterSet(of: head) ?? "utf-8"
      guard let encoding = encodings[name.lowercased()], let text = String(data: data, encoding: encoding) else {
        throw UndecodableText(characterSet: name)
      }
      return text
    }
  }

  private static let encodings: [String: String.Encoding] = [
    "utf-8": .utf8, "utf8": .utf8, "us-ascii": .ascii, "ascii": .ascii, "iso-8859-1": .isoLatin1, "latin1": .isoLatin1,
    "iso-8859-2": .isoLatin2,
    "windows-1252": .windowsCP1252, "utf-16": .utf16, "utf-16le": .utf16LittleEndian, "utf-16be": .utf16BigEndian,
  ]

  private static func characterSet(of head: ResponseHead) -> String? {
    for parameter in head.headers["Content-Type"]?.split(separator: ";").dropFirst() ?? [] {
      let halves = parameter.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
      if halves.count == 2, halves[0].lowercased() == "charset" {
        return halves[1].trimmingCharacters(in: CharacterSet(charactersIn: "\""))
      }
    }
    return nil
  }
}

extension ResponseDecoder where Value == Void {
  /// Whatever came is ignored.
  public static var empty: ResponseDecoder { ResponseDecoder(isQuick: true) { _, _ in } }
}

extension ResponseDecoder where Value: Decodable {
  /// JSON, with Foundation's decoder as it is by default.
  /// - Complexity: of a decoding, Foundation's: about linear in the bytes.
  public static func json(_: Value.Type = Value.self) -> ResponseDecoder {
    ResponseDecoder(isQuick: true) { data, _ in try JSONDecoder().decode(Value.self, from: data) }
  }

  /// A property list in any of the formats.
  /// - Complexity: of a decoding, Foundation's: about linear in the bytes.
  public static func propertyList(_: Value.Type = Value.self) -> ResponseDecoder {
    ResponseDecoder(isQuick: true) { data, _ in try PropertyListDecoder().decode(Value.self, from: data) }
  }
}
