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
      // In bytes, and no more of them than are needed: thousands may be looked at, again and again.
      let fields = bytes[(close + 1)...].split(separator: UInt8(ascii: " "), maxSplits: 20)
      guard fields.count > 19, let state = fields[0].first else { return nil }
      guard let parent = pid_t(String(decoding: fields[1], as: UTF8.self)) else { return nil }
      let hasExited = state == UInt8(ascii: "Z") || state == UInt8(ascii: "X")
      self.init(parent: parent, birth: String(decoding: fields[19], as: UTF8.self), hasExited: hasExited)
    }
  }
#endif
