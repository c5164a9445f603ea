/// Where the deliveries of an observation run that has a queue: one at a time, in the order in which they were added.
///
/// A line doesn't keep what was added to it longer than until it has run or was cancelled.
protocol DeliveryLine: AnyObject, Sendable {
  /// On the thread that posts. Doesn't wait. After `close` nothing happens.
  func add(_ delivery: @escaping @Sendable () -> Void)

  /// The observation is over: what has not begun doesn't begin any more.
  /// - Returns: what is left of it, for the caller to release.
  func close() -> AnyObject?
}
