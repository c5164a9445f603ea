import Dispatch
import Foundation

/// Standard output and standard error. Each call's text comes out in one piece, whichever threads call. A reader that has gone is
/// remembered, and ends the writing, not the process. A call blocks as long as its reader doesn't read.
final class Console: Sendable {
  static let shared = Console()

  private let outputError = Guarded<Int32?>(nil)
  private struct Progress {
    var isShown = false
    /// How many write to standard output, where that is a terminal. No progress line is shown in the midst of that.
    var writers = 0
  }

  private let progressState = Guarded(Progress())
  private let later = DispatchQueue(label: "ownedops.notes")
  private let notes = DispatchGroup()

  let errorIsTerminal = isatty(2) == 1
  private let outputIsTerminal = isatty(1) == 1
  let usesColour: Bool

  private init() {
    let environment = ProcessInfo.processInfo.environment
    usesColour = isatty(1) == 1 && (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
  }

  /// The first error that writing to standard output met.
  var failure: Int32? { outputError.withLock { $0 } }

  func write(_ text: String) { write(Array(text.utf8)) }

  func write(_ bytes: [UInt8]) {
    writeInOnePiece { RawFile.writeAll(bytes, to: $0) }
  }

  /// Several writes in one piece.
  /// - Parameter body: gets what writes; it returns the error, or nil.
  func writeInOnePiece(_ body: (_ descriptor: Int32) -> Int32?) {
    let showsProgress = outputIsTerminal && errorIsTerminal
    if showsProgress { progressState.withLock { Self.clear(&$0, writers: 1) } }
    defer { if showsProgress { progressState.withLock { $0.writers -= 1 } } }
    outputError.withLock { error in
      guard error == nil else { return }
      error = body(1)
    }
  }

  /// A result, for other programs.
  /// - Returns: false if no JSON can be made of it, which has been said.
  func writeJSON(of result: some Encodable) -> Bool {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    do {
      write(Array(try encoder.encode(result)) + [UInt8(ascii: "\n")])
      return true
    } catch {
      note("ownedops: can't make JSON of the result: \(error)")
      return false
    }
  }

  private static func clear(_ progress: inout Progress, writers: Int) {
    if progress.isShown { _ = RawFile.writeAll(Array("\r\u{1b}[K".utf8), to: 2) }
    progress.isShown = false
    progress.writers += writers
  }

  /// A message: one line, whatever is in it.
  func note(_ line: String) { noteText(line.controlsEscaped + "\n") }

  /// The same, for who can't wait for its reader. Such messages come in the order of the calls.
  func noteLater(_ line: String) { later.async(group: notes) { [self] in note(line) } }

  /// Waits until what was said with ``noteLater(_:)`` has been written, but not for ever: whoever reads it may not.
  func finishNotes() { waitForReader(of: notes) }

  /// Waits for calls that write to standard error: for a second if that takes nothing, and longer if it does, since the machine is slow
  /// then, and not the reader.
  func waitForReader(of writes: DispatchGroup) {
    for _ in 0..<30 {
      guard writes.wait(timeout: .now() + 1) == .timedOut, errorTakesMore else { return }
    }
  }

  private var errorTakesMore: Bool {
    var entry = pollfd(fd: 2, events: Int16(POLLOUT), revents: 0)
    return poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLOUT) != 0
  }

  /// Text of several lines for standard error, as it is.
  func noteText(_ text: String) {
    progressState.withLock { progress in
      let clear = progress.isShown ? "\r\u{1b}[K" : ""
      progress.isShown = false
      _ = RawFile.writeAll(Array((clear + text).utf8), to: 2)
    }
  }

  /// A line that the next one replaces; for terminals. Cut where the terminal would go on in the next line, which nothing would wipe out.
  func progress(_ line: String) {
    let width = Self.columns(of: 2)
    let shown = line.columns < width ? line : line.prefix(columns: max(width - 1, 0))
    progressState.withLock { progress in
      guard progress.writers == 0 else { return }
      progress.isShown = true
      _ = RawFile.writeAll(Array("\r\u{1b}[K\(shown)".utf8), to: 2)
    }
  }

  func clearProgress() {
    progressState.withLock { Self.clear(&$0, writers: 0) }
  }

  /// Ends the process at once, with no line left that the next one would have replaced. Who doesn't read is not waited for: who writes
  /// to a terminal that takes no more holds the lock.
  func exitAtOnce(_ status: Int32) -> Never {
    if errorTakesMore { progressState.withLock { Self.clear(&$0, writers: 1) } }
    _exit(status)
  }

  func coloured(_ text: String, _ code: String) -> String { usesColour ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }

  /// How wide a terminal is; `Int.max` for what is none, or does not tell.
  static func columns(of descriptor: Int32) -> Int {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return .max }
    return Int(size.ws_col)
  }
}
