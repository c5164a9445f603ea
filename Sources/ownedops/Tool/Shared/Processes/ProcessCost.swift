import Foundation

/// What this process has cost so far.
struct ProcessCost: Codable, Sendable {
  /// User and system, in seconds.
  let processorTime: Double
  let peakMemory: Int

  static var now: ProcessCost {
    let usage = System.ownUsage
    let peak = System.ownPeakMemory ?? System.peakMemory(in: usage)
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return ProcessCost(processorTime: seconds(usage.ru_utime) + seconds(usage.ru_stime), peakMemory: peak)
  }
}
