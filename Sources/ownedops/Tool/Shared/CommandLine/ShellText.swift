/// Commands as a shell reads them.
enum ShellText {
  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-".utf8)
  /// Which are no commands where a command begins.
  private static let reserved: Set<String> = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function", "select", "time", "coproc",
  ]

  /// One word, in quotes where it needs them; in `$'...'`, which dash does not know, only if there are characters that a terminal obeys.
  static func quoted(_ word: String) -> String {
    guard !word.isEmpty else { return "''" }
    if word.utf8.allSatisfy(plain.contains) { return word }
    guard word.unicodeScalars.contains(where: { $0.isControl && $0 != "\n" && $0 != "\t" }) else {
      return "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
    var result = "$'"
    for scalar in word.unicodeScalars {
      switch scalar {
      case "'", "\\": result += "\\\(scalar)"
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      default:
        guard scalar.isControl else {
          result.unicodeScalars.append(scalar)
          continue
        }
        for byte in String(scalar).utf8 { result += "\\" + octal(byte) }
      }
    }
    return result + "'"
  }

  /// Three digits: more would belong to it whatever follows.
  private static func octal(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 8)
    return String(repeating: "0", count: 3 - digits.count) + digits
  }

  /// To be pasted into a shell: with the directory and the environment of the command, in a subshell if it changes the directory.
  static func line(_ command: ChildProcess.Command) -> String {
    var words = command.words.map(quoted)
    if let first = words.first, reserved.contains(first) { words[0] = "'\(first)'" }
    if !command.environment.isEmpty {
      let variables = command.environment.sorted { $0.key < $1.key }
      words = ["env"] + variables.map { quoted($0.key) + "=" + ($0.value.isEmpty ? "" : quoted($0.value)) } + words
    }
    let line = words.joined(separator: " ")
    guard let directory = command.directory else { return line }
    return "(cd \(directory.hasPrefix("-") ? "-- " : "")\(quoted(directory)) && \(line))"
  }
}
