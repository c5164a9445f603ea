/// The manual page, made of the tables that the help is made of.
struct Manual {
  let commands: [CommandSyntax]
  let version: String

  /// As `man` reads it.
  var roff: String {
    var text = ".TH OWNEDOPS 1 \"\" \"ownedops \(version)\" \"User Commands\"\n"
    text += ".SH NAME\nownedops \\- work that ends with its owner: duplicate files, and graphs of commands\n.SH SYNOPSIS\n"
    for command in commands { text += ".B ownedops \(Self.escaped(command.name))\n\(Self.escaped(command.operands)) [options]\n.br\n" }
    text += ".SH DESCRIPTION\nEach command tells its options and exit statuses with\n.BR \\-\\-help .\n"
    for command in commands {
      text += ".SH \"\(Self.escaped(command.name.uppercased()))\"\n\(Self.escaped(command.summary))\n"
      if !command.options.isEmpty { text += ".SS Options\n" }
      for option in command.options {
        let names = option.names.reversed().map { "\\fB\(Self.escaped($0))\\fR" }.joined(separator: ", ")
        let value = option.value.map { " \\fI\(Self.escaped($0))\\fR" } ?? ""
        text += ".TP\n\(names)\(value)\n\(Self.escaped(option.help))\n"
      }
      if !command.details.isEmpty { text += ".SS Details\n.nf\n\(Self.escaped(command.details))\n.fi\n" }
      if !command.examples.isEmpty { text += ".SS Examples\n.nf\n\(Self.escaped(command.examples.joined(separator: "\n")))\n.fi\n" }
    }
    return text
  }

  /// Nothing in it is a request, or a dash that is typeset as a hyphen.
  static func escaped(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      let text = line.reduce(into: "") { result, character in
        switch character {
        case "\\": result += "\\e"
        case "-": result += "\\-"
        case "'": result += "\\(aq"
        case "^": result += "\\(ha"
        case "~": result += "\\(ti"
        case "`": result += "\\(ga"
        default: result.append(character)
        }
      }
      return line.hasPrefix(".") ? "\\&" + text : text
    }.joined(separator: "\n")
  }
}
