import Foundation

/// Runs the scan on every engine, each in a process of its own, and puts the costs side by side.
struct ScanComparison {
  private let options: ScanOptions
  private let arguments: Arguments

  init(_ options: ScanOptions, _ arguments: Arguments) {
    self.options = options
    self.arguments = arguments
  }

  private struct Answer: Decodable {
    struct Group: Decodable, Equatable {
      struct File: Decodable, Equatable {
        let path: String
        let base64: String?
      }
      let size: Int
      let files: [File]
    }
    struct Run: Decodable {
      let seconds: Double
      let processorSeconds: Double
      let peakMemory: Int
      let jobs: JobCounts
      let endedBy: String?
    }
    let groups: [Group]
    let counts: Census.Tally
    let run: Run
  }

  func run() throws(UsageError) -> Int32 {
    let console = Console.shared
    let program = OutsideProgram()
    let interruption = Interruption { _, count in
      // Before the end, which may be the tool's: what has been said by then is written.
      if count == 1 { console.noteLater("ownedops: interrupted: waiting for the engine that runs to stop; once more kills it") }
      program.interrupt()
    }
    defer { console.finishNotes() }
    // The first reader pays for the disk; it is not counted.
    if !options.isQuiet { console.note("reading everything once, so that no engine finds a cold cache") }
    var answers: [(ScanOptions.EngineName, Answer)] = []
    for (place, engine) in ([.owned] + ScanOptions.EngineName.allCases).enumerated() {
      if place > 0, !options.isQuiet { console.note("running \(engine.rawValue)") }
      let output = try program.run(OwnProgram.path, command(engine)).output
      if let status = interruption.exitStatus { return status }
      guard let answer = try? JSONDecoder().decode(Answer.self, from: output) else {
        throw UsageError("--compare: the engine \(engine.rawValue) gave no answer")
      }
      if place > 0 { answers.append((engine, answer)) }
    }
    console.write(Self.table(answers.map(Self.row), width: Console.columns(of: 1)))
    if answers.contains(where: { $0.1.run.endedBy != nil }) {
      console.write("the budget ended some, so their answers are not complete\n")
      return ExitStatus.budgetUsedUp
    }
    let areEqual = answers.dropFirst().allSatisfy { $0.1.groups == answers[0].1.groups && $0.1.counts == answers[0].1.counts }
    let groups = Shown.count(answers[0].1.groups.count, "group")
    console.write(areEqual ? "same answer from all: \(groups) of duplicates\n" : "the answers differ; did files change meanwhile?\n")
    guard areEqual else { return ExitStatus.failure }
    return answers.contains { $0.1.counts.unreadable > 0 } ? ExitStatus.unreadable : ExitStatus.success
  }

  private static func row(_ engine: ScanOptions.EngineName, _ answer: Answer) -> [String] {
    let run = answer.run
    var row = [engine.rawValue, Shown.seconds(run.seconds), Shown.seconds(run.processorSeconds), Shown.bytes(run.peakMemory)]
    row.append(Shown.count(run.jobs.submitted))
    guard run.endedBy != nil else { return row + ["-", "-", "-", "-"] }
    row += [Shown.count(run.jobs.cancelled), Shown.count(run.jobs.startedAfterEnd)]
    row += [Shown.seconds(run.jobs.secondsAfterEnd), Shown.seconds(run.jobs.processorSecondsAfterEnd)]
    return row
  }

  /// An engine in each line; where the terminal is too narrow for that, in each column.
  static func table(_ rows: [[String]], width: Int) -> String {
    let head = ["engine", "time", "CPU", "peak memory", "jobs", "never run", "run after end", "time after end", "CPU after end"]
    let all = [head] + rows
    let wide = aligned(all)
    guard let first = wide.first, first.count > width else { return wide.joined(separator: "\n") + "\n" }
    return aligned(head.indices.map { column in all.map { $0[column] } }).joined(separator: "\n") + "\n"
  }

  private static func aligned(_ rows: [[String]]) -> [String] {
    let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + padding : padding + row[column]
      }.joined(separator: "  ")
    }
  }

  private func command(_ engine: ScanOptions.EngineName) -> [[UInt8]] {
    var command = [Array("scan".utf8), Array("--json".utf8), Array("--quiet".utf8), Array("--engine=\(engine.rawValue)".utf8)]
    for name in ["--budget", "--exclude", "--min-size", "--max-size", "--jobs"] {
      for value in arguments.values[name] ?? [] { command.append(Array("\(name)=".utf8) + value) }
    }
    if arguments.has("--one-file-system") { command.append(Array("--one-file-system".utf8)) }
    command.append(Array("--".utf8))
    return command + options.roots + options.givenFiles.flatMap { files in files.names.map { files.directory + $0 } }
  }
}
