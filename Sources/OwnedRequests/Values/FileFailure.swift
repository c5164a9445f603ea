import Foundation

/// What could not be done with a file, and why.
public struct FileFailure: Error, Sendable, CustomStringConvertible {
  /// For example "write".
  public let action: String
  /// The file, as it was named in the call that failed.
  public let path: String
  /// As in `errno.h`.
  public let code: Int32

  /// What could not be done, with which file, and the system's reason.
  public var description: String {
    // The system would speak of a connection.
    let reason = code == ETIMEDOUT ? "the disk has not answered for too long" : String(cString: strerror(code))
    return "can't \(action) \(path): \(reason)"
  }
}

extension RequestError {
  /// The failure of the call of the system that has just been made.
  static func lastFailure(to action: String, _ path: String) -> RequestError {
    .fileSystem(FileFailure(action: action, path: path, code: errno))
  }
}
