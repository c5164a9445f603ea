import Foundation

func say(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }

func fail(_ message: String, status: Int32) -> Never {
  FileHandle.standardError.write(Data("benchmarks: \(message)\n".utf8))
  exit(status)
}

let options: Options
do throws(Options.UsageError) {
  options = try Options(Array(CommandLine.arguments.dropFirst()))
} catch {
  fail("\(error); see --help", status: 2)
}

if options.wantsHelp {
  say(Options.help)
  exit(0)
}
if let (name, count) = options.probe {
  guard let probe = Probe.all.first(where: { $0.name == name }) else {
    fail("no task is called \(name); there are:\n\(Probe.list)", status: 2)
  }
  do {
    try probe.run(count)
  } catch {
    fail("\(name): \(error)", status: 1)
  }
  exit(0)
}

var chosen = Benchmark.all
if !options.filters.isEmpty {
  for filter in options.filters where Benchmark.matching(filter, among: chosen).isEmpty {
    fail("no benchmark's name contains \"\(filter)\"; see --list", status: 2)
  }
  let names = Set(options.filters.flatMap { Benchmark.matching($0, among: chosen).map(\.name) })
  chosen = chosen.filter { names.contains($0.name) }
}
if options.listsOnly {
  for benchmark in chosen { say(benchmark.name.padding(toLength: 19, withPad: " ", startingAt: 0) + benchmark.summary + "\n") }
  exit(0)
}

if case .file(let path) = options.json {
  // Now, and not when a quarter of an hour has been spent on what can't be kept.
  var isDirectory: ObjCBool = false
  let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
  let written = exists ? path : URL(fileURLWithPath: path).deletingLastPathComponent().path
  guard !isDirectory.boolValue, FileManager.default.isWritableFile(atPath: written) else {
    fail("--json: can't write to \(path): give the name of a file in a folder that is there and may be written to", status: 2)
  }
}

let machine = Machine.current

/// All that the session has, for `command`.
func report(_ session: Session, _ command: [String]) throws -> Data {
  try Report(
    date: ISO8601DateFormatter().string(from: Date()), command: (["benchmarks"] + command).joined(separator: " "), isQuick: options.isQuick,
    machine: machine, measurements: session.measurements, skipped: session.skipped
  ).json()
}

if let (name, file) = options.part {
  guard let benchmark = Benchmark.all.first(where: { $0.name == name }) else {
    fail("no benchmark is called \(name); see --list", status: 2)
  }
  let session = Session(isQuick: options.isQuick, table: ResultTable(isQuick: options.isQuick), trims: !options.leavesHeap)
  var failure: (any Error)?
  do { try session.run(benchmark) } catch { failure = error }
  do { try report(session, options.forwarded).write(to: URL(fileURLWithPath: file)) } catch {
    fail("can't write to \(file): \(error.localizedDescription)", status: 1)
  }
  if let failure { fail("\(name): \(failure)", status: 1) }
  exit(0)
}

var table: ResultTable? = ResultTable(isQuick: options.isQuick)
if case .standardOutput = options.json { table = nil }
if table != nil { say(machine.summary + "\n") }

let session = Session(isQuick: options.isQuick, table: table, trims: !options.leavesHeap)
var failures: [String] = []
for benchmark in chosen {
  if options.isTogether || chosen.count == 1 {
    do { try session.run(benchmark) } catch { failures.append("\(benchmark.name): \(error)") }
  } else {
    let part = BenchmarkProcess.run(benchmark, options, isShown: table != nil)
    if let report = part.report { session.take(report) }
    if let failure = part.failure { failures.append("\(benchmark.name): \(failure)") }
  }
}
table?.finish(session)

if let destination = options.json {
  do {
    let json = try report(session, Array(CommandLine.arguments.dropFirst()))
    switch destination {
    case .standardOutput: FileHandle.standardOutput.write(json)
    case .file(let path): try json.write(to: URL(fileURLWithPath: path))
    }
  } catch {
    fail("can't write the results: \(error.localizedDescription)", status: 1)
  }
}
if !failures.isEmpty { fail(failures.joined(separator: "\nbenchmarks: "), status: 1) }
