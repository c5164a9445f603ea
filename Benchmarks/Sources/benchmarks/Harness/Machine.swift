import Foundation

/// What the figures were seen on.
struct Machine: Codable {
  var processor: String
  var processorCount: Int
  var memoryInBytes: UInt64
  var operatingSystem: String
  var swift: String

  static var current: Machine {
    Machine(
      processor: processorName ?? "unknown", processorCount: ProcessInfo.processInfo.activeProcessorCount,
      memoryInBytes: ProcessInfo.processInfo.physicalMemory, operatingSystem: ProcessInfo.processInfo.operatingSystemVersionString,
      swift: compiler)
  }

  var summary: String { "\(processor), \(processorCount) processors, \(memoryInBytes >> 30) GB, \(operatingSystem), \(swift)" }

  private static var processorName: String? {
    guard let text = try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8) else { return nil }
    let line = text.split(separator: "\n").first { $0.hasPrefix("model name") }
    return line?.split(separator: ":").last?.trimmingCharacters(in: .whitespaces)
  }

  private static var compiler: String {
    #if compiler(>=6.4)
      "Swift 6.4 or newer"
    #elseif compiler(>=6.3)
      "Swift 6.3"
    #else
      "Swift 6.2"
    #endif
  }
}

/// All of a run, for machines.
struct Report: Codable {
  var date: String
  var command: String
  var isQuick: Bool
  var machine: Machine
  var measurements: [Measurement]
  var skipped: [Session.Skipped]

  func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return try encoder.encode(self) + Data("\n".utf8)
  }
}
