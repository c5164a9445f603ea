/// What a subcommand understands.
struct CommandSyntax: Sendable {
  struct Option: Sendable {
    /// The long name first.
    let names: [String]
    /// What stands for the value in the help; nil for a flag.
    var value: String?
    let help: String
  }

  let name: String
  let operands: String
  let summary: String
  let options: [Option]
  let details: String
  let examples: [String]

  var helpText: String {
    var text = "\(summary)\n\nUsage: ownedops \(name)\(operands.isEmpty ? "" : " " + operands) [options]\n\nOptions:\n"
    let all = options + [Option(names: ["--help", "-h"], help: "show this help")]
    let left = all.map { option in
      option.names.reversed().joined(separator: ", ") + (option.value.map { " " + $0 } ?? "")
    }
    let width = (left.map(\.count).max() ?? 0) + 2
    for (label, option) in zip(left, all) {
      let lines = option.help.split(separator: "\n", omittingEmptySubsequences: false)
      text += "  " + label + String(repeating: " ", count: width - label.count) + (lines.first ?? "") + "\n"
      for line in lines.dropFirst() { text += "  " + String(repeating: " ", count: width) + line + "\n" }
    }
    if !details.isEmpty { text += "\n" + details + "\n" }
    text += examples.count == 1 ? "\nExample:\n" : "\nExamples:\n"
    for example in examples { text += "  \(example)\n" }
    return text
  }
}

/// The arguments of a subcommand, by option. Values are bytes: file names need not be text.
struct Arguments {
  private(set) var values: [String: [[UInt8]]] = [:]
  private(set) var operands: [[UInt8]] = []
  private(set) var wantsHelp = false

  init(_ arguments: [[UInt8]], syntax: CommandSyntax) throws(UsageError) {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      let text = String(decoding: argument, as: UTF8.self)
      if text == "--" {
        operands += rest
        return
      }
      guard text.hasPrefix("-"), text != "-" else {
        operands.append(argument)
        continue
      }
      let name = String(text.prefix { $0 != "=" })
      if name == "--help" || name == "-h" {
        wantsHelp = true
        continue
      }
      guard let option = syntax.options.first(where: { $0.names.contains(name) }) else {
        let known = syntax.options.flatMap(\.names) + ["--help"]
        throw UsageError(
          "\(syntax.name): unknown option \(name)\(Suggestion.text(for: name, among: known)); see ownedops \(syntax.name) --help")
      }
      let inline = argument.firstIndex(of: UInt8(ascii: "=")).map { Array(argument[($0 + 1)...]) }
      guard let placeholder = option.value else {
        guard inline == nil else { throw UsageError("\(syntax.name): \(name) takes no value") }
        values[option.names[0], default: []].append([])
        continue
      }
      guard let value = inline ?? rest.popFirst() else { throw UsageError("\(syntax.name): \(name) needs a value: \(name) \(placeholder)") }
      values[option.names[0], default: []].append(value)
    }
  }

  func has(_ name: String) -> Bool { values[name] != nil }

  /// The last one given counts.
  func text(_ name: String) -> String? { bytes(name).map { String(decoding: $0, as: UTF8.self) } }
  func bytes(_ name: String) -> [UInt8]? { values[name]?.last }

  func duration(_ name: String) throws(UsageError) -> Duration? {
    guard let text = text(name) else { return nil }
    guard let duration = Duration(text: text) else { throw UsageError("\(name): \(Duration.complaint(about: text))") }
    return duration
  }

  func positiveInteger(_ name: String) throws(UsageError) -> Int? {
    guard let text = text(name) else { return nil }
    guard let number = Int(text), number > 0 else { throw UsageError("\(name): \"\(text)\" is not a whole number above 0") }
    return number
  }

  func choice(_ name: String, among choices: [String]) throws(UsageError) -> String? {
    guard let text = text(name) else { return nil }
    guard choices.contains(text) else {
      throw UsageError("\(name): \"\(text)\" is none of \(choices.joined(separator: ", "))\(Suggestion.text(for: text, among: choices))")
    }
    return text
  }
}
