import Foundation

/// Standard output and standard error. Each call's text comes out in one piece, whichever threads call. A reader that has gone is remembered, and ends
/// the writing, not the process.
final class Console: Sendable {
  static let shared = Console()

  private let outputError = Guarded<Int32?>(nil)
  private let progressIsShown = Guarded(false)

  let errorIsTerminal = isatty(2) == 1
  let usesColour: Bool

  private init() {
    let environment = ProcessInfo.processInfo.environment
    usesColour = isatty(1) == 1 && (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
  }

  /// The first error that writing to standard output met.
  var failure: Int32? { outputError.withLock { $0 } }

  func write(_ text: String) { write(Array(text.utf8)) }

  func write(_ bytes: [UInt8]) {
    outputError.withLock { error in
      guard error == nil else { return }
      error = RawFile.writeAll(bytes, to: 1)
    }
  }

  /// Text, then the rest of a file from its beginning, in one piece.
  func write(_ text: String, contentsOf file: Int32) {
    outputError.withLock { error in
      guard error == nil else { return }
      error = RawFile.writeAll(Array(text.utf8), to: 1) ?? RawFile.copyAll(from: file, to: 1, endsWithNewline: true)
    }
  }

  func note(_ line: String) {
    progressIsShown.withLock { isShown in
      let clear = isShown ? "\r\u{1b}[K" : ""
      isShown = false
      _ = RawFile.writeAll(Array((clear + line + "\n").utf8), to: 2)
    }
  }

  /// A line that the next one replaces; for terminals.
  func progress(_ line: String) {
    progressIsShown.withLock { isShown in
      isShown = true
      _ = RawFile.writeAll(Array("\r\u{1b}[K\(line)".utf8), to: 2)
    }
  }

  func clearProgress() {
    progressIsShown.withLock { isShown in
      guard isShown else { return }
      isShown = false
      _ = RawFile.writeAll(Array("\r\u{1b}[K".utf8), to: 2)
    }
  }

  func coloured(_ text: String, _ code: String) -> String { usesColour ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
}
