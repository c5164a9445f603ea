import Foundation

/// A pipe that commands don't inherit but by being given it.
enum Pipe {
  /// - Returns: nil with `errno` if there is none to be had.
  static func open() -> (reading: Int32, writing: Int32)? {
    var ends: [Int32] = [-1, -1]
    return System.openPipe(&ends) == 0 ? (ends[0], ends[1]) : nil
  }

  /// Whether a process other than this one has the end that is written to, which this one has closed. What a process has of it that is not
  /// its program yet does not count.
  /// - Parameter starts: of processes that may have a copy of it.
  static func isHeldByOthers(_ reading: Int32, _ starts: StartsUnderWay = .shared) async -> Bool {
    await starts.ended()
    var polled = pollfd(fd: reading, events: 0, revents: 0)
    return poll(&polled, 1, 0) == 0 || polled.revents & Int16(POLLHUP) == 0
  }
}
