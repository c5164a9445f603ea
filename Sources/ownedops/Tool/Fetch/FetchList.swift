import Foundation

/// A URL and what the user has said of it.
struct FetchEntry: Sendable, Equatable {
  var url: String
  /// The file, if it is not named by the URL.
  var name: String?
  /// Whether the name may lead anywhere, as one of the command line may.
  var nameIsFree = false
  var sha256: String?
  /// Where it stands, for messages.
  var source: String
}

/// A list of URLs: one a line, with indented lines `out=NAME`, `sha256=DIGITS` below it.
enum FetchList {
  private static let known = ["out", "sha256", "checksum"]

  static func entries(inFile path: [UInt8]) throws(UsageError) -> [FetchEntry] {
    let isStandardInput = path == Array("-".utf8)
    let descriptor = isStandardInput ? dup(0) : path.withCString { open($0, O_RDONLY | O_CLOEXEC) }
    let source = isStandardInput ? "standard input" : path.escapedName
    guard descriptor >= 0 else { throw UsageError("--input-file: can't read \(source): \(RawFile.message(errno))") }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = piece.withUnsafeMutableBytes { RawFile.fill($0, from: descriptor) }
      guard count >= 0 else { throw UsageError("--input-file: can't read \(source): \(RawFile.message(Int32(-count)))") }
      bytes += piece[..<count]
      if count < piece.count { break }
    }
    return try entries(in: bytes, source: source)
  }

  static func entries(in bytes: [UInt8], source: String) throws(UsageError) -> [FetchEntry] {
    var entries: [FetchEntry] = []
    // Editors on other systems begin a text with a mark.
    let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
    for (number, line) in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
      let place = "\(source), line \(number + 1)"
      guard let line = String(validating: line, as: UTF8.self) else { throw UsageError("\(place): is not UTF-8") }
      let words = line.trimmingCharacters(in: .whitespacesAndNewlines)
      guard !words.isEmpty, !words.hasPrefix("#") else { continue }
      guard line.hasPrefix(" ") || line.hasPrefix("\t") else {
        if words.contains("\t") { throw UsageError("\(place): give one URL a line; several for one file are not supported") }
        entries.append(FetchEntry(url: words, source: place))
        continue
      }
      guard let last = entries.indices.last else { throw UsageError("\(place): there is no URL above this indented line") }
      try read(words, into: &entries[last], place)
    }
    return entries
  }

  private static func read(_ line: String, into entry: inout FetchEntry, _ place: String) throws(UsageError) {
    guard let equals = line.firstIndex(of: "=") else { throw UsageError("\(place): \"\(line)\" is not out=NAME or sha256=DIGITS") }
    let key = line[..<equals].trimmingCharacters(in: .whitespaces)
    var value = line[line.index(after: equals)...].trimmingCharacters(in: .whitespaces)
    guard known.contains(key) else { throw UsageError("\(place): unknown \(key)=\(Suggestion.text(for: key, among: known))") }
    guard !value.isEmpty else { throw UsageError("\(place): \(key)= has no value") }
    if key == "out" {
      guard entry.name == nil else { throw UsageError("\(place): there is an out= for this URL already") }
      entry.name = value
      return
    }
    if key == "checksum" {
      guard value.lowercased().hasPrefix("sha-256=") else { throw UsageError("\(place): checksum=\(value): only sha-256= is known") }
      value = String(value.dropFirst("sha-256=".count))
    }
    guard value.utf8.count == 64, value.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
      throw UsageError("\(place): \(key)=\(value) is not 64 hexadecimal digits")
    }
    guard entry.sha256 == nil else { throw UsageError("\(place): there is a checksum for this URL already") }
    entry.sha256 = value.lowercased()
  }
}
