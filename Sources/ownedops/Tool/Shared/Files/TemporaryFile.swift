import Foundation

/// A file without a name.
enum TemporaryFile {
  static let directory = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"

  /// - Returns: a descriptor that commands don't inherit, or -1 with `errno`.
  static func open() -> Int32 {
    // Not with `mkstemp`, which leaves a moment in which a command would.
    while true {
      let path = "\(directory)/ownedops.\(getpid()).\(String(UInt64.random(in: 0 ... .max), radix: 36))"
      let descriptor = Foundation.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      if descriptor >= 0 { unlink(path) }
      guard descriptor < 0, errno == EEXIST else { return descriptor }
    }
  }
}
