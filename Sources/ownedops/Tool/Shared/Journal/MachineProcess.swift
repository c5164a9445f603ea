import Foundation

/// A process, told from all others on all machines and at all times.
struct MachineProcess: Equatable, Sendable {
  let host: String
  /// One booting of one machine, as seen from one space of process numbers. Names of hosts may be given twice.
  let machine: String
  let number: pid_t
  /// When it began, in the system's own units; empty where the system doesn't tell.
  let birth: String

  static let current = MachineProcess(number: getpid())

  /// A process of this machine.
  init(number: pid_t) {
    host = Self.thisHost
    machine = Self.thisMachine
    self.number = number
    birth = ProcessFields(of: number)?.birth ?? ""
  }

  /// Read from keys such as `host`, or `keeperHost` with a prefix.
  init?(_ value: JSONValue, prefix: String) {
    guard let number = value[Self.key(prefix, "process")]?.asInteger else { return nil }
    host = value["host"]?.asText ?? ""
    machine = value["machine"]?.asText ?? ""
    self.number = pid_t(truncatingIfNeeded: number)
    birth = value[Self.key(prefix, "birth")]?.asText ?? ""
  }

  /// With a prefix, what it shares with the one without is left out.
  func add(to line: inout JournalLine, prefix: String) {
    if prefix.isEmpty {
      line.add("host", host)
      line.add("machine", machine)
    }
    line.add(Self.key(prefix, "process"), Int(number))
    line.add(Self.key(prefix, "birth"), birth)
  }

  private static func key(_ prefix: String, _ name: String) -> String {
    prefix.isEmpty ? name : prefix + name.prefix(1).uppercased() + name.dropFirst()
  }

  var isHere: Bool { machine == Self.thisMachine }

  /// Whether it is there. Only for one of this machine; a zombie counts as gone, and what can't be looked at as there.
  var isRunning: Bool { isRunning { ProcessFields(of: $0) } }

  func isRunning(seenBy look: (pid_t) -> ProcessFields?) -> Bool {
    guard hasNumber else { return false }
    // Nothing is told of what has gone just now; or the system hides it.
    guard let fields = look(number) else { return hasNumber }
    return fields.birth == birth && !fields.hasExited
  }

  private var hasNumber: Bool { kill(number, 0) == 0 || errno == EPERM }

  private static let thisHost: String = {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }()

  private static let thisMachine = ProcessTable.machineIdentity ?? thisHost
}
