/// `ownedops completion` and `ownedops man`: what comes from the tables of all commands.
enum ReferenceCommands {
  static let completionSyntax = CommandSyntax(
    name: "completion", operands: "SHELL", summary: "Prints the completion for a shell: bash, zsh or fish.", options: [],
    details: "Exit status: 0 printed; 1 standard output could not be written; 2 bad input.",
    examples: ["ownedops completion bash > ~/.local/share/bash-completion/completions/ownedops"],
    completion: .words(Completion.Shell.allCases.map(\.rawValue)))

  static let manualSyntax = CommandSyntax(
    name: "man", operands: "", summary: "Prints the manual page.", options: [],
    details: "Exit status: 0 printed; 1 standard output could not be written; 2 bad input.", examples: ["ownedops man | man -l -"])

  static func complete(_ arguments: Arguments, _ commands: [CommandSyntax]) throws(UsageError) -> Int32 {
    guard arguments.operands.count == 1 else {
      throw UsageError("completion: give one SHELL: bash, zsh or fish; see ownedops completion --help")
    }
    let name = String(decoding: arguments.operands[0], as: UTF8.self)
    guard let shell = Completion.Shell(rawValue: name) else {
      let known = Completion.Shell.allCases.map(\.rawValue)
      throw UsageError("completion: \"\(name)\" is none of \(known.joined(separator: ", "))\(Suggestion.text(for: name, among: known))")
    }
    Console.shared.write(Completion(commands: commands).script(for: shell))
    return ExitStatus.success
  }

  static func showManual(_ arguments: Arguments, _ commands: [CommandSyntax]) throws(UsageError) -> Int32 {
    guard arguments.operands.isEmpty else { throw UsageError("man: it takes no operands; see ownedops man --help") }
    Console.shared.write(Manual(commands: commands, version: ToolVersion.current).roff)
    return ExitStatus.success
  }
}
