/// The fields of one JSON object, of which no key is unknown.
struct JSONFields {
  let label: String
  private let members: [JSONValue.Member]
  private let place: Int

  /// - Parameter number: of an object in a list, which is called by its name if it has one.
  init(_ value: JSONValue, _ kind: String, number: Int? = nil, keys: [String]) throws(JSONFault) {
    let shown = number.map { "\(kind) \($0)" } ?? kind
    guard case .object(let members) = value.content else { throw JSONFault("\(shown) is not an object: { ... }", at: value.place) }
    var name: String?
    if number != nil, case .text(let text)? = members.first(where: { $0.key == "name" })?.value.content, !text.isEmpty {
      name = text
    }
    label = name.map { "\(kind) \"\($0)\"" } ?? shown
    self.members = members
    place = value.place
    for member in members where !keys.contains(member.key) {
      throw JSONFault("\(label): unknown key \"\(member.key)\"\(Suggestion.text(for: member.key, among: keys))", at: member.place)
    }
  }

  var count: Int { members.count }
  subscript(key: String) -> JSONValue? { members.first { $0.key == key }?.value }

  /// Of the value, or of the whole object if there is none.
  func place(of key: String) -> Int { self[key]?.place ?? place }

  func error(_ text: String, at key: String? = nil) -> JSONFault {
    JSONFault("\(label): \(text)", at: key.map { place(of: $0) } ?? place)
  }

  func name() throws(JSONFault) -> String {
    guard let name = try text("name"), !name.isEmpty else { throw JSONFault("\(label) has no \"name\"", at: place(of: "name")) }
    return name
  }

  func list(_ key: String) throws(JSONFault) -> [JSONValue]? {
    guard let value = self[key] else { return nil }
    guard case .list(let list) = value.content else { throw error("\"\(key)\" is not a list: [ ... ]", at: key) }
    return list
  }

  func text(_ key: String) throws(JSONFault) -> String? {
    guard let value = self[key] else { return nil }
    guard case .text(let text) = value.content else { throw error("\"\(key)\" is not a text: \"...\"", at: key) }
    return text
  }

  /// What the system would cut off at the first NUL, or take for the current directory, is no path.
  func path(_ key: String) throws(JSONFault) -> String? {
    guard let path = try text(key) else { return nil }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw error("\"\(key)\" is no path: it is empty or holds a NUL character", at: key) }
    return path
  }

  func texts(_ key: String) throws(JSONFault) -> [String]? { try placedTexts(key)?.map(\.text) }

  func placedTexts(_ key: String) throws(JSONFault) -> [(text: String, place: Int)]? {
    guard let list = try list(key) else { return nil }
    var texts: [(text: String, place: Int)] = []
    texts.reserveCapacity(list.count)
    for element in list {
      guard case .text(let text) = element.content else {
        throw JSONFault("\(label): \"\(key)\" is not a list of texts: [\"...\"]", at: element.place)
      }
      texts.append((text, element.place))
    }
    return texts
  }

  func textMap(_ key: String) throws(JSONFault) -> [String: String]? {
    guard let value = self[key] else { return nil }
    guard case .object(let members) = value.content else {
      throw error("\"\(key)\" is not an object of texts: { \"NAME\": \"value\" }", at: key)
    }
    var result: [String: String] = [:]
    for member in members {
      let name = member.key
      guard case .text(let text) = member.value.content else {
        throw JSONFault("\(label): \"\(key)\": \"\(name)\" is not a text: \"...\"", at: member.value.place)
      }
      guard !name.isEmpty, !name.utf8.contains(UInt8(ascii: "=")), !name.utf8.contains(0), !text.utf8.contains(0) else {
        throw JSONFault("\(label): \"\(key)\": \"\(name)\" can't be a variable", at: member.place)
      }
      result[name] = text
    }
    return result
  }

  func integer(_ key: String) throws(JSONFault) -> Int? {
    guard let value = self[key] else { return nil }
    guard case .number(let number) = value.content, let integer = Int(exactly: number) else {
      throw error("\"\(key)\" is not a whole number", at: key)
    }
    return integer
  }

  /// Bytes: a number, or a text with a unit.
  func size(_ key: String) throws(JSONFault) -> Int? {
    guard let value = self[key] else { return nil }
    switch value.content {
    case .number(let number):
      guard let size = Int(exactly: number), size >= 0 else { throw error("\"\(key)\" is not a number of bytes", at: key) }
      return size
    case .text(let text):
      guard let size = ByteCount.parse(text) else { throw error("\"\(key)\": \(ByteCount.complaint(about: text))", at: key) }
      return size
    default: throw error("\"\(key)\" is not a size, such as \"2G\"", at: key)
    }
  }

  func duration(_ key: String) throws(JSONFault) -> Duration? {
    guard let value = self[key] else { return nil }
    guard case .text(let text) = value.content else { throw error("\"\(key)\" is not a duration in quotes, such as \"30s\"", at: key) }
    guard let duration = Duration(text: text) else { throw error("\"\(key)\": \(Duration.complaint(about: text))", at: key) }
    return duration
  }
}
