import Foundation

/// Addresses in messages: without who asks, and with a guess at what was meant.
package enum AddressText {
  private static let hidden = "…"

  // MARK: Without who asks

  /// The address without user and password, as it may be kept in a log.
  package static func shown(_ url: URL) -> String { shown(url.absoluteString) }

  /// A text that was given as an address, without what may be user and password. In a text that is no address, all before the last `@` is
  /// hidden: a password that was not escaped may contain anything.
  package static func shown(_ text: String) -> String {
    let start = endOfScheme(of: text)
    let isWhole = URLComponents(string: text).map { $0.scheme != nil && $0.host?.isEmpty == false } ?? false
    let end = isWhole ? text[start...].firstIndex(where: isEndOfAuthority) ?? text.endIndex : text.endIndex
    guard let at = text[start..<end].lastIndex(of: "@"), at > start else { return text }
    return text[..<start] + hidden + text[at...]
  }

  /// A message that may quote addresses, without the users and passwords in them.
  package static func withoutUsers(in message: String) -> String {
    var shown = ""
    var rest = message[...]
    while let colon = rest.range(of: ":/") {
      let start = rest[colon.upperBound...].firstIndex { $0 != "/" } ?? rest.endIndex
      shown += rest[..<start]
      rest = rest[start...]
      let end = rest.firstIndex { isEndOfAuthority($0) || $0 == "\"" || $0.isWhitespace } ?? rest.endIndex
      guard let at = rest[..<end].lastIndex(of: "@"), at > rest.startIndex else { continue }
      shown += hidden
      rest = rest[at...]
    }
    return shown + rest
  }

  /// What comes with an error, without users and passwords.
  static func withoutUsers(in userInfo: [String: Any]) -> [String: Any] {
    userInfo.mapValues { value in
      switch value {
      case let url as URL: withoutUser(url)
      case let text as String: withoutUsers(in: text)
      case let error as NSError: NSError(domain: error.domain, code: error.code, userInfo: withoutUsers(in: error.userInfo))
      default: value
      }
    }
  }

  /// An address that leads to the same place without saying who asks.
  static func withoutUser(_ url: URL) -> URL {
    guard url.user != nil || url.password != nil, var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
      return url
    }
    components.user = nil
    components.password = nil
    return components.url ?? url
  }

  // MARK: What was meant

  /// What was likely meant by a text that is no address of HTTP's. For `htp:/example.com` it is `; did you mean http://example.com?`. Empty
  /// if there is no telling.
  package static func hint(for text: String) -> String {
    guard let meant = meant(by: text.trimmingCharacters(in: .whitespacesAndNewlines)), meant != text else { return "" }
    return "; did you mean \(shown(meant))?"
  }

  private static func meant(by text: String) -> String? {
    guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else { return nil }
    let text = text.replacingOccurrences(of: " ", with: "%20")
    let word = text.prefix { $0.isASCII && $0.isLetter }
    let separators = text[word.endIndex...].prefix { ":;/\\".contains($0) }
    let rest = text[separators.endIndex...]
    let hasScheme = separators.contains { $0 == ":" || $0 == ";" } || separators.count > 1
    if hasScheme, !word.isEmpty, let scheme = scheme(like: word.lowercased()) { return whole("\(scheme)://\(rest)") }
    // Another scheme is no slip of the fingers. A name and a port look like one.
    if separators.contains(":"), separators.count > 1, !word.isEmpty { return nil }
    let address = word.isEmpty ? rest : text[...]
    let authority = address.prefix { !isEndOfAuthority($0) }
    let host = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
    let name = host.prefix { $0 != ":" }
    let isLocal = name == "localhost" || name.hasPrefix("127.")
    let port = host.dropFirst(name.count + 1)
    let hasPort = !port.isEmpty && port.allSatisfy { $0.isASCII && $0.isNumber }
    let isPath = word.isEmpty && separators.count == 1
    guard !isPath, isLocal || isDomain(name) || hasPort && !name.isEmpty else { return nil }
    return whole("\(isLocal ? "http" : "https")://\(address)")
  }

  /// Two parts or more, none of them empty, and no file of a page: `example.com`, but neither `..` nor `.profile` nor `a.html`.
  private static func isDomain(_ name: Substring) -> Bool {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count > 1, parts.allSatisfy({ !$0.isEmpty }), let last = parts.last else { return false }
    return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
      || last.count > 1 && last.allSatisfy { $0.isLetter }
        && !["html", "htm", "json", "xml", "php", "txt", "jpg", "png", "css", "js"].contains(last.lowercased())
  }

  private static func whole(_ text: String) -> String? {
    guard let url = URL(string: text), let host = url.host, !host.isEmpty else { return nil }
    return text
  }

  private static func scheme(like word: String) -> String? {
    if word == "http" || word == "https" { return word }
    guard word.count > 2, !["ftp", "ftps", "sftp", "tftp"].contains(word) else { return nil }
    let schemes = ["http", "https"].map { (name: $0, distance: distance(word, $0)) }.filter { $0.distance <= 2 }
    // Of two that are as near, the one of the same length.
    return schemes.min { ($0.distance, abs($0.name.count - word.count)) < ($1.distance, abs($1.name.count - word.count)) }?.name
  }

  /// Insertions, deletions, replacements, and exchanges of neighbours. Of short words.
  private static func distance(_ left: String, _ right: String) -> Int {
    let (left, right) = (Array(left.utf8), Array(right.utf8))
    guard left.count <= right.count + 2 else { return .max }
    var rows = [Array(0...right.count)]
    for i in left.indices {
      var row = [i + 1]
      for j in right.indices {
        var distance = min(row[j] + 1, rows[i][j + 1] + 1, rows[i][j] + (left[i] == right[j] ? 0 : 1))
        if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] { distance = min(distance, rows[i - 1][j - 1] + 1) }
        row.append(distance)
      }
      rows.append(row)
    }
    return rows[left.count][right.count]
  }

  // MARK: Parts

  private static func isEndOfAuthority(_ character: Character) -> Bool { character == "/" || character == "?" || character == "#" }

  /// Where scheme and slashes end, also in a text that is no address: `htp:/`, `http;//`.
  private static func endOfScheme(of text: String) -> String.Index {
    let word = text.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
    let separators = text[word.endIndex...].prefix { ":;/\\".contains($0) }
    return separators.contains { $0 == "/" || $0 == "\\" } ? separators.endIndex : text.startIndex
  }
}
