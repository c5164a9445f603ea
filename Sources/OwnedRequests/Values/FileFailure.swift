import Foundation

/// What could not be done with a file, and why.
public struct FileFailure: Error, Sendable, CustomStringConvertible {
  /// For example "write".
  public let action: String
  /// The file, as it was named in the call that failed.
  public let path: String
  /// As in `errno.h`. `ENODATA` is that of a file whose length has changed while it was sent.
  public let code: Int32

  /// What could not be done, with which file, and the system's reason.
  public var description: String {
    // The system would speak of a connection, and of data.
    let reason =
      switch code {
      case ETIMEDOUT: "the disk has not answered for too long"
      case ENODATA: "its length has changed meanwhile"
      default: String(cString: strerror(code))
      }
    return "can't \(action) \(path): \(reason)"
  }
}

extension RequestError {
  /// The failure of the call of the system that has just been made.
  static func lastFailure(to action: String, _ path: String) -> RequestError {
    .fileSystem(FileFailure(action: action, path: path, code: errno))
  }
}
