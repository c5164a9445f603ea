import Foundation

/// The command line tool: `ownedops scan`, `run`, `graph`, `status`, and what is made of their tables.
public enum Tool {
  /// All that users see, in the order of the help.
  static let commands = [
    ScanOptions.syntax, RunOptions.syntax, AttachCommand.syntax, GraphCommand.syntax, StatusCommand.syntax, FetchOptions.syntax,
    ReferenceCommands.completionSyntax,
    ReferenceCommands.manualSyntax,
  ]

  /// Reads the process's arguments, does what they say, and ends the process.
  public static func main() -> Never {
    ChildProcess.rememberPriority()
    RawFile.openMissingStandardDescriptors()
    // What can't be written is an error that is told, not the end.
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    Interruption.endQuietlyOnQuit()
    // Arguments as they were given: `CommandLine.arguments` repairs what is not UTF-8.
    let count = Int(CommandLine.argc)
    let arguments = (1..<max(1, count)).compactMap { place in
      CommandLine.unsafeArgv[place].map { pointer in Array(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer))) }
    }
    exit(run(arguments))
  }

  static func run(_ arguments: [[UInt8]]) -> Int32 {
    let console = Console.shared
    var status: Int32
    do throws(UsageError) {
      status = try dispatch(arguments)
    } catch {
      console.note("ownedops: \(error)")
      return ExitStatus.badInput
    }
    if let failure = console.failure {
      // A reader that has seen enough is no news.
      if failure != EPIPE { console.note("ownedops: can't write to standard output: \(RawFile.message(failure))") }
      if status == ExitStatus.success { status = ExitStatus.failure }
    }
    return status
  }

  private static func dispatch(_ arguments: [[UInt8]]) throws(UsageError) -> Int32 {
    guard let first = arguments.first.map({ String(decoding: $0, as: UTF8.self) }) else {
      Console.shared.noteText(narrow(helpText, for: 2) + "\n")
      return ExitStatus.badInput
    }
    let rest = Array(arguments.dropFirst())
    switch first {
    case "scan": return try command(ScanOptions.syntax, rest) { arguments throws(UsageError) in try ScanCommand.run(arguments) }
    case "run": return try command(RunOptions.syntax, rest) { arguments throws(UsageError) in try RunCommand.run(arguments) }
    case "attach": return try command(AttachCommand.syntax, rest) { arguments throws(UsageError) in try AttachCommand.run(arguments) }
    case "graph": return try command(GraphCommand.syntax, rest) { arguments throws(UsageError) in try GraphCommand.run(arguments) }
    case "status": return try command(StatusCommand.syntax, rest) { arguments throws(UsageError) in try StatusCommand.run(arguments) }
    case "fetch": return try command(FetchOptions.syntax, rest) { arguments throws(UsageError) in try FetchCommand.run(arguments) }
    case "completion":
      return try command(ReferenceCommands.completionSyntax, rest) { arguments throws(UsageError) in
        try ReferenceCommands.complete(arguments, commands)
      }
    case "man":
      return try command(ReferenceCommands.manualSyntax, rest) { arguments throws(UsageError) in
        try ReferenceCommands.showManual(arguments, commands)
      }
    case ProcessGuard.command: return ProcessGuard.serve(rest.map { String(decoding: $0, as: UTF8.self) })
    case OutputSink.command: return OutputSink.serve()
    case SlurmWrapper.command: return SlurmWrapper.serve(rest.map { String(decoding: $0, as: UTF8.self) })
    case Keeper.command: return Keeper.serve(rest.map { String(decoding: $0, as: UTF8.self) })
    case "--version":
      Console.shared.write("ownedops \(ToolVersion.current)\n")
    case "--help", "-h":
      Console.shared.write(narrow(helpText, for: 1) + "\n")
    case "help":
      guard let topic = rest.first else {
        Console.shared.write(narrow(helpText, for: 1) + "\n")
        break
      }
      return try dispatch([topic, Array("--help".utf8)])
    default:
      let known = commands.map(\.name) + ["help", "--help", "--version"]
      let kind = first.hasPrefix("-") ? "option" : "command"
      throw UsageError("unknown \(kind) \(first)\(Suggestion.text(for: first, among: known)); see ownedops --help")
    }
    return ExitStatus.success
  }

  private static func command(
    _ syntax: CommandSyntax, _ arguments: [[UInt8]], _ body: (Arguments) throws(UsageError) -> Int32
  ) throws(UsageError) -> Int32 {
    let parsed = try Arguments(arguments, syntax: syntax)
    guard !parsed.wantsHelp else {
      Console.shared.write(syntax.helpText(width: Console.columns(of: 1)))
      return ExitStatus.success
    }
    return try body(parsed)
  }

  private static func narrow(_ text: String, for descriptor: Int32) -> String {
    NarrowText(width: Console.columns(of: descriptor)).wrapped(text)
  }

  private static let helpText = """
    Work that ends with its owner.

    Usage: ownedops <command> [options]

    Commands:
      scan [PATH ...]      find duplicate files
      run FILE [JOB ...]   run a graph of commands
      attach JOURNAL       go on with a run on a cluster
      graph FILE           draw a graph of commands
      status JOURNAL       say what a journal of run knows
      fetch URL ...        download files
      completion SHELL     print the completion for bash, zsh or fish
      man                  print the manual page

    Options:
      -h, --help           show this help; ownedops <command> --help shows more
      --version            show the version

    Example:
      ownedops scan ~/Pictures --budget 10s
    """
}
