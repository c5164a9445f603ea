/// A value of a JSON document, with the place where it stands.
struct JSONValue {
  struct Member {
    let key: String
    let place: Int
    let value: JSONValue
  }

  enum Content {
    case null
    case bool(Bool)
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([Member])
  }

  let content: Content
  /// Of its first byte.
  let place: Int
}

/// What is wrong with a document, and with which byte.
struct JSONFault: Error {
  let description: String
  let place: Int

  init(_ description: String, at place: Int) {
    self.description = description
    self.place = place
  }

  /// The same for people. Columns count characters. Linear in the document.
  func usageError(in document: [UInt8]) -> UsageError {
    let before = document.prefix(place)
    let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    let line = before.count { $0 == UInt8(ascii: "\n") } + 1
    let column = before[lineStart...].count { $0 & 0xc0 != 0x80 } + 1
    return UsageError("\(description) (line \(line), column \(column))")
  }
}
