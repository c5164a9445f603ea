import Dispatch

extension DispatchQueue {
  /// Runs the body on this queue, on behalf of an object that holds no token, unless it has been deinitialised by then.
  ///
  /// ```swift
  /// final class Cache: Sendable {
  ///   func trim() { print("trimmed") }
  /// }
  ///
  /// let cache = Cache()
  /// DispatchQueue.global().async(owner: cache) { cache in cache.trim() }
  /// ```
  ///
  /// The object is held weakly until the body runs, and strongly while it runs. The body must not capture it: it gets it. When the object
  /// ends, the body and its captures are released at once, in the background. A body that is running runs to its end.
  ///
  /// The lifetime is that of ``OwnerLifetime/of(_:)-(AnyObject)``, which is looked up by address at every call. Where a great many blocks
  /// are submitted, fetch the lifetime once and use the `lifetime:` form, or store a token.
  /// - Parameters:
  ///   - owner: the object whose deinit cancels the body.
  ///   - group: entered now. Left when the body has been released, after it ran or because the owner ended.
  ///   - qos: as for GCD's own `async`.
  ///   - flags: as for GCD's own `async`.
  ///   - body: called at most once, on this queue.
  /// - Complexity: constant on average.
  @_disfavoredOverload
  public func async<Owner: AnyObject & Sendable>(
    owner: Owner, group: DispatchGroup? = nil, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable (Owner) -> Void
  ) {
    async(owner, OwnerLifetime.of(owner as AnyObject), group: group, qos: qos, flags: flags, body)
  }

  /// Runs the body on this queue after `deadline`, on behalf of an object that holds no token, unless it has been deinitialised by then.
  ///
  /// ```swift
  /// final class Cache: Sendable {
  ///   func trim() { print("trimmed") }
  /// }
  ///
  /// let cache = Cache()
  /// DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(60), owner: cache) { cache in cache.trim() }
  /// ```
  ///
  /// The object is held weakly until the body runs, and strongly while it runs. The body must not capture it: it gets it. When the object
  /// ends, the body, all it captures and the timer are released in the background, at once and not at the deadline.
  /// - Parameters:
  ///   - deadline: when to run the body, at the earliest, with GCD's own leeway of a tenth of the delay, from a millisecond to a minute. If
  ///     it has passed, now.
  ///   - owner: the object whose deinit cancels the body.
  ///   - qos: as for GCD's own `asyncAfter`.
  ///   - flags: as for GCD's own `asyncAfter`.
  ///   - body: called at most once, on this queue.
  /// - Complexity: constant on average.
  @_disfavoredOverload
  public func asyncAfter<Owner: AnyObject & Sendable>(
    deadline: DispatchTime, owner: Owner, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable (Owner) -> Void
  ) {
    asyncAfter(deadline, owner, OwnerLifetime.of(owner as AnyObject), qos: qos, flags: flags, body)
  }
}
