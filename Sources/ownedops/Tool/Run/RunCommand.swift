import Foundation
import OwnedOperations

struct RunOptions: Sendable {
  var file = ""
  var jobs = max(1, ProcessInfo.processInfo.activeProcessorCount)
  var keepsGoing = false
  var grace = Duration.seconds(5)
  var logDirectory: String?
  var isQuiet = false
  var pictures = PictureOptions()

  static let syntax = CommandSyntax(
    name: "run", operands: "FILE", summary: "Runs a graph of commands from a JSON file; - reads standard input.",
    options: [
      .init(names: ["--jobs", "-j"], value: "N", help: "commands at a time (default: as many as there are processors)"),
      .init(names: ["--keep-going", "-k"], help: "after a failure, go on with what does not depend on it"),
      .init(names: ["--grace"], value: "TIME", help: "how long a command has from SIGTERM to SIGKILL (default: 5s)"),
      .init(names: ["--log-dir"], value: "DIR", help: "also write the output of each job to a file there"),
      .init(names: ["--quiet", "-q"], help: "show only jobs that do not succeed"),
      .init(names: ["--timeline"], value: "FILE", help: "draw an SVG picture of what ran when"),
      .init(names: ["--trace"], value: "FILE", help: "write Chrome trace events, for ui.perfetto.dev"),
    ],
    details: """
      The file:
        { "owners": [ { "name": "site", "maxConcurrent": 2 },
                      { "name": "preview", "parent": "site", "endsWhen": { "process": 4242 } } ],
          "jobs": [ { "name": "fetch", "owner": "site", "command": ["cp", "-r", "in", "work"] },
                    { "name": "render", "owner": "preview", "after": ["fetch"], "command": ["sh", "-c", "make html"],
                      "priority": "high", "directory": "work", "environment": { "LANG": "C" }, "timeout": "30s", "retries": 1 } ] }

      "endsWhen" is { "process": PID }, { "fileRemoved": PATH } or { "after": TIME }. When an owner ends, its pending jobs are cancelled and its
      running commands get SIGTERM, then SIGKILL. "maxConcurrent" counts the owner's own jobs. A "timeout" is for all attempts of a job
      together. What a command leaves running in the background ends with it. Output is shown whole when a job ends.

      Exit status: 0 all succeeded, 1 some failed or were cancelled, 2 bad input, 130 interrupted.
      """,
    examples: ["ownedops run build.json --jobs 4 --keep-going", "generate-jobs | ownedops run - --log-dir logs"])

  init(_ arguments: Arguments) throws(UsageError) {
    file = try Self.file(arguments, command: "run")
    jobs = try arguments.positiveInteger("--jobs") ?? jobs
    keepsGoing = arguments.has("--keep-going")
    grace = try arguments.duration("--grace") ?? grace
    logDirectory = arguments.text("--log-dir")
    isQuiet = arguments.has("--quiet")
    pictures = PictureOptions(arguments)
  }

  static func file(_ arguments: Arguments, command: String) throws(UsageError) -> String {
    guard arguments.operands.count == 1 else {
      throw UsageError("\(command): give one FILE, or - for standard input; see ownedops \(command) --help")
    }
    return String(decoding: arguments.operands[0], as: UTF8.self)
  }
}

enum RunCommand {
  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let options = try RunOptions(arguments)
    let session = try RunSession(RunFile(path: options.file), options)
    let interruption = Interruption { _, count in
      DispatchQueue.global(qos: .userInitiated).async { session.interrupt(again: count > 1) }
    }
    let summary = session.run()
    let hasPictures = options.pictures.write(session.recorder)
    Console.shared.write(summary.line)
    if let status = interruption.exitStatus { return status }
    return summary.isSuccess && hasPictures ? Tool.ExitStatus.success : Tool.ExitStatus.failure
  }
}
