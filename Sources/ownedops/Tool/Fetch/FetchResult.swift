import Foundation
import OwnedRequests

/// What came of one file.
struct FetchOutcome: Sendable {
  enum Kind: Sendable {
    case fetched, kept, cancelled
    case failed(String)

    var recorded: JobRecorder.Outcome {
      switch self {
      case .fetched, .kept: .succeeded
      case .failed: .failed
      case .cancelled: .cancelled
      }
    }

    var name: String {
      switch self {
      case .fetched: "fetched"
      case .kept: "kept"
      case .cancelled: "cancelled"
      case .failed: "failed"
      }
    }
  }

  var kind: Kind
  /// Of the whole file.
  var bytes = 0
  /// Of what has come so far, for the next run.
  var bytesKept: Int?
  var isResumed = false
  /// Known of what was fetched.
  var attempts: Int?
  var status: Int?
  /// Nil if it never began.
  var seconds: Double?
  /// If it is another than was planned.
  var path: String?

  init(kind: Kind, bytes: Int = 0) {
    self.kind = kind
    self.bytes = bytes
  }

  /// Nil if there is nothing to be said now.
  func line(_ item: FetchItem, isQuiet: Bool) -> String? {
    let console = Console.shared
    let name = Array((path ?? item.path).utf8).escapedName
    let time = seconds.map { ", \(Shown.seconds($0))" } ?? ""
    let rest = bytesKept.map { "; \(Shown.bytes($0)) of it kept" } ?? ""
    switch kind {
    case .fetched:
      return isQuiet ? nil : "\(console.coloured("fetched", "32")) \(name) (\(Shown.bytes(bytes))\(time)\(isResumed ? ", resumed" : ""))\n"
    case .failed(let reason):
      return "\(console.coloured("failed", "31")) \(name): \(item.shownURL.controlsEscaped): \(reason.controlsEscaped)\(rest)\n"
    case .cancelled where seconds != nil:
      return isQuiet ? nil : "\(console.coloured("cancelled", "33")) \(name)\(rest)\n"
    case .kept, .cancelled: return nil
    }
  }
}

enum FetchFailure {
  static func text(_ error: any Error) -> String {
    guard case RequestError.transport(let error) = error else {
      if case RequestError.status(let status, _) = error { return "the server answered with status \(status)" }
      return "\(error)"
    }
    return switch error.code {
    case .cannotFindHost, .dnsLookupFailed: "there is no such host"
    case .cannotConnectToHost: "can't connect"
    case .networkConnectionLost, .notConnectedToInternet: "the connection broke"
    case .badURL, .unsupportedURL: "that is not a URL that URLSession can use"
    case .httpTooManyRedirects: "more than ten redirects"
    case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasUnknownRoot, .serverCertificateHasBadDate,
      .serverCertificateNotYetValid:
      "the server's certificate is not trusted; is ca-certificates installed?"
    case .unknown: "the connection broke, or the answer was not HTTP"
    default: error.localizedDescription
    }
  }
}

/// What came of all.
struct FetchResult: Sendable {
  let items: [FetchItem]
  let outcomes: [FetchOutcome]
  let repetitions: Int
  let seconds: Double
  /// Why the owners were ended.
  let endReason: String?

  private func count(_ name: String) -> Int { outcomes.count { $0.kind.name == name } }

  var isComplete: Bool { outcomes.allSatisfy { $0.kind.name == "fetched" || $0.kind.name == "kept" } }

  func write(to console: Console, isQuiet: Bool) {
    let fetched = outcomes.filter { $0.kind.name == "fetched" }
    let bytes = fetched.reduce(0) { $0 + $1.bytes }
    let speed = fetched.isEmpty ? "" : " (\(Shown.bytes(bytes)) in \(Shown.seconds(seconds)))"
    var line = "\(Shown.count(fetched.count)) fetched\(speed)"
    if count("kept") > 0 { line += ", \(Shown.count(count("kept"))) there already" }
    line += ", \(Shown.count(count("failed"))) failed, \(Shown.count(count("cancelled"))) cancelled"
    if repetitions > 0 { line += "; \(Shown.count(repetitions, "URL")) given more than once" }
    if isQuiet, isComplete { return }
    if let endReason, !isComplete {
      let parts = outcomes.count { $0.bytesKept != nil }
      line += "\n\(endReason): the owners ended\(parts > 0 ? "; the same command goes on with \(Shown.count(parts, "part"))" : "")"
    }
    console.write(line + "\n")
  }

  // MARK: JSON

  private struct Document: Encodable {
    struct File: Encodable {
      let url: String
      let path: String
      let outcome: String
      let error: String?
      let bytes: Int?
      let bytesKept: Int?
      let isResumed: Bool
      let attempts: Int?
      let status: Int?
      let seconds: Double?
    }

    struct Run: Encodable {
      let seconds: Double
      let processorSeconds: Double
      let peakMemory: Int
      let endedBy: String?
    }

    let files: [File]
    let counts: [String: Int]
    let run: Run
  }

  /// - Returns: false if that failed, which has been said.
  func writeJSON(to console: Console) -> Bool {
    let cost = ProcessCost.now
    let document = Document(
      files: zip(items, outcomes).map { item, outcome in
        var error: String?
        if case .failed(let reason) = outcome.kind { error = reason }
        let isWhole = outcome.kind.name == "fetched" || outcome.kind.name == "kept"
        return Document.File(
          url: item.shownURL, path: outcome.path ?? item.path, outcome: outcome.kind.name, error: error,
          bytes: isWhole ? outcome.bytes : nil,
          bytesKept: outcome.bytesKept, isResumed: outcome.isResumed, attempts: outcome.attempts, status: outcome.status,
          seconds: outcome.seconds)
      },
      counts: Dictionary(uniqueKeysWithValues: ["fetched", "kept", "failed", "cancelled"].map { ($0, count($0)) }),
      run: Document.Run(
        seconds: seconds, processorSeconds: cost.processorTime, peakMemory: cost.peakMemory, endedBy: isComplete ? nil : endReason))
    return console.writeJSON(of: document)
  }
}
