/// How much of a processor the bodies of a queue use while they run. Bodies that sleep, or wait for a disk, use little, and so many more of
/// them may run at a time.
///
/// What is measured counts by its length; the older it is, the less.
struct ProcessorShare: Equatable {
  /// What bodies that ran one after the other on one thread have used, in nanoseconds.
  struct Use: Equatable {
    let processorTime: UInt64
    let time: UInt64
  }

  /// A share of one.
  static let whole = 1024
  private static let least = whole / 64
  /// After so many more nanoseconds of bodies, half of what was measured before is forgotten.
  private static let memory: UInt64 = 20_000_000

  private var processorTime: UInt64 = 0
  private var time: UInt64 = 0
  /// In parts of `whole`. Until something was measured, bodies are taken to compute.
  private(set) var value = whole

  init() {}

  mutating func add(_ use: Use) {
    guard use.time > 0 else { return }
    let part = min(use.time, Self.memory)
    processorTime += UInt64(Double(min(use.processorTime, use.time)) / Double(use.time) * Double(part))
    time += part
    if time > Self.memory {
      processorTime /= 2
      time /= 2
    }
    value = max(Self.least, Int(processorTime * UInt64(Self.whole) / time))
  }
}

/// What a thread has used so far, which only itself can ask.
struct ThreadUsage {
  let processorTime: UInt64
  /// How often it gave its processor away by itself, because it had to wait for something.
  let voluntarySwitches: UInt64
  /// How often it had to, for others.
  let involuntarySwitches: UInt64

  /// Who has never waited has computed, and so has who was pushed aside. A thread that others don't let run is no reason for one more.
  func use(since start: ThreadUsage, in time: UInt64) -> ProcessorShare.Use {
    let hasOnlyWaited = voluntarySwitches != start.voluntarySwitches && involuntarySwitches == start.involuntarySwitches
    return ProcessorShare.Use(processorTime: hasOnlyWaited ? processorTime - min(processorTime, start.processorTime) : time, time: time)
  }
}
