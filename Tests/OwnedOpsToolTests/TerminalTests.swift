import Foundation
import Testing

@testable import OwnedOpsTool

/// What is shown on a terminal, and what elsewhere.
@Suite(.timeLimit(.minutes(1)))
struct TerminalTests {
  /// A line that was begun by wiping out the one before.
  private let rewrite = "\r\u{1b}[K"

  /// Minutes of comparing.
  private func endlessTree() throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    for name in ["a", "b"] { try directory.writeSparse(name, size: 1 << 40) }
    return directory
  }

  @Test func aTerminalGetsOneLineThatIsRewritten() async throws {
    let directory = try endlessTree()
    defer { directory.remove() }
    // Interrupted when the line has been rewritten, however long that takes.
    let isInterrupted = Guarded(false)
    let (status, shown) = try await Terminal.run(["scan"], on: 2, in: directory) { shown, process in
      guard shown.components(separatedBy: rewrite).count > 3, shown.contains("comparing:") else { return }
      let isFirst = isInterrupted.withLock { isInterrupted in
        defer { isInterrupted = true }
        return !isInterrupted
      }
      if isFirst { kill(process, SIGINT) }
    }
    #expect(status == 130)
    // Then one line of text, which tells what Ctrl-C has done; whatever is rewritten after it is wiped out as well.
    let note = "ownedops: interrupted: waiting for the jobs at work to stop, then showing what was found; once more ends at once\r\n"
    #expect(shown.components(separatedBy: note).count == 2)
    let lines = shown.replacingOccurrences(of: note, with: "").components(separatedBy: rewrite)
    #expect(lines.first == "")
    #expect(lines.last == "", "the line is wiped out at the end")
    #expect(lines.allSatisfy { $0.isEmpty || $0.hasPrefix("listing: ") || $0.hasPrefix("comparing: ") })
    #expect(lines.contains { $0.hasPrefix("comparing: ") && $0.hasSuffix(" of 2 files read, 0 groups of duplicates") })
    #expect(shown.utf8.count { $0 == UInt8(ascii: "\n") } == 1)
  }

  @Test func whoEndsAtOnceLeavesNoLineBehind() async throws {
    let directory = try endlessTree()
    defer { directory.remove() }
    let (status, shown) = try await Terminal.run(["scan"], on: 2, in: directory) { shown, process in
      guard shown.contains("comparing:") else { return }
      // Two signals of the same number that come together may be one.
      kill(process, SIGINT)
      kill(process, SIGTERM)
    }
    #expect(status == 130 || status == 143)
    #expect(shown.hasSuffix(rewrite) || shown.hasSuffix("\r\n"))
  }

  @Test func aNarrowTerminalGetsNoLineThatItWouldBreak() async throws {
    let directory = try endlessTree()
    defer { directory.remove() }
    let (status, shown) = try await Terminal.run(["scan"], on: 2, in: directory, columns: 20) { shown, process in
      if shown.components(separatedBy: rewrite).count > 3, shown.contains("comparing:") { kill(process, SIGKILL) }
    }
    #expect(status == -SIGKILL)
    let lines = shown.components(separatedBy: rewrite)
    #expect(lines.allSatisfy { $0.count < 20 })
    #expect(lines.contains { $0.hasPrefix("comparing: ") && $0.count == 19 })
  }

  @Test func helpIsBrokenBetweenWordsOnANarrowTerminal() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let shown = try await Terminal.run(["run", "--help"], on: 1, in: directory, columns: 60) { _, _ in }.shown
    let lines = shown.split(whereSeparator: \.isNewline).map(String.init)
    let text = lines.prefix { !$0.hasPrefix("Example") }
    #expect(text.allSatisfy { $0.count <= 60 }, "\(text.first { $0.count > 60 } ?? "")")
    #expect(lines.contains { $0.hasPrefix("  -j, --jobs N") })
    let plain = try await ToolBinary.run(["run", "--help"], in: directory).output
    func words(_ text: String) -> [Substring] { text.split(whereSeparator: \.isWhitespace) }
    #expect(words(shown) == words(plain))
  }

  @Test func aTableThatIsTooWideForTheTerminalIsTurned() {
    let rows = [["owned", "0.69 s", "1.16 s", "96.2 MB", "43,837", "1", "2", "3", "4"]]
    let wide = ScanComparison.table(rows, width: 140)
    #expect(wide.split(separator: "\n").count == 2)
    let narrow = ScanComparison.table(rows, width: 60).split(separator: "\n")
    #expect(narrow.count == 9)
    #expect(narrow.first == "engine            owned")
    #expect(narrow.allSatisfy { $0.count <= 60 })
  }

  @Test func aTerminalGetsNothingIfQuiet() async throws {
    let directory = try endlessTree()
    defer { directory.remove() }
    // Long enough for some lines, if there were any.
    let (status, shown) = try await Terminal.run(["scan", "--quiet", "--budget", "350ms"], on: 2, in: directory) { _, _ in }
    #expect(status == 3)
    #expect(shown == "")
  }

  @Test func aPipeGetsPlainLines() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a", "b", "c/d"] { try directory.write(name, "same") }
    let plain = try await ToolBinary.shell("{ \"$OWNEDOPS\" scan >/dev/null; } 2>&1 | cat", in: directory)
    #expect(plain.output == "listed 3 files in 2 directories\n3 files to be compared\n")
    let quiet = try await ToolBinary.shell("{ \"$OWNEDOPS\" scan -q >/dev/null; } 2>&1 | cat", in: directory)
    #expect(quiet.output == "")
  }

  @Test func coloursAreForTerminalsThatMayHaveThem() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", #"{"jobs":[{"name":"a","command":["true"]}]}"#)
    let green = "\u{1b}[32msucceeded\u{1b}[0m a"
    func shown(_ environment: [String: String]) async throws -> String {
      try await Terminal.run(["run", "jobs.json"], on: 1, in: directory, environment: environment) { _, _ in }.shown
    }
    #expect(try await shown(["TERM": "xterm", "NO_COLOR": ""]).contains(green))
    for environment in [["TERM": "xterm", "NO_COLOR": "1"], ["TERM": "dumb", "NO_COLOR": ""]] {
      let plain = try await shown(environment)
      #expect(plain.contains("succeeded a"))
      #expect(!plain.contains("\u{1b}"))
    }
    #expect(!(try await ToolBinary.run(["run", "jobs.json"], in: directory, environment: ["TERM": "xterm"]).output.contains("\u{1b}")))
  }
}

/// A pseudo terminal with the executable on it.
enum Terminal {
  private typealias OpenTerminal =
    @convention(c) (
      UnsafeMutablePointer<Int32>, UnsafeMutablePointer<Int32>, UnsafeMutableRawPointer?, UnsafeRawPointer?, UnsafeRawPointer?
    ) -> Int32

  /// `openpty`, looked up, because not every system shows it to Swift.
  private static func open(columns: UInt16) throws -> (ours: Int32, theirs: Int32, name: String) {
    var ends: (ours: Int32, theirs: Int32) = (-1, -1)
    var name = [UInt8](repeating: 0, count: 1024)
    guard let symbol = dlsym(nil, "openpty"),
      unsafeBitCast(symbol, to: OpenTerminal.self)(&ends.ours, &ends.theirs, &name, nil, nil) == 0
    else { throw CocoaError(.fileNoSuchFile) }
    var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
    guard ioctl(ends.ours, UInt(TIOCSWINSZ), &size) == 0 else { throw CocoaError(.fileWriteUnknown) }
    for end in [ends.ours, ends.theirs] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends.ours, ends.theirs, String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))
  }

  /// A terminal that nobody looks at, by its name.
  static func withTerminal<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let (ours, theirs, name) = try open(columns: 80)
    defer { for end in [ours, theirs] { close(end) } }
    return try await body(name)
  }

  /// Runs it with one descriptor, 1 or 2, on the terminal, and the others nowhere.
  /// - Parameter observe: told all that has been shown so far, each time there is more; and the process.
  static func run(
    _ arguments: [String], on descriptor: Int32, in directory: TemporaryDirectory, environment: [String: String] = [:],
    columns: UInt16 = 200, _ observe: @escaping @Sendable (_ shown: String, _ process: pid_t) -> Void
  ) async throws -> (status: Int32, shown: String) {
    let (ours, theirs, name) = try open(columns: columns)
    let process = try Child(
      [ToolBinary.url.path] + arguments, in: directory, environment: environment, output: descriptor == 1 ? name : "/dev/null",
      errors: descriptor == 2 ? name : "/dev/null")
    async let shown = withCheckedContinuation { continuation in
      Thread.detachNewThread { continuation.resume(returning: read(ours) { observe($0, process.identifier) }) }
    }
    let status = await process.status()
    // We had it open, too: a terminal that nobody has open, not yet or not any more, can't be read from.
    close(theirs)
    return (status, await shown)
  }

  private static func read(_ descriptor: Int32, _ observe: (String) -> Void) -> String {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = Foundation.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += buffer[..<count]
      observe(String(decoding: bytes, as: UTF8.self))
    }
    close(descriptor)
    return String(decoding: bytes, as: UTF8.self)
  }
}
