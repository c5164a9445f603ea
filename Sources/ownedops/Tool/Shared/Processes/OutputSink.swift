import Foundation

/// A process that reads what a process that has outlived its job goes on to put out, and lets it fall. Without a reader the first write
/// would end it.
enum OutputSink {
  static let command = "__sink"

  private static let started = Guarded<Set<pid_t>>([])

  /// Those that were started; each ends when nobody can write to it any more.
  static var processes: Set<pid_t> { started.withLock { $0 } }

  /// Takes over a pipe. Without a process for it the pipe is closed.
  /// - Parameter reaper: waits for the process; nil if the caller does.
  static func start(reading pipe: Int32, reaper: ChildReaper? = .shared) {
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { close(nowhere) }
    func start() throws(ChildProcess.StartFailure) -> pid_t {
      try ChildProcess.start(.init(words: [OwnProgram.path, command]), input: pipe, output: nowhere)
    }
    let process = try? reaper.map { try $0.startUnwatched(start) } ?? start()
    if let process { started.withLock { _ = $0.insert(process) } }
  }

  /// What the process does.
  static func serve() -> Int32 {
    for number in Interruption.signals { signal(number, SIG_IGN) }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    defer { buffer.deallocate() }
    _ = fcntl(0, F_SETFL, 0)
    while RawFile.fill(buffer, from: 0) == buffer.count {}
    return 0
  }
}
