import Foundation

/// `--results`: what has become of every job, for programs. See `Documentation/JSON.md`.
final class JobResults: Sendable {
  /// One start of a job's command.
  struct Attempt: Encodable, Sendable {
    /// In seconds since 1970.
    let begin: Double
    let end: Double
    let exitStatus: Int32?
    let signal: Int32?
    let userSeconds: Double?
    let systemSeconds: Double?
    /// In bytes; nil if it was no more than what the tool itself had, which the system counts, too.
    let peakMemory: Int?

    init(begin: Double, _ end: CommandEnd) {
      self.begin = begin
      self.end = JobResults.now
      let usage: ProcessUsage?
      switch end {
      case .exited(.status(let status), let used): (exitStatus, signal, usage) = (status, nil, used)
      case .exited(.signal(let number), let used): (exitStatus, signal, usage) = (nil, number, used)
      case .unknown: (exitStatus, signal, usage) = (nil, nil, nil)
      }
      userSeconds = usage?.userSeconds
      systemSeconds = usage?.systemSeconds
      peakMemory = usage.flatMap { $0.peakMemory > ProcessCost.now.peakMemory ? $0.peakMemory : nil }
    }
  }

  struct Job: Encodable {
    let name: String
    let owner: String?
    let command: [String]
    let directory: String?
    let result: String
    let reason: String?
    /// True if the journal knew that it had; else left out.
    let succeededBefore: Bool?
    let seconds: Double?
    let attempts: [Attempt]
  }

  private struct Totals: Encodable {
    let version: Int
    let begin: Double
    let end: Double
    let succeeded: Int
    let failed: Int
    let cancelled: Int
  }

  private let file: PictureFiles.File
  private let begin = JobResults.now
  private let attempts = Guarded<[Int: [Attempt]]>([:])

  /// Opens the file before anything runs, so that a path that can't be written is known then.
  init(path: String, apartFrom others: [String]) throws(UsageError) {
    var taken: [(identity: FileIdentity, name: String)] = []
    file = try PictureFiles.open(path, "--results", &taken, apartFrom: others)
  }

  deinit { close(file.descriptor) }

  static var now: Double { Date().timeIntervalSince1970 }

  func add(_ attempt: Attempt, to place: Int) { attempts.withLock { $0[place, default: []].append(attempt) } }

  func attempts(of place: Int) -> [Attempt] { attempts.withLock { $0[place] ?? [] } }

  /// - Parameter jobs: in the order of the file, made one by one.
  /// - Returns: false if that failed, which has been said.
  func write(_ summary: RunSummary, _ jobs: some Sequence<Job>) -> Bool {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let totals = Totals(
      version: 1, begin: begin, end: Self.now, succeeded: summary.succeeded, failed: summary.failed.count, cancelled: summary.cancelled)
    guard var text = try? encoder.encode(totals) else { return false }
    // A job a line, so that the whole is never there but as text.
    text.removeLast()
    text += Data(",\"jobs\":[".utf8)
    var isFirst = true
    for job in jobs {
      guard let line = try? encoder.encode(job) else { return false }
      text += Data((isFirst ? "\n" : ",\n").utf8) + line
      isFirst = false
    }
    text += Data("\n]}\n".utf8)
    return PictureFiles.write(Array(text), to: file)
  }
}
