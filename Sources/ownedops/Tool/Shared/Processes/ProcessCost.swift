import Foundation

/// What this process has cost so far.
struct ProcessCost: Codable, Sendable {
  /// User and system, in seconds.
  let processorTime: Double
  let peakMemory: Int

  static var now: ProcessCost {
    var usage = rusage()
    #if canImport(Darwin)
      getrusage(RUSAGE_SELF, &usage)
      let peak = Int(usage.ru_maxrss)
    #else
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
      // `ru_maxrss` includes what the process was before it became this program.
      let peak = peakFromStatus() ?? Int(usage.ru_maxrss) * 1024
    #endif
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return ProcessCost(processorTime: seconds(usage.ru_utime) + seconds(usage.ru_stime), peakMemory: peak)
  }

  #if !canImport(Darwin)
    private static func peakFromStatus() -> Int? {
      guard let file = fopen("/proc/self/status", "re") else { return nil }
      defer { fclose(file) }
      var line = [CChar](repeating: 0, count: 256)
      while fgets(&line, Int32(line.count), file) != nil {
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard text.hasPrefix("VmHWM:") else { continue }
        return text.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }.map { $0 * 1024 }
      }
      return nil
    }
  #endif
}
