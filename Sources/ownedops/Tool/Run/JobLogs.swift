import Foundation

/// `--log-dir`: a file for each job, which grows while the job runs.
final class JobLogs: Sendable {
  private let directory: String

  init(directory: String) throws(UsageError) {
    self.directory = directory
    do {
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    } catch {
      // It says why, which Foundation does not.
      let reason = mkdir(directory, 0o777) == 0 ? "" : ": \(RawFile.message(errno))"
      throw UsageError("--log-dir: can't create \(directory)\(reason)")
    }
    guard access(directory, W_OK) == 0 else { throw UsageError("--log-dir: can't write in \(directory): \(RawFile.message(errno))") }
  }

  /// Refuses a job whose log would be another file of the run: it would be emptied.
  /// - Parameter others: paths of these; they need not be there.
  func check(_ file: RunFile, apartFrom others: [String]) throws(UsageError) {
    let others = others.compactMap { path -> (path: String, name: String)? in
      let target = JournalFile.target(of: path)
      let slash = target.utf8.lastIndex(of: UInt8(ascii: "/"))
      let parent = slash.map { String(target[...$0]) } ?? "."
      guard FileIdentity(path: parent) == FileIdentity(path: directory) else { return nil }
      return (path, slash.map { String(target[target.utf8.index(after: $0)...]) } ?? target)
    }
    guard !others.isEmpty else { return }
    for job in file.jobs {
      guard let other = others.first(where: { $0.name == Self.fileName(job.name) }) else { continue }
      throw UsageError(
        "--log-dir: the log of \(Array(job.name.utf8).escapedName) in \(directory) would be \(other.path), which is another file of the run; "
          + "give another directory")
    }
  }

  /// Begins the log of a job. The descriptor is the caller's.
  func open(_ name: String) throws(UsageError) -> (path: String, descriptor: Int32) {
    let path = directory + "/" + Self.fileName(name)
    let descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw UsageError("its log \(path) can't be created: \(RawFile.message(errno))") }
    return (path, descriptor)
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
