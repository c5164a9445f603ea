import Foundation

/// The command line tool: `ownedops scan`, `ownedops run`, `ownedops graph`.
public enum Tool {
  static let version = "1.0.0"

  /// What the process ends with.
  enum ExitStatus {
    static let success: Int32 = 0
    static let failure: Int32 = 1
    static let badInput: Int32 = 2
  }

  /// Reads the process's arguments, does what they say, and ends the process.
  public static func main() -> Never {
    RawFile.openMissingStandardDescriptors()
    signal(SIGPIPE, SIG_IGN)
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
      Console.shared.note(helpText)
      return ExitStatus.badInput
    }
    let rest = Array(arguments.dropFirst())
    switch first {
    case "scan": return try command(ScanOptions.syntax, rest) { arguments throws(UsageError) in try ScanCommand.run(arguments) }
    case "run": return try command(RunOptions.syntax, rest) { arguments throws(UsageError) in try RunCommand.run(arguments) }
    case "graph": return try command(GraphCommand.syntax, rest) { arguments throws(UsageError) in try GraphCommand.run(arguments) }
    case ProcessGuard.command: return ProcessGuard.serve(rest.first.map { String(decoding: $0, as: UTF8.self) } ?? "")
    case "--version":
      Console.shared.write("ownedops \(version)\n")
    case "--help", "-h":
      Console.shared.write(helpText + "\n")
    case "help":
      guard let topic = rest.first else {
        Console.shared.write(helpText + "\n")
        break
      }
      return try dispatch([topic, Array("--help".utf8)])
    default:
      let known = ["scan", "run", "graph", "help", "--help", "--version"]
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
      Console.shared.write(syntax.helpText)
      return ExitStatus.success
    }
    return try body(parsed)
  }

  private static let helpText = """
    Work that ends with its owner.

    Usage: ownedops <command> [options]

    Commands:
      scan [DIR ...]   find duplicate files
      run FILE         run a graph of commands
      graph FILE       draw a graph of commands

    Options:
      -h, --help       show this help; ownedops <command> --help shows more
      --version        show the version

    Example:
      ownedops scan ~/Pictures --budget 10s
    """
}
