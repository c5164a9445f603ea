extension Duration {
  /// As a number without an end: a `Duration` that overflows stops the process. Of one that is longer than its `components` can say, those
  /// of the longest.
  var inSeconds: Double {
    let (seconds, attoseconds) = Swift.min(Swift.max(self, .seconds(Int64.min)), .seconds(Int64.max)).components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}
