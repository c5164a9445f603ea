/// What the command line asks for.
struct Options {
  var listsOnly = false
  var wantsHelp = false
  var isQuick = false
  var leavesHeap = false
  var isTogether = false
  var filters: [String] = []
  var json: JSONDestination?
  /// A single task to run, so many times, for other tools to look at.
  var probe: (name: String, count: Int)?
  /// A single benchmark to run for another process of this program, which is to find the results in the file.
  var part: (name: String, file: String)?

  enum JSONDestination {
    case standardOutput
    case file(String)
  }

  struct UsageError: Error, CustomStringConvertible {
    let description: String
  }

  static let help = """
    Measures OwnedOperations next to what else there is.

    Usage: benchmarks [options]

    Options:
      --list              list the benchmarks
      --filter TEXT       run those called TEXT, such as P1, or else those whose name contains it; may be repeated
      --quick             everything, but small: under two minutes, to see that it runs; targets are not judged
      --together          all in this process, each on what those before have left; otherwise each has a process of its own
      --untrimmed         let each sample begin with the heap as the one before has left it, its peer's
      --json [FILE]       write the results as JSON, to FILE beside the table, or to standard output instead of it
      --once NAME COUNT   only do one task COUNT times, for valgrind and the like; without NAME, list the tasks
      --part NAME FILE    what the program calls itself with: one benchmark, without a summary, results to FILE
      --help, -h          show this help

    """

  init(_ arguments: [String]) throws(UsageError) {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      switch argument {
      case "--list": listsOnly = true
      case "--help", "-h": wantsHelp = true
      case "--quick": isQuick = true
      case "--untrimmed": leavesHeap = true
      case "--together": isTogether = true
      case "--filter":
        guard let text = rest.popFirst(), !text.isEmpty else { throw UsageError(description: "--filter needs a text: --filter P1") }
        filters.append(text)
      case "--json":
        if let file = rest.first, !file.hasPrefix("-") {
          json = .file(file)
          rest.removeFirst()
        } else {
          json = .standardOutput
        }
      case "--once":
        guard let name = rest.popFirst() else { throw UsageError(description: "--once needs a task, one of:\n\(Probe.list)") }
        guard let text = rest.popFirst(), let count = Int(text), count > 0 else {
          throw UsageError(description: "--once \(name) needs a count above 0: --once \(name) 1000")
        }
        probe = (name, count)
      case "--part":
        guard let name = rest.popFirst(), let file = rest.popFirst() else {
          throw UsageError(description: "--part needs a benchmark and a file: --part P1-jobs results.json")
        }
        part = (name, file)
      default:
        guard argument.hasPrefix("-") else {
          throw UsageError(description: "unexpected \"\(argument)\"; to choose benchmarks, use --filter")
        }
        throw UsageError(description: "unknown option \(argument)")
      }
    }
  }

  /// For a process that runs a part.
  var forwarded: [String] { (isQuick ? ["--quick"] : []) + (leavesHeap ? ["--untrimmed"] : []) }
}
