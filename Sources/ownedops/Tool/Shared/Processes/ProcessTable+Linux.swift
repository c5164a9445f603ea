#if !canImport(Darwin)
  import Foundation

  extension ProcessTable {
    /// One booting of this machine, as seen from this space of process numbers. Nil if that isn't told.
    static var machineIdentity: String? {
      let boot = RawFile.contents(of: "/proc/sys/kernel/random/boot_id") ?? []
      var space = stat()
      let number = stat("/proc/self/ns/pid", &space) == 0 ? UInt64(truncatingIfNeeded: space.st_ino) : 0
      // What isn't told must not make two machines the same.
      guard !boot.isEmpty else { return nil }
      return String(decoding: boot.prefix { $0 > 0x20 }, as: UTF8.self) + "/\(number)"
    }

    /// Of all processes that the system shows.
    static var numbers: [pid_t] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
      return names.compactMap { pid_t($0) }
    }
  }

  extension ProcessFields {
    /// Nil if there is no such process, or if the system doesn't tell.
    init?(of process: pid_t) {
      guard let bytes = RawFile.contents(of: "/proc/\(process)/stat") else { return nil }
      // From the state on: what comes before is a name in parentheses that may hold anything.
      guard let close = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
      let fields = String(decoding: bytes[(close + 1)...], as: UTF8.self).split(separator: " ")
      guard fields.count > 19, let parent = pid_t(fields[1]) else { return nil }
      self.init(parent: parent, birth: String(fields[19]), hasExited: fields[0] == "Z" || fields[0] == "X")
    }
  }
#endif
