import Foundation

/// A second process that outlives a kill of this one, to clean up after it: it is told of every process group that begins and ends, and kills those
/// that are left when its input closes. Where the system shows the environments of processes, it also kills those that bear this run's mark: what
/// was started in the very moment of the kill, and what had left its group.
final class ProcessGuard: Sendable {
  static let command = "__guard"

  private static let variable = "OWNEDOPS_RUN"

  private let pipe: Int32
  /// The second process.
  let process: pid_t

  /// Nil if it can't be had; then a kill of this process leaves commands behind, as ever.
  init?() {
    var ends: [Int32] = [-1, -1]
    guard Foundation.pipe(&ends) == 0 else { return nil }
    // No command has been started yet that could get them in between.
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    let sink = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { close(sink) }
    let mark = "\(getpid()).\(UInt32.random(in: 0 ... .max))"
    // Before the first command, which gets it with everything else of our environment.
    setenv(Self.variable, mark, 1)
    let words = [SelfProcess.path, Self.command, mark]
    let reaper = ChildReaper.shared
    guard
      let process = try? reaper.start({ () throws(ChildProcess.StartFailure) -> pid_t in
        try ChildProcess.start(.init(words: words), input: ends[0], output: sink)
      })
    else {
      close(ends[1])
      return nil
    }
    pipe = ends[1]
    self.process = process
    Task { _ = await reaper.exit(of: process) }
  }

  deinit { close(pipe) }

  func begins(_ group: pid_t) { tell(group) }
  func ended(_ group: pid_t) { tell(-group) }

  /// Four bytes are written in one piece by any number of threads.
  private func tell(_ value: Int32) {
    withUnsafeBytes(of: value) { _ = RawFile.writeAll($0, to: pipe) }
  }

  /// What the second process does.
  static func serve(_ mark: String) -> Int32 {
    for number in Interruption.signals { signal(number, SIG_IGN) }
    var groups: Set<Int32> = []
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4)
    defer { buffer.deallocate() }
    var filled = 0
    while true {
      let count = read(0, buffer.baseAddress.map { $0 + filled }, buffer.count - filled)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
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
    for group in groups { kill(-group, SIGKILL) }
    killMarked(mark)
    return 0
  }

  private static let quietRounds = 10
  /// In microseconds.
  private static let pause: UInt32 = 20_000

  /// A process that is being started or replaces itself has no environment for a moment, and no system tells when it gets one. So this looks several
  /// times, until there has been nothing to find for a while. The pauses keep it from taking a processor meanwhile; nobody waits for this process.
  private static func killMarked(_ mark: String) {
    #if os(Linux)
      let needle = Array("\(variable)=\(mark)".utf8)
      var quiet = 0
      while quiet < quietRounds {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        let marked = names.compactMap { pid_t($0) }.filter { process in
          guard process != getpid(), let words = RawFile.contents(of: "/proc/\(process)/environ") else { return false }
          return words.split(separator: 0).contains { $0.elementsEqual(needle) }
        }
        for process in marked { kill(process, SIGKILL) }
        quiet = marked.isEmpty ? quiet + 1 : 0
        usleep(pause)
      }
    #endif
  }
}
