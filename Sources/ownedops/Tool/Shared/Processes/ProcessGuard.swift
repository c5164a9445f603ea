import Foundation

/// A second process that outlives a kill of this one, to clean up after it. It is told of every process group that begins and ends. When
/// its input closes, it ends those that are left: with SIGTERM, and after the grace with SIGKILL. Where the system shows the environments
/// of processes, it does the same to those that bear this run's mark. These are what was started in the very moment of the kill, and what
/// had left its group.
final class ProcessGuard: Sendable {
  static let command = "__guard"

  private let pipe: Int32
  /// The second process.
  let process: pid_t
  let mark: RunMark

  /// Nil if it can't be had; then a kill of this process leaves commands behind, as ever.
  /// - Parameters:
  ///   - keepsOrphans: what has left its group stays.
  ///   - reaper: waits for the second process; nil if the caller does.
  init?(grace: Duration, keepsOrphans: Bool, mark: RunMark = RunMark(), reaper: ChildReaper? = .shared) {
    guard let ends = Pipe.open() else { return nil }
    defer { close(ends.reading) }
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { close(nowhere) }
    self.mark = mark
    mark.setInEnvironment()
    let milliseconds = Int(min(grace.inSeconds, 1e6) * 1000)
    let words = [OwnProgram.path, Self.command, mark.text, "\(milliseconds)", keepsOrphans ? "keep" : "end"]
    func start() throws(ChildProcess.StartFailure) -> pid_t {
      try ChildProcess.start(.init(words: words), input: ends.reading, output: nowhere)
    }
    guard let process = try? reaper.map({ try $0.startUnwatched(start) }) ?? start() else {
      close(ends.writing)
      return nil
    }
    pipe = ends.writing
    self.process = process
  }

  deinit { close(pipe) }

  func begins(_ group: pid_t) { tell(group) }
  func ended(_ group: pid_t) { tell(-group) }

  /// Four bytes are written in one piece by any number of threads.
  private func tell(_ value: Int32) {
    withUnsafeBytes(of: value) { _ = RawFile.writeAll($0, to: pipe) }
  }

  // MARK: What the second process does

  static func serve(_ arguments: [String]) -> Int32 {
    guard arguments.count == 3, let milliseconds = Int(arguments[1]) else { return ExitStatus.badInput }
    for number in Interruption.signals { signal(number, SIG_IGN) }
    let groups = groupsLeft()
    var ending = Ending(groups: groups, mark: arguments[2] == "keep" ? nil : RunMark(arguments[0]), grace: .milliseconds(milliseconds))
    ending.run()
    return 0
  }

  /// Reads until the tool has gone.
  private static func groupsLeft() -> Set<pid_t> {
    var groups: Set<pid_t> = []
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4)
    defer { buffer.deallocate() }
    var filled = 0
    while true {
      let count = read(0, buffer.baseAddress.map { $0 + filled }, buffer.count - filled)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return groups }
      filled += count
      let whole = filled / 4
      for place in 0..<whole {
        let value = buffer.load(fromByteOffset: place * 4, as: Int32.self)
        if value > 0 { groups.insert(value) } else { groups.remove(-value) }
      }
      let rest = filled - whole * 4
      for place in 0..<rest { buffer[place] = buffer[whole * 4 + place] }
      filled = rest
    }
  }

  /// A process that is being started or replaces itself has no environment for a moment, and no system tells when it gets one. So this
  /// looks several times, until there has been nothing to find for a while. The pauses keep it from taking a processor meanwhile; nobody
  /// waits for this process.
  private struct Ending {
    private static let quietRounds = 10
    /// In microseconds.
    private static let pause: UInt32 = 20_000

    /// Those that have not been seen to be gone.
    var groups: Set<pid_t>
    let mark: RunMark?
    let grace: Duration
    /// Of groups and of processes alike: a group has the number of its first process.
    var ends = ForcedEnds<pid_t>()

    mutating func run() {
      var quiet = 0
      while quiet < Self.quietRounds {
        groups = groups.filter(ProcessGroup.exists)
        for group in groups { ends.end(group, grace: grace) { ProcessGroup.signal(group, $0) } }
        let marked = markedProcesses()
        for process in marked { ends.end(process, grace: grace) { ProcessGroup.signalProcess(process, $0) } }
        // A group of which nothing is left but what nobody waits for would be there for ever.
        groups = groups.filter { !ends.hasGivenUp($0) }
        quiet = marked.isEmpty && groups.isEmpty ? quiet + 1 : 0
        usleep(Self.pause)
      }
    }

    private func markedProcesses() -> [pid_t] { mark?.bearers() ?? [] }
  }
}
