import Foundation

/// `--log-dir`: a file for each job.
final class JobLogs: Sendable {
  private let directory: String
  private let failures = Guarded(0)

  init(directory: String) throws(UsageError) {
    self.directory = directory
    do {
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    } catch {
      throw UsageError("--log-dir: can't create \(directory)")
    }
    guard access(directory, W_OK) == 0 else { throw UsageError("--log-dir: can't write in \(directory): \(RawFile.message(errno))") }
  }

  /// How many logs are not complete.
  var failureCount: Int { failures.withLock { $0 } }

  func write(_ name: String, contentsOf output: Int32) {
    let path = directory + "/" + Self.fileName(name)
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
    var error = file >= 0 ? nil : errno
    if file >= 0 {
      error = RawFile.copyAll(from: output, to: file)
      // Some file systems find out late that there is no room.
      if close(file) != 0, error == nil { error = errno }
    }
    if let error {
      failures.withLock { $0 += 1 }
      Console.shared.note("ownedops: can't write the log of \(name) to \(path): \(RawFile.message(error))")
    }
  }

  /// No two names give the same: what is not a letter, digit, `_`, `-` or an inner `.` is written as `%xx`.
  static func fileName(_ name: String) -> String {
    var result = ""
    for (place, byte) in name.utf8.enumerated() {
      let scalar = Unicode.Scalar(byte)
      let isPlain =
        scalar.isASCII
        && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil || byte == UInt8(ascii: "_")
          || byte == UInt8(ascii: "-"))
      if isPlain || byte == UInt8(ascii: ".") && place > 0 {
        result.unicodeScalars.append(scalar)
      } else {
        result += String(format: "%%%02x", Int(byte))
      }
    }
    guard result.utf8.count > 200 else { return result + ".log" }
    var hash = StreamHash()
    Array(name.utf8).withUnsafeBytes { hash.add($0) }
    return "\(result.prefix(180))%\(String(hash.value, radix: 16)).log"
  }
}
