/// How often, and how many at a time, operations that nobody announces are asked; in nanoseconds.
enum ReadinessPace {
  /// Between two rounds.
  static let leastInterval: UInt64 = 1_000_000
  static let interval: UInt64 = 50_000_000
  static let longInterval: UInt64 = 1_000_000_000
  /// How long nothing must have changed for the longer interval.
  static let quietTime: UInt64 = 60_000_000_000
  /// How many of a list are asked in one round at least, for each `interval`, and how long to go on with more. Most of a question's time
  /// are cache misses. 10,000 plain operations that wait are to cost less than 1 % of a processor, and a timer that fires costs half of
  /// that.
  private static let turnsPerInterval = 500
  private static let timePerInterval: UInt64 = 200_000
  /// A round that takes long is followed by so many times as long a pause, up to the longer interval.
  private static let pauseFactor: UInt64 = 20

  static func interval(sinceLastChange time: UInt64, lastRoundTook duration: UInt64) -> UInt64 {
    let usual = time > quietTime ? longInterval : interval
    return max(usual, min(longInterval, duration.multipliedReportingOverflow(by: pauseFactor).partialValue))
  }

  /// How much of each list to ask in a round.
  struct Share: Equatable {
    let turns: Int
    let time: UInt64
  }

  static func share(sinceLastChange time: UInt64) -> Share {
    let intervals = time > quietTime ? longInterval / interval : 1
    return Share(turns: turnsPerInterval * Int(intervals), time: timePerInterval * intervals)
  }
}
