import Foundation
import Testing

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
    let (status, shown) = try await Terminal.run(["scan"], on: 2, in: directory) { shown, process in
      if shown.components(separatedBy: rewrite).count > 3, shown.contains("comparing:") { kill(process, SIGINT) }
    }
    #expect(status == 130)
    let lines = shown.components(separatedBy: rewrite)
    #expect(lines.first == "")
    #expect(lines.last == "", "the line is wiped out at the end")
    #expect(lines.dropFirst().dropLast().allSatisfy { $0.hasPrefix("listing: ") || $0.hasPrefix("comparing: ") })
    #expect(lines.contains { $0.hasPrefix("comparing: ") && $0.hasSuffix(" of 2 files read, 0 groups of duplicates") })
    #expect(!shown.contains("\n"))
  }

  @Test func aTerminalGetsNothingIfQuiet() async throws {
    let directory = try endlessTree()
    defer { directory.remove() }
    // Long enough for some lines, if there were any.
    let (status, shown) = try await Terminal.run(["scan", "--quiet", "--budget", "350ms"], on: 2, in: directory) { _, _ in }
    #expect(status == 0)
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
private enum Terminal {
  private typealias OpenTerminal =
    @convention(c) (
      UnsafeMutablePointer<Int32>, UnsafeMutablePointer<Int32>, UnsafeMutableRawPointer?, UnsafeRawPointer?, UnsafeRawPointer?
    ) -> Int32

  /// `openpty`, looked up, because not every system shows it to Swift.
  private static func open() throws -> (ours: Int32, theirs: Int32, name: String) {
    var ends: (ours: Int32, theirs: Int32) = (-1, -1)
    var name = [UInt8](repeating: 0, count: 1024)
    guard let symbol = dlsym(nil, "openpty"),
      unsafeBitCast(symbol, to: OpenTerminal.self)(&ends.ours, &ends.theirs, &name, nil, nil) == 0
    else { throw CocoaError(.fileNoSuchFile) }
    for end in [ends.ours, ends.theirs] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends.ours, ends.theirs, String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))
  }

  /// Runs it with one descriptor, 1 or 2, on the terminal, and the others nowhere.
  /// - Parameter observe: told all that has been shown so far, each time there is more; and the process.
  static func run(
    _ arguments: [String], on descriptor: Int32, in directory: TemporaryDirectory, environment: [String: String] = [:],
    _ observe: @escaping @Sendable (_ shown: String, _ process: pid_t) -> Void
  ) async throws -> (status: Int32, shown: String) {
    let (ours, theirs, name) = try open()
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
