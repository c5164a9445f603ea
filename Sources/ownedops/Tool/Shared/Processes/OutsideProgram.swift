import Foundation

/// Where this program is, to run itself.
enum OwnProgram {
  static let path = System.programPath ?? Bundle.main.executablePath ?? CommandLine.arguments[0]
}

/// A program that a command runs for its output, one at a time. It doesn't outlive the tool, however that ends: signals are passed on, and
/// a guard sees to it when the tool itself is killed.
final class OutsideProgram: Sendable {
  private struct State {
    /// The one that runs. (Forgotten a moment after it has been waited for; the system gives out numbers in turn, and so not this one by
    /// then.)
    var current: pid_t?
    var interruptions = 0
  }

  private let state = Guarded(State())
  private let processGuard = ProcessGuard(grace: grace, keepsOrphans: false)

  private static let grace = Duration.seconds(2)

  /// Ends the program. SIGTERM is sent first, whatever ended us, because a shell may lose a SIGINT while it starts something. SIGKILL is
  /// sent after the grace, or at once from the second time on.
  func interrupt() {
    state.withLock { state in
      state.interruptions += 1
      if let process = state.current { ProcessGroup.signal(process, state.interruptions > 1 ? SIGKILL : SIGTERM) }
    }
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.grace.inSeconds) { [self] in
      state.withLock { state in
        if let process = state.current { ProcessGroup.signal(process, SIGKILL) }
      }
    }
  }

  struct Outcome {
    let exit: ChildReaper.Exit
    let output: Data
  }

  /// Runs a program with these arguments. Its standard error is ours. Blocks.
  func run(_ program: String, _ arguments: [[UInt8]], input: String? = nil) throws(UsageError) -> Outcome {
    let output = try Self.temporaryFile()
    defer { close(output) }
    var source: Int32?
    defer { if let source { close(source) } }
    if let input {
      let file = try Self.temporaryFile()
      source = file
      if let error = RawFile.writeAll(Array(input.utf8), to: file) {
        throw UsageError("can't write a temporary file: \(RawFile.message(error))")
      }
      lseek(file, 0, SEEK_SET)
    }
    let words = [program] + arguments.map { String(decoding: $0, as: UTF8.self) }
    let process: pid_t
    do throws(ChildProcess.StartFailure) {
      process = try ChildReaper.shared.start { () throws(ChildProcess.StartFailure) -> pid_t in
        try ChildProcess.start(.init(words: words), input: source, output: output, keepsError: true)
      }
    } catch {
      throw UsageError(error.description)
    }
    processGuard?.begins(process)
    let wasInterrupted = state.withLock { state in
      state.current = process
      return state.interruptions > 0
    }
    if wasInterrupted { ProcessGroup.signal(process, SIGTERM) }
    let exit = ChildReaper.shared.waitForExit(of: process)
    state.withLock { $0.current = nil }
    processGuard?.ended(process)
    lseek(output, 0, SEEK_SET)
    return Outcome(exit: exit, output: FileHandle(fileDescriptor: output, closeOnDealloc: false).readDataToEndOfFile())
  }

  private static func temporaryFile() throws(UsageError) -> Int32 {
    let file = TemporaryFile.open()
    guard file >= 0 else { throw UsageError("can't create a temporary file: \(RawFile.message(errno))") }
    return file
  }
}
