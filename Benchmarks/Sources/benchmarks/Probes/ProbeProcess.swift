import Foundation

/// A process of this program that does one task.
enum ProbeProcess {
  static let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
  private static let valgrind = URL(fileURLWithPath: "/usr/bin/valgrind")
  private static let strip = URL(fileURLWithPath: "/usr/bin/strip")

  /// What each of `count` things takes, as the task says in its output.
  static func memory(_ probe: String, count: Int) throws -> MemoryFootprint {
    _ = try MemoryFootprint.current()
    let output = try run(program, ["--once", probe, "\(count)"])
    return try JSONDecoder().decode(MemoryFootprint.self, from: output)
  }

  /// What a download cost, as the task says in its output.
  static func download(_ probe: String, count: Int) throws -> DownloadCost {
    try JSONDecoder().decode(DownloadCost.self, from: try run(program, ["--once", probe, "\(count)"]))
  }

  /// Instructions of all threads for each repetition of the task: the difference between many and few.
  static func instructions(_ probe: String, count: Int) throws -> Double {
    try difference(probe, count: count) { count in
      let log = try valgrind(["--tool=callgrind", "--callgrind-out-file=/dev/null"], probe: probe, count: count)
      return try number(after: "Collected :", in: log)
    }
  }

  /// Calls of malloc and its like for each repetition of the task: the difference between many and few.
  static func allocations(_ probe: String, count: Int) throws -> Double {
    try difference(probe, count: count) { count in
      let log = try valgrind(["--tool=memcheck", "--leak-check=no", "--undef-value-errors=no"], probe: probe, count: count)
      return try number(after: "total heap usage:", in: log)
    }
  }

  private static func difference(_ probe: String, count: Int, _ measure: (Int) throws -> Double) throws -> Double {
    (try measure(3 * count) - measure(count)) / Double(2 * count)
  }

  private static func valgrind(_ arguments: [String], probe: String, count: Int) throws -> String {
    for tool in [valgrind, strip] where !FileManager.default.isExecutableFile(atPath: tool.path) {
      throw MissingRequirement(description: "needs \(tool.path)")
    }
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("benchmarks-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: directory) }
    // Without what Swift says to debuggers, which valgrind may fail to read.
    let stripped = directory.appendingPathComponent("benchmarks")
    _ = try run(strip, ["--strip-debug", "-o", stripped.path, program.path])
    let log = directory.appendingPathComponent("log")
    do {
      _ = try run(valgrind, arguments + ["--log-file=\(log.path)", stripped.path, "--once", probe, "\(count)"])
    } catch let error as WrongResult {
      throw MissingRequirement(description: "valgrind can't run this program here (\(error))")
    }
    return try String(contentsOf: log, encoding: .utf8)
  }

  /// The first number that follows the words, commas left out.
  private static func number(after words: String, in text: String) throws -> Double {
    guard let range = text.range(of: words),
      let number = Double(text[range.upperBound...].drop { $0 == " " }.prefix { $0.isNumber || $0 == "," }.filter { $0 != "," })
    else { throw WrongResult(description: "no \"\(words)\" in what valgrind says:\n\(text)") }
    return number
  }

  private static func run(_ program: URL, _ arguments: [String]) throws -> Data {
    let process = Process()
    let output = Pipe()
    process.executableURL = program
    process.arguments = arguments
    process.standardOutput = output
    try ChildProcess.start(process)
    let data = output.fileHandleForReading.readDataToEndOfFile()
    ChildProcess.wait(for: process)
    let command = "\(program.lastPathComponent) \(arguments.joined(separator: " "))"
    try WrongResult.check(Int(process.terminationStatus), is: 0, "status of \(command)")
    return data
  }
}
