import Foundation

/// `ownedops status`: what a journal says.
enum StatusCommand {
  static let syntax = CommandSyntax(
    name: "status", operands: "JOURNAL", summary: "Says what a journal of ownedops run knows; works while a run is at it.",
    options: [.init(names: ["--json"], help: "as JSON")] + PictureOptions.syntax,
    details: """
      Shown are how many jobs have come how far, who is at work, what runs, what failed with the end of its output, what was cancelled, and
      what waits for what. Of each at most \(StatusReport.mostShown) are shown; --json shows all.

      The JSON is one object: "version" (1), "graph", "counts" by state, "runners", and "jobs" in the order of the graph, each with "name",
      "state" (waiting, submitted, running, exited, succeeded, failed, cancelled), and where known "owner", "when" (always), "attempt", "process", "status"
      or "signal", "reason", "output", "submitted", "started", "ended" (seconds since 1970), "waitsFor".

      The pictures show the last attempt at each job, with dependency arrows in the trace.

      Exit status: 0 all has succeeded; 1 not, or something could not be written; 2 bad input, or no journal.
      """, examples: ["ownedops status build.journal", "ownedops status build.journal --trace trace.json"],
    completion: .files)

  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    guard arguments.operands.count == 1 else { throw UsageError("status: give one JOURNAL; see ownedops status --help") }
    let path = String(decoding: arguments.operands[0], as: UTF8.self)
    let journal = try JournalReader.read(path)
    let pictures = try PictureFiles(PictureOptions(arguments), apartFrom: [path])
    let report = StatusReport(journal)
    Console.shared.write(arguments.has("--json") ? report.json : report.text)
    pictures.recorder?.replace(with: JournalPicture.record(of: journal))
    guard pictures.write() else { return ExitStatus.failure }
    return journal.jobs.allSatisfy(\.hasSucceeded) ? ExitStatus.success : ExitStatus.failure
  }
}
