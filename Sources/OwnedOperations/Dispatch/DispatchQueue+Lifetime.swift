import Dispatch

extension DispatchQueue {
  /// Runs the body on this queue unless `lifetime` has ended by then.
  ///
  /// ```swift
  /// let session = OwnerLifetime(name: "session")
  /// DispatchQueue.global().async(lifetime: session) { print("still logged in") }
  /// session.end()  // what has not started never starts
  /// ```
  ///
  /// When the lifetime ends, or has ended, the body and all it captures are released in the background, at once. The queue may be busy or
  /// suspended. The pending block keeps the lifetime, but not the owner: the body must not capture it. Constant time.
  /// - Parameters:
  ///   - lifetime: its end cancels the body.
  ///   - group: entered now. Left when the body has been released, after it ran or because the lifetime ended.
  ///   - qos: as for GCD's own `async`.
  ///   - flags: as for GCD's own `async`.
  ///   - body: called at most once, on this queue.
  public func async(
    lifetime: OwnerLifetime, group: DispatchGroup? = nil, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable () -> Void
  ) {
    guard lifetime.isAlive else { return }
    guard let group else {
      submit(PendingBlock(lifetime, body), qos: qos, flags: flags)
      return
    }
    let grouped = GroupedBody(body, in: group)
    submit(PendingBlock(lifetime) { grouped.body?() }, qos: qos, flags: flags)
  }

  /// Runs the body on this queue after `deadline`, unless `lifetime` has ended by then.
  ///
  /// ```swift
  /// let session = OwnerLifetime(name: "session")
  /// DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(3_600), lifetime: session) { print("renew") }
  /// session.end()  // releases the closure now, not in an hour
  /// ```
  ///
  /// When the lifetime ends, the body, all it captures and the timer are released in the background, at once and not at the
  /// deadline. On a suspended queue the timer itself (about 400 bytes, nothing of the caller's) stays until the queue is resumed. Constant
  /// time.
  /// - Parameters:
  ///   - deadline: when to run the body, at the earliest, with GCD's own leeway of a tenth of the delay, from a millisecond to a minute. If
  ///     it has passed, now.
  ///   - lifetime: its end cancels the body.
  ///   - qos: as for GCD's own `asyncAfter`.
  ///   - flags: as for GCD's own `asyncAfter`.
  ///   - body: called at most once, on this queue.
  public func asyncAfter(
    deadline: DispatchTime, lifetime: OwnerLifetime, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable () -> Void
  ) {
    guard lifetime.isAlive else { return }
    let timer = makeTimer()
    let delayed = DelayedBody(body, on: timer)
    submit(PendingBlock(lifetime) { delayed.body() }, on: timer, deadline: deadline, qos: qos, flags: flags)
  }
}
