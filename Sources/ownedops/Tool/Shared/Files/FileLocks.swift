import Foundation

/// Who holds locks on files, as far as the system tells.
enum FileLocks {
  /// The process that has locked the file with `flock`. Nil where that is not known.
  static func holder(of descriptor: Int32) -> pid_t? {
    #if os(Linux)
      var status = stat()
      guard fstat(descriptor, &status) == 0, let table = RawFile.contents(of: "/proc/locks") else { return nil }
      for line in String(decoding: table, as: UTF8.self).split(separator: "\n") {
        // 1: FLOCK ADVISORY WRITE 1234 00:2d:131 0 EOF
        let fields = line.split(separator: " ")
        guard fields.count > 5, fields[1] == "FLOCK", fields[5].hasSuffix(":\(status.st_ino)") else { continue }
        if let process = pid_t(fields[4]), process > 0 { return process }
      }
    #endif
    return nil
  }
}
