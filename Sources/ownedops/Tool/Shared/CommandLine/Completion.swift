/// What a shell needs to complete commands, options and their values, made of the tables that the help is made of.
struct Completion {
  enum Shell: String, CaseIterable {
    case bash, zsh, fish
  }

  let commands: [CommandSyntax]

  func script(for shell: Shell) -> String {
    switch shell {
    case .bash: bash
    case .zsh: zsh
    case .fish: fish
    }
  }

  private static let help = CommandSyntax.Option(names: ["--help", "-h"], help: "show this help")

  private func options(of command: CommandSyntax) -> [CommandSyntax.Option] { command.options + [Self.help] }

  // MARK: bash

  private var bash: String {
    var text = """
      # bash completion for ownedops
      _ownedops() {
        local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
        COMPREPLY=()
        if [ "$COMP_CWORD" -eq 1 ]; then
          COMPREPLY=($(compgen -W "\((commands.map(\.name) + ["help", "--help", "--version"]).joined(separator: " "))" -- "$current"))
          return
        fi
        case ${COMP_WORDS[1]} in

      """
    for command in commands {
      text += "  \(command.name))\n    case $previous in\n"
      for option in options(of: command) where option.value != nil {
        text += "    \(option.names.joined(separator: "|"))) \(Self.bash(option.completion)); return ;;\n"
      }
      let names = options(of: command).flatMap(\.names).joined(separator: " ")
      text += "    esac\n    case $current in\n    -*) COMPREPLY=($(compgen -W \"\(names)\" -- \"$current\")) ;;\n"
      text += "    *) \(Self.bash(command.completion)) ;;\n    esac ;;\n"
    }
    let names = commands.map(\.name).joined(separator: " ")
    text += "  help) COMPREPLY=($(compgen -W \"\(names)\" -- \"$current\")) ;;\n"
    return text + "  esac\n}\ncomplete -F _ownedops ownedops\n"
  }

  private static func bash(_ completion: CommandSyntax.Completed) -> String {
    switch completion {
    case .nothing: ":"
    // A name is one word, whatever is in it.
    case .files: "local IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$current\"))"
    case .directories: "local IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$current\"))"
    case .words(let words): "COMPREPLY=($(compgen -W \"\(words.joined(separator: " "))\" -- \"$current\"))"
    }
  }

  // MARK: zsh

  private var zsh: String {
    var text =
      "#compdef ownedops\n_ownedops() {\n  local line state\n  _arguments -C '1: :->command' '*:: :->arguments'\n  case $state in\n"
    text += "  command)\n    local -a commands=(\n"
    for command in commands { text += "      \(ShellText.zshQuoted("\(command.name):\(Self.short(command.summary))"))\n" }
    text += "    )\n    _describe command commands ;;\n  arguments)\n    case $line[1] in\n"
    for command in commands {
      text += "    \(command.name))\n      _arguments -s"
      for option in options(of: command) {
        for name in option.names {
          let others = option.names.joined(separator: " ")
          let repeated = option.mayRepeat ? "*" : "(\(others))"
          let value = option.value.map { ":\($0):\(Self.zsh(option.completion))" } ?? ""
          let explanation = Self.short(option.help).replacingOccurrences("[", "(").replacingOccurrences("]", ")")
          // A value may follow after `=` or as the next word; a short option's directly, too.
          let joint = option.value == nil ? "" : name.hasPrefix("--") ? "=" : "+"
          text += " \\\n        " + ShellText.zshQuoted("\(repeated)\(name)\(joint)[\(explanation)]\(value)")
        }
      }
      text +=
        " \\\n        " + ShellText.zshQuoted("*:\(command.operands.isEmpty ? " " : "operand"):\(Self.zsh(command.completion))") + " ;;\n"
    }
    return text
      + "    esac ;;\n  esac\n}\nif [ \"$funcstack[1]\" = _ownedops ]; then _ownedops \"$@\"; else compdef _ownedops ownedops; fi\n"
  }

  private static func zsh(_ completion: CommandSyntax.Completed) -> String {
    switch completion {
    case .nothing: " "
    case .files: "_files"
    case .directories: "_files -/"
    case .words(let words): "(\(words.joined(separator: " ")))"
    }
  }

  // MARK: fish

  private var fish: String {
    var text = "# fish completion for ownedops\ncomplete -c ownedops -f\n"
    let names = (commands.map(\.name) + ["help"]).joined(separator: " ")
    let isFirst = "not __fish_seen_subcommand_from \(names)"
    for command in commands {
      text += "complete -c ownedops -n '\(isFirst)' -a \(command.name) -d \(Self.fishQuoted(Self.short(command.summary)))\n"
    }
    text +=
      "complete -c ownedops -n '\(isFirst)' -l help -s h -d 'show help'\n"
    text += "complete -c ownedops -n '\(isFirst)' -l version -d 'show the version'\n"
    for command in commands {
      let seen = "complete -c ownedops -n '__fish_seen_subcommand_from \(command.name)'"
      for option in options(of: command) {
        let names = option.names.map { $0.hasPrefix("--") ? "-l \($0.dropFirst(2))" : "-s \($0.dropFirst())" }.joined(separator: " ")
        let value = option.value == nil ? "" : Self.fish(option.completion, isOption: true)
        text += "\(seen) \(names)\(value) -d \(Self.fishQuoted(Self.short(option.help)))\n"
      }
      let operands = Self.fish(command.completion, isOption: false)
      if !operands.isEmpty { text += "\(seen)\(operands)\n" }
    }
    return text
  }

  private static func fish(_ completion: CommandSyntax.Completed, isOption: Bool) -> String {
    switch completion {
    case .nothing: isOption ? " -x" : ""
    case .files: isOption ? " -r -F" : " -F"
    case .directories: isOption ? " -x -a '(__fish_complete_directories)'" : " -a '(__fish_complete_directories)'"
    case .words(let words): (isOption ? " -x" : "") + " -a '\(words.joined(separator: " "))'"
    }
  }

  private static func fishQuoted(_ text: String) -> String {
    "'" + text.replacingOccurrences("\\", "\\\\").replacingOccurrences("'", "\\'") + "'"
  }

  /// The first part of a sentence.
  private static func short(_ text: String) -> String {
    let end = text.firstIndex { ";(:\n".contains($0) } ?? text.endIndex
    return text[..<end].trimmedAtEnd
  }
}

extension ShellText {
  /// In quotes, for a specification in which a colon begins the next part only where it is meant to.
  fileprivate static func zshQuoted(_ text: String) -> String { "'" + text.replacingOccurrences("'", "'\\''") + "'" }
}

extension StringProtocol {
  fileprivate func replacingOccurrences(_ part: Character, _ replacement: String) -> String {
    reduce(into: "") { result, character in if character == part { result += replacement } else { result.append(character) } }
  }

  fileprivate var trimmedAtEnd: String {
    var text = String(self)
    while text.last == " " || text.last == "." { text.removeLast() }
    return text
  }
}
