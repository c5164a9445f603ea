#if !canImport(Darwin)
  import Foundation

  /// Who holds locks on files, as far as the system tells.
  ///
  /// `/proc/locks` names a file by its inode and by the device that its mount is of. On btrfs `stat` names another device, that of the
  /// subvolume; so the mount is asked. On overlays the inode, too, may be another than that of `stat`: then nobody is found.
  enum FileLocks {
    struct Device: Equatable {
      let major: Int
      let minor: Int
    }

    /// The process that has locked the file with `flock`. Nil where that is not known.
    static func holder(of descriptor: Int32) -> pid_t? {
      var status = stat()
      guard fstat(descriptor, &status) == 0, let table = text("/proc/locks") else { return nil }
      let device = device(of: descriptor) ?? Device(status.st_dev)
      return holder(of: UInt64(status.st_ino), on: device, in: table)
    }

    /// - Parameter table: as in `/proc/locks`.
    static func holder(of inode: UInt64, on device: Device, in table: String) -> pid_t? {
      for line in table.split(separator: "\n") {
        // 1: FLOCK ADVISORY WRITE 1234 00:2d:131 0 EOF
        let fields = line.split(separator: " ")
        guard fields.count > 5, fields[1] == "FLOCK" else { continue }
        let file = fields[5].split(separator: ":")
        guard file.count == 3, UInt64(file[2]) == inode, Int(file[0], radix: 16) == device.major, Int(file[1], radix: 16) == device.minor
        else { continue }
        if let process = pid_t(fields[4]), process > 0 { return process }
      }
      return nil
    }

    /// Nil where the mount isn't shown, as one of another namespace.
    private static func device(of descriptor: Int32) -> Device? {
      guard let information = text("/proc/self/fdinfo/\(descriptor)"), let mounts = text("/proc/self/mountinfo") else { return nil }
      return mountedDevice(information, mounts)
    }

    /// - Parameters:
    ///   - information: as in `/proc/self/fdinfo`.
    ///   - mounts: as in `/proc/self/mountinfo`.
    /// - Returns: the device of the mount that the descriptor is open on.
    static func mountedDevice(_ information: String, _ mounts: String) -> Device? {
      let key = "mnt_id:"
      guard let line = information.split(separator: "\n").first(where: { $0.hasPrefix(key) }) else { return nil }
      guard let mount = line.dropFirst(key.count).split(whereSeparator: \.isWhitespace).first else { return nil }
      for line in mounts.split(separator: "\n") {
        // 36 25 254:1 / /home rw,relatime - ext4 /dev/vda1 rw
        let fields = line.split(separator: " ", maxSplits: 3)
        guard fields.count > 2, fields[0] == mount else { continue }
        let numbers = fields[2].split(separator: ":").compactMap { Int($0) }
        return numbers.count == 2 ? Device(major: numbers[0], minor: numbers[1]) : nil
      }
      return nil
    }

    private static func text(_ path: String) -> String? { RawFile.contents(of: path).map { String(decoding: $0, as: UTF8.self) } }
  }

  extension FileLocks.Device {
    /// As the C library takes it apart.
    init(_ device: dev_t) {
      let bits = UInt64(device)
      major = Int((bits >> 8) & 0xfff | (bits >> 32) & 0xffff_f000)
      minor = Int(bits & 0xff | (bits >> 12) & 0xffff_ff00)
    }
  }
#endif
