/// Commands as a shell reads them: by code points, not by characters, of which a quote may be a part.
enum ShellText {
  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-".utf8)
  /// Which are no commands where a command begins.
  static let reserved: Set<String> = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function", "select", "time", "coproc",
  ]

  /// One word, in quotes where it needs them; of what `printf` makes only if there are characters that a terminal obeys.
  static func quoted(_ word: String) -> String {
    guard !word.isEmpty else { return "''" }
    if word.utf8.allSatisfy(plain.contains) { return word }
    guard word.unicodeScalars.contains(where: { $0.isControl && $0 != "\n" && $0 != "\t" }) else {
      let parts = word.unicodeScalars.split(separator: "'", omittingEmptySubsequences: false)
      return "'" + parts.map { String($0) }.joined(separator: "'\\''") + "'"
    }
    // The shell takes line ends from the end of what is put out.
    let scalars = word.unicodeScalars
    let last = scalars.lastIndex { $0 != "\n" } ?? scalars.startIndex
    let lineEnds = String(scalars[scalars.index(after: last)...])
    return "\"$(printf '\(format(scalars[...last]))')\"" + (lineEnds.isEmpty ? "" : quoted(lineEnds))
  }

  /// What `printf` puts the text out for. Escapes have three digits: more would belong to them whatever follows.
  private static func format(_ text: Substring.UnicodeScalarView) -> String {
    var result = ""
    for scalar in text {
      switch scalar {
      case "%": result += "%%"
      case "\\": result += "\\\\"
      case "'": result += "\\047"
      case "-" where result.isEmpty: result += "\\055"  // or it would be an option
      default:
        guard scalar.isControl else {
          result.unicodeScalars.append(scalar)
          continue
        }
        for byte in String(scalar).utf8 { result += "\\" + octal(byte) }
      }
    }
    return result
  }

  private static func octal(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 8)
    return String(repeating: "0", count: 3 - digits.count) + digits
  }
}
