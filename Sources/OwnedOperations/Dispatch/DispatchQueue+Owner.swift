import Dispatch

extension DispatchQueue {
  /// Runs the body on this queue, on behalf of `owner`, unless the owner has ended by then.
  ///
  /// ```swift
  /// final class Screen: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
  ///   func show(_ text: String) { print(text) }
  /// }
  ///
  /// let screen = Screen()
  /// DispatchQueue.global().async(owner: screen) { screen in
  ///   screen.show("loaded")
  /// }
  /// ```
  ///
  /// The owner is held weakly until the body runs, and strongly while it runs. The body must not capture the owner: it gets it. When the
  /// owner ends, or has ended, the body and all it captures are released in the background, at once. The queue may be busy or suspended;
  /// what stays in the queue until its turn is an empty block. If the owner ends while the body runs, the body runs to its end. The last
  /// reference to the owner may go on this queue then. Constant time.
  /// - Parameters:
  ///   - owner: the object whose end cancels the body.
  ///   - group: entered now. Left when the body has been released, after it ran or because the owner ended.
  ///   - qos: as for GCD's own `async`.
  ///   - flags: as for GCD's own `async`.
  ///   - body: called at most once, on this queue.
  public func async<Owner: OperationOwner & Sendable>(
    owner: Owner, group: DispatchGroup? = nil, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable (Owner) -> Void
  ) {
    async(owner, owner.lifetime, group: group, qos: qos, flags: flags, body)
  }

  /// Runs the body on this queue after `deadline`, on behalf of `owner`, unless the owner has ended by then.
  ///
  /// ```swift
  /// final class SearchField: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "search field")
  ///   func search() { print("searching") }
  /// }
  ///
  /// let field = SearchField()
  /// DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(300), owner: field) { field in
  ///   field.search()
  /// }
  /// ```
  ///
  /// The owner is held as in `async(owner:execute:)`. When the owner ends, the body, all it captures and the timer are released in the
  /// background, at once and not at the deadline. On a suspended queue the timer itself (about 400 bytes, nothing
  /// of the caller's) stays until the queue is resumed. Constant time.
  /// - Parameters:
  ///   - deadline: when to run the body, at the earliest, with GCD's own leeway of a tenth of the delay, from a millisecond to a minute. If
  ///     it has passed, now.
  ///   - owner: the object whose end cancels the body.
  ///   - qos: as for GCD's own `asyncAfter`.
  ///   - flags: as for GCD's own `asyncAfter`.
  ///   - body: called at most once, on this queue.
  public func asyncAfter<Owner: OperationOwner & Sendable>(
    deadline: DispatchTime, owner: Owner, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [],
    execute body: @escaping @Sendable (Owner) -> Void
  ) {
    asyncAfter(deadline, owner, owner.lifetime, qos: qos, flags: flags, body)
  }

  func async<Owner: AnyObject & Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, group: DispatchGroup?, qos: DispatchQoS, flags: DispatchWorkItemFlags,
    _ body: @escaping @Sendable (Owner) -> Void
  ) {
    guard lifetime.isAlive else { return }
    let place = BlockPlace.queue(DispatchPlace(queue: self, qos: qos, flags: flags))
    let block: PendingBlock
    if let group {
      let grouped = GroupedBody(body, in: group)
      block = PendingBlock(lifetime, owner, at: place) { owner in grouped.body?(owner) }
    } else {
      block = PendingBlock(lifetime, owner, at: place, body)
    }
    submit(block, qos: qos, flags: flags)
    block.wasSubmitted()
  }

  func asyncAfter<Owner: AnyObject & Sendable>(
    _ deadline: DispatchTime, _ owner: Owner, _ lifetime: OwnerLifetime, qos: DispatchQoS, flags: DispatchWorkItemFlags,
    _ body: @escaping @Sendable (Owner) -> Void
  ) {
    guard lifetime.isAlive else { return }
    let timer = makeTimer()
    let delayed = DelayedBody(body, on: timer)
    let place = BlockPlace.queue(DispatchPlace(queue: self, qos: qos, flags: flags))
    let block = PendingBlock(lifetime, owner, at: place) { owner in delayed.body(owner) }
    submit(block, on: timer, deadline: deadline, qos: qos, flags: flags)
  }
}
