import Foundation

/// What a file is called. A server's name, or a URL's, is a name in one directory and nothing else.
enum FetchName {
  /// Longer ones have no room for `.part.info`.
  static let longest = 255 - ".part.info".utf8.count

  /// The last part of the path; `index.html` if that is empty.
  static func name(of url: URL) -> String {
    let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
    let last = path.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? ""
    if let decoded = last.removingPercentEncoding, isPlain(decoded) { return decoded }
    // What would be a path, or control a terminal, stays escaped.
    return isPlain(last) ? last : "index.html"
  }

  /// What a header `Content-Disposition` calls the file; nil if it doesn't, or if that is no name for a file: `..`, `.profile`.
  static func name(inDisposition header: String) -> String? {
    let parameters = parameters(of: header)
    let given = parameters["filename*"].flatMap(decoded(extended:)) ?? parameters["filename"]
    guard let last = given?.split(omittingEmptySubsequences: false, whereSeparator: { $0 == "/" || $0 == "\\" }).last else { return nil }
    let name = String(last).trimmingCharacters(in: .whitespaces)
    guard isPlain(name), !name.hasPrefix("."), name.utf8.count <= longest else { return nil }
    return name
  }

  /// `name.1.ext` for `name.ext`.
  static func numbered(_ name: String, _ number: Int) -> String {
    guard let dot = name.lastIndex(of: "."), dot > name.startIndex, name.index(after: dot) < name.endIndex else {
      return "\(name).\(number)"
    }
    return "\(name[..<dot]).\(number)\(name[dot...])"
  }

  private static func isPlain(_ name: String) -> Bool {
    !name.isEmpty && name != "." && name != ".." && !name.contains("/") && !name.unicodeScalars.contains { $0.isControl }
  }

  /// The directories and the name of `out=`; nil if it leads out of its directory.
  static func parts(ofRelative path: String) -> [String]? {
    guard !path.hasPrefix("/"), !path.unicodeScalars.contains(where: { $0.value == 0 }) else { return nil }
    let parts = path.split(separator: "/").map(String.init).filter { $0 != "." }
    guard !parts.isEmpty, !path.hasSuffix("/"), !parts.contains("..") else { return nil }
    return parts
  }

  // MARK: Headers

  private static func parameters(of header: String) -> [String: String] {
    var parameters: [String: String] = [:]
    var rest = Array(header.unicodeScalars)[...]
    _ = rest.prefix { $0 != ";" }
    rest = rest.drop { $0 != ";" }
    while rest.popFirst() != nil {
      let key = text(rest.prefix { $0 != "=" && $0 != ";" })
      rest = rest.drop { $0 != "=" && $0 != ";" }
      guard rest.first == "=" else { continue }
      rest = rest.dropFirst().drop { $0 == " " || $0 == "\t" }
      var value = String.UnicodeScalarView()
      if rest.first == "\"" {
        rest = rest.dropFirst()
        while let scalar = rest.popFirst(), scalar != "\"" {
          // A path of another system's is told by its backslashes, so only quotes are unescaped.
          if scalar == "\\", rest.first == "\"" { value.append(rest.removeFirst()) } else { value.append(scalar) }
        }
        rest = rest.drop { $0 != ";" }
      } else {
        value.append(contentsOf: rest.prefix { $0 != ";" })
        rest = rest.drop { $0 != ";" }
      }
      parameters[key.lowercased()] = String(value)
    }
    return parameters
  }

  private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
    var view = String.UnicodeScalarView()
    view.append(contentsOf: scalars)
    return String(view).trimmingCharacters(in: .whitespaces)
  }

  /// `UTF-8''na%C3%AFve.txt`
  private static func decoded(extended value: String) -> String? {
    let parts = value.trimmingCharacters(in: .whitespaces).split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].lowercased() == "utf-8" else { return nil }
    return String(parts[2]).removingPercentEncoding
  }
}
