import Foundation

/// A pipe that commands don't inherit but by being given it.
enum Pipe {
  /// - Returns: nil with `errno` if there is none to be had.
  static func open() -> (reading: Int32, writing: Int32)? {
    var ends: [Int32] = [-1, -1]
    #if os(Linux)
      // In one step: between two another thread may start a command.
      if let function = pipeFunction {
        return function(&ends, O_CLOEXEC) == 0 ? (ends[0], ends[1]) : nil
      }
    #endif
    guard Foundation.pipe(&ends) == 0 else { return nil }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }

  #if os(Linux)
    private typealias OpenPipe = @convention(c) (UnsafeMutablePointer<Int32>, Int32) -> Int32

    /// Looked up, because the header hides it from Swift.
    private static let pipeFunction = dlsym(nil, "pipe2").map { unsafeBitCast($0, to: OpenPipe.self) }
  #endif
}
