import Foundation

/// How long calls took, in nanoseconds: how many in each quarter of a power of two.
struct Latencies {
  private var counts = [Int](repeating: 0, count: 64 * 4)
  private(set) var count = 0
  private(set) var worst: UInt64 = 0
  /// The most processor time that one took.
  private(set) var worstOfProcessor: UInt64 = 0

  /// Measures a call.
  mutating func measure(_ call: () -> Void) {
    let (start, processorStart) = (DispatchTime.now().uptimeNanoseconds, Self.processorTime)
    call()
    let processorTime = Self.processorTime - processorStart
    add(DispatchTime.now().uptimeNanoseconds - start, processorTime)
  }

  private mutating func add(_ time: UInt64, _ processorTime: UInt64) {
    counts[Self.bucket(of: time)] += 1
    count += 1
    worst = max(worst, time)
    worstOfProcessor = max(worstOfProcessor, processorTime)
  }

  mutating func add(_ others: Latencies) {
    for bucket in counts.indices { counts[bucket] += others.counts[bucket] }
    count += others.count
    worst = max(worst, others.worst)
    worstOfProcessor = max(worstOfProcessor, others.worstOfProcessor)
  }

  /// No less than that share of the calls took, and no more than a quarter above it.
  func quantile(_ share: Double) -> UInt64 {
    var left = Int((Double(count) * share).rounded(.up))
    for bucket in counts.indices {
      left -= counts[bucket]
      if left <= 0 { return min(worst, Self.end(of: bucket)) }
    }
    return worst
  }

  private static func bucket(of time: UInt64) -> Int {
    guard time >= 4 else { return Int(time) }
    let power = 63 - time.leadingZeroBitCount
    return power * 4 + Int(time >> (power - 2)) & 3
  }

  private static func end(of bucket: Int) -> UInt64 {
    guard bucket >= 8 else { return UInt64(bucket) }
    return UInt64(bucket % 4 + 5) << (bucket / 4 - 2)
  }

  /// Of this thread.
  private static var processorTime: UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
