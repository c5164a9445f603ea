import Foundation

/// A pipe that commands don't inherit but by being given it.
enum Pipe {
  /// - Returns: nil with `errno` if there is none to be had.
  static func open() -> (reading: Int32, writing: Int32)? {
    var ends: [Int32] = [-1, -1]
    return System.openPipe(&ends) == 0 ? (ends[0], ends[1]) : nil
  }
}
