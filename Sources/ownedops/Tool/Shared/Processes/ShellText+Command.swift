extension ShellText {
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
    return "(cd \(directory.utf8.first == UInt8(ascii: "-") ? "-- " : "")\(quoted(directory)) && \(line))"
  }
}
