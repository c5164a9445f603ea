/// What a subcommand understands.
struct CommandSyntax: Sendable {
  struct Option: Sendable {
    /// The long name first.
    let names: [String]
    /// What stands for the value in the help; nil for a flag.
    var value: String?
    let help: String
    var choices: [String] = []
    var mayRepeat = false

    /// What a shell may put in place of the value.
    var completion: Completed {
      if !choices.isEmpty { return .words(choices) }
      switch value {
      case "FILE": return .files
      case "DIR": return .directories
      default: return .nothing
      }
    }
  }

  enum Completed: Sendable {
    case nothing, files, directories
    case words([String])
  }

  let name: String
  let operands: String
  let summary: String
  let options: [Option]
  let details: String
  let examples: [String]
  /// Of operands.
  var completion = Completed.nothing

  var helpText: String { helpText(width: .max) }

  /// - Parameter width: of the terminal.
  func helpText(width: Int) -> String {
    let narrow = NarrowText(width: width)
    var text = narrow.wrapped("\(summary)\n\nUsage: ownedops \(name)\(operands.isEmpty ? "" : " " + operands) [options]\n\nOptions:\n")
    let all = options + [Option(names: ["--help", "-h"], help: "show this help")]
    let left = all.map { option in
      option.names.reversed().joined(separator: ", ") + (option.value.map { " " + $0 } ?? "")
    }
    let column = (left.map(\.count).max() ?? 0) + 4
    for (label, option) in zip(left, all) {
      let lines = option.help.split(separator: "\n", omittingEmptySubsequences: false)
      let first = "  " + label + String(repeating: " ", count: column - 2 - label.count) + (lines.first ?? "")
      text += narrow.wrapped(first, hanging: column) + "\n"
      for line in lines.dropFirst() { text += narrow.wrapped(String(repeating: " ", count: column) + line) + "\n" }
    }
    if !details.isEmpty { text += "\n" + narrow.wrapped(details) + "\n" }
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
      if argument == Array("--".utf8) {
        operands += rest
        return
      }
      if argument.starts(with: Array("--".utf8)) {
        try readLong(argument, &rest, syntax)
      } else if argument.first == UInt8(ascii: "-"), argument.count > 1 {
        try readShort(argument, &rest, syntax)
      } else {
        operands.append(argument)
      }
    }
  }

  /// `--name`, `--name value` or `--name=value`.
  private mutating func readLong(_ argument: [UInt8], _ rest: inout ArraySlice<[UInt8]>, _ syntax: CommandSyntax) throws(UsageError) {
    let equals = argument.firstIndex(of: UInt8(ascii: "="))
    let name = String(decoding: argument[..<(equals ?? argument.endIndex)], as: UTF8.self)
    if name == "--help" {
      wantsHelp = true
      return
    }
    let option = try Self.option(name, in: argument, syntax)
    let inline = equals.map { Array(argument[($0 + 1)...]) }
    guard option.value != nil else {
      guard inline == nil else { throw UsageError("\(syntax.name): \(name) takes no value") }
      values[option.names[0], default: []].append([])
      return
    }
    try add(inline ?? rest.popFirst(), to: option, called: name, syntax)
  }

  /// Letters in one: `-q`, `-qk`, `-j4`, `-qj4`, `-qj 4`. What follows one that wants a value is the value.
  private mutating func readShort(_ argument: [UInt8], _ rest: inout ArraySlice<[UInt8]>, _ syntax: CommandSyntax) throws(UsageError) {
    // By characters as far as there are any: a letter that no option has may be more than a byte.
    var letters = argument.dropFirst()
    while let first = letters.first {
      let length = first < 0x80 ? 1 : String(decoding: letters, as: UTF8.self).first.map { String($0).utf8.count } ?? 1
      let name = "-" + String(decoding: letters.prefix(length), as: UTF8.self)
      letters = letters.dropFirst(length)
      if name == "-h" {
        wantsHelp = true
        continue
      }
      let option = try Self.option(name, in: argument, syntax)
      guard option.value != nil else {
        guard letters.first != UInt8(ascii: "=") else { throw UsageError("\(syntax.name): \(name) takes no value") }
        values[option.names[0], default: []].append([])
        continue
      }
      let inline = letters.first == UInt8(ascii: "=") ? letters.dropFirst() : letters
      try add(letters.isEmpty ? rest.popFirst() : Array(inline), to: option, called: name, syntax)
      return
    }
  }

  private mutating func add(
    _ value: [UInt8]?, to option: CommandSyntax.Option, called name: String, _ syntax: CommandSyntax
  ) throws(UsageError) {
    guard let value else { throw UsageError("\(syntax.name): \(name) needs a value: \(name) \(option.value ?? "")") }
    values[option.names[0], default: []].append(value)
  }

  private static func option(_ name: String, in argument: [UInt8], _ syntax: CommandSyntax) throws(UsageError) -> CommandSyntax.Option {
    if let option = syntax.options.first(where: { $0.names.contains(name) }) { return option }
    let whole = String(decoding: argument, as: UTF8.self)
    let place = !name.hasPrefix("--") && whole != name ? " in \(whole)" : ""
    // One dash too few is the likelier mistake.
    let suggestion = Suggestion.text(for: name.hasPrefix("--") ? name : "-" + whole, among: syntax.options.flatMap(\.names) + ["--help"])
    throw UsageError("\(syntax.name): unknown option \(name)\(place)\(suggestion); see ownedops \(syntax.name) --help")
  }

  /// The one operand of a command that reads a file of jobs.
  func file(of command: String) throws(UsageError) -> String {
    guard operands.count == 1 else { throw Self.missingFile(of: command) }
    return String(decoding: operands[0], as: UTF8.self)
  }

  static func missingFile(of command: String) -> UsageError {
    UsageError("\(command): give one FILE, or - for standard input; see ownedops \(command) --help")
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

  /// In bytes.
  func size(_ name: String) throws(UsageError) -> Int? {
    guard let text = text(name) else { return nil }
    guard let size = ByteCount.parse(text) else { throw UsageError("\(name): \(ByteCount.complaint(about: text))") }
    return size
  }

  func choice(_ name: String, among choices: [String]) throws(UsageError) -> String? {
    guard let text = text(name) else { return nil }
    guard choices.contains(text) else {
      throw UsageError("\(name): \"\(text)\" is none of \(choices.joined(separator: ", "))\(Suggestion.text(for: text, among: choices))")
    }
    return text
  }
}
