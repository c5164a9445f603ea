/// How long a worker has gone on from one short piece of work to the next: nodes of a graph, or nested jobs. The clock is looked at seldom
/// where they are short.
struct ChainTime {
  /// In nanoseconds.
  private let allowance: UInt64
  private var nextLook: UInt32
  private var firstLook: UInt64 = 0
  private var lastLook: UInt64 = 0

  private static let longestStep: UInt64 = 64

  /// - Parameter step: after how many to look, as far as the last chain tells.
  init(allowance: UInt64, step: UInt32) {
    self.allowance = allowance
    nextLook = step
  }

  /// Whether the clock is to be looked at, after so many.
  func isDue(_ count: UInt32) -> Bool { count >= nextLook }

  /// Looks at the clock.
  /// - Parameters:
  ///   - step: how many it has been since the last look, and then until the next.
  ///   - batchStart: when the worker's batch began.
  mutating func isUsedUp(_ step: inout UInt32, batchStart: UInt64) -> Bool {
    let now = Uptime.now
    let former = UInt64(step)
    var next = former
    if firstLook == 0 {
      firstLook = now
      // Perhaps these take long; other items of the batch may have taken the time, too.
      if now - batchStart > allowance { next = max(1, former / 4) }
    } else {
      let each = (now - lastLook) / former
      next = max(1, min(Self.longestStep, former * 2, allowance / 2 / max(1, each)))
    }
    lastLook = now
    step = UInt32(next)
    nextLook += step
    return now - firstLook > allowance
  }
}
