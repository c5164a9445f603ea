/// Where the deliveries of an observation run that has a queue: one at a time, in the order in which they were added.
///
/// A line doesn't keep what was added to it longer than until it has run or was cancelled.
protocol DeliveryLine: AnyObject, Sendable {
  /// On the thread that posts. Doesn't wait. After `close` nothing happens.
  /// - Parameter delivery: returns what is to be released when it is over.
  func add(_ delivery: @escaping @Sendable () -> AnyObject?)

  /// The observation is over: what has not begun doesn't begin any more.
  /// - Parameter inBackground: whether what is left of it is released in the background.
  /// - Returns: otherwise what the caller is to release.
  func close(inBackground: Bool) -> AnyObject?
}
