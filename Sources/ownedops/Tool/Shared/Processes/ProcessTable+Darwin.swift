#if canImport(Darwin)
  import Foundation

  extension ProcessTable {
    /// One booting of this machine. It isn't told here.
    static var machineIdentity: String? { nil }

    /// Of all processes that the system shows.
    static var numbers: [pid_t] { [] }
  }

  extension ProcessFields {
    /// The system doesn't tell here.
    init?(of process: pid_t) { nil }
  }
#endif
