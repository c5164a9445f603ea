import Dispatch
import Foundation
import Synchronization

/// Counts jobs where they begin. The end of the owners leaves a stamp, and every job looks at it with its first instruction: a job that begins after it
/// is counted, whatever the queue promises.
final class JobMeter: Sendable {
  private let submittedCount = Atomic<Int>(0)
  private let begunCount = Atomic<Int>(0)
  private let completedCount = Atomic<Int>(0)
  private let lateCount = Atomic<Int>(0)
  /// Set before the owners end: work that runs should stop.
  private let isEnding = Atomic<Bool>(false)
  /// When the owners' end was complete, in nanoseconds; 0 if they live.
  private let endStamp = Atomic<UInt64>(0)
  private let pendingAtEnd = Atomic<Int>(0)
  private let processorTimeAtEnd = Guarded(0.0)
  /// For tests: told, by a job that has just been counted as begun, how many have been.
  private let didBegin: (@Sendable (Int) -> Void)?

  init(didBegin: (@Sendable (Int) -> Void)? = nil) { self.didBegin = didBegin }

  var shouldStop: Bool { isEnding.load(ordering: .relaxed) }

  func submit(_ count: Int) { submittedCount.add(count, ordering: .relaxed) }

  func begin() {
    let begun = begunCount.add(1, ordering: .relaxed).newValue
    let stamp = endStamp.load(ordering: .acquiring)
    if stamp != 0, DispatchTime.now().uptimeNanoseconds > stamp { lateCount.add(1, ordering: .relaxed) }
    didBegin?(begun)
  }

  func complete() {
    completedCount.add(1, ordering: .relaxed)
  }

  /// - Parameter body: ends the owners.
  /// - Returns: false if they had ended already.
  func end(_ body: () -> Void) -> Bool {
    guard isEnding.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged else { return false }
    body()
    processorTimeAtEnd.withLock { $0 = ProcessCost.now.processorTime }
    pendingAtEnd.store(submittedCount.load(ordering: .relaxed) - begunCount.load(ordering: .relaxed), ordering: .relaxed)
    endStamp.store(DispatchTime.now().uptimeNanoseconds, ordering: .releasing)
    return true
  }

  /// What has become of the jobs; to be asked when nothing runs any more.
  var counts: JobCounts {
    let submitted = submittedCount.load(ordering: .relaxed)
    let begun = begunCount.load(ordering: .relaxed)
    let stamp = endStamp.load(ordering: .acquiring)
    var counts = JobCounts(submitted: submitted, finished: completedCount.load(ordering: .relaxed))
    guard stamp != 0 else { return counts }
    counts.pendingAtEnd = pendingAtEnd.load(ordering: .relaxed)
    counts.cancelled = submitted - begun
    counts.startedAfterEnd = lateCount.load(ordering: .relaxed)
    counts.secondsAfterEnd = Double(DispatchTime.now().uptimeNanoseconds - stamp) / 1e9
    counts.processorSecondsAfterEnd = ProcessCost.now.processorTime - processorTimeAtEnd.withLock { $0 }
    return counts
  }
}

struct JobCounts: Codable, Sendable {
  var submitted = 0
  /// Went through to their own end.
  var finished = 0
  var pendingAtEnd = 0
  /// Never begun.
  var cancelled = 0
  var startedAfterEnd = 0
  /// From the end of the owners until nothing ran any more.
  var secondsAfterEnd = 0.0
  var processorSecondsAfterEnd = 0.0
}

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
