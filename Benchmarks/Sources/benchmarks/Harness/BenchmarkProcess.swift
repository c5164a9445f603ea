import Foundation

/// A process of this program that runs one benchmark: what others have left, threads, queues, memory that malloc keeps, is not measured.
enum BenchmarkProcess {
  /// The benchmark was not run to its end.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// Shows the results as they come, on this program's standard output.
  /// - Parameter isShown: false: shows nothing.
  /// - Returns: what has been measured, up to a failure as well.
  static func run(_ benchmark: Benchmark, _ options: Options, isShown: Bool) -> (report: Report?, failure: Failure?) {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("benchmarks-\(UUID().uuidString).json")
    defer { try? FileManager.default.removeItem(at: file) }
    let process = Process()
    process.executableURL = ProbeProcess.program
    process.arguments = options.forwarded + ["--part", benchmark.name, file.path]
    if !isShown { process.standardOutput = FileHandle.nullDevice }
    do { try ChildProcess.start(process) } catch {
      return (nil, Failure(description: "can't start a process: \(error.localizedDescription)"))
    }
    ChildProcess.wait(for: process)
    let report = (try? Data(contentsOf: file)).flatMap { try? JSONDecoder().decode(Report.self, from: $0) }
    switch (process.terminationReason, process.terminationStatus) {
    case (.exit, 0): return (report, report == nil ? Failure(description: "its process has left no results") : nil)
    case (.exit, let status): return (report, Failure(description: "its process has ended with status \(status), see above"))
    case (_, let signal): return (report, Failure(description: "its process was ended by signal \(signal)"))
    }
  }
}
