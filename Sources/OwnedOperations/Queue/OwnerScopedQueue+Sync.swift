import Foundation

/// Waiting for a body, as with `DispatchQueue.sync`.
extension OwnerScopedQueue {
  /// Runs the body on this queue with the owner, when its turn comes, and returns what it returns. Blocks this thread until then.
  ///
  /// ```swift
  /// final class Screen: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
  ///   var title: String { "News" }
  /// }
  ///
  /// func show(_ screen: Screen, _ queue: OwnerScopedQueue) {
  ///   guard let title = queue.sync(owner: screen, execute: { $0.title }) else { return }  // nil: the screen has ended
  ///   print(title)
  /// }
  /// ```
  ///
  /// The body runs on a thread of the queue, on its terms: limit, priority, suspension, barriers. A worker of another queue that calls this
  /// keeps its place there meanwhile.
  ///
  /// Called from inside a body of this same queue, it is part of that body. It runs at once, on this thread, in that body's place. So it
  /// does on the main thread, if this is the main queue or one on top of `DispatchQueue.main`. With another serial underlying queue, a call
  /// from a block of that queue that isn't work of this one never returns, as in GCD.
  /// - Returns: nil if the body never ran, because the owner had ended or its work was cancelled before.
  /// - Throws: what the body throws.
  /// - Complexity: beside the wait and the body, constant.
  @available(*, noasync, message: "Use run(owner:) instead")
  @discardableResult
  public func sync<Owner: OperationOwner & Sendable, Value: Sendable, Failure: Error>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) throws(Failure) -> Value
  ) throws(Failure) -> Value? {
    try sync(owner, owner.lifetimeToken.lifetime, priority, body)
  }

  /// Runs the body on this queue with an object that holds no token, when its turn comes, and returns what it returns. Blocks this thread
  /// until then.
  ///
  /// The body runs on a thread of the queue, on its terms: limit, priority, suspension, barriers. Called from inside a body of this same
  /// queue, or on its only thread, it runs at once, on this thread.
  /// - Parameters:
  ///   - owner: held by the caller meanwhile, and so by the body.
  ///   - priority: among what is ready.
  ///   - body: runs once, or not at all.
  /// - Returns: nil if the body never ran, because the object had ended or its work was cancelled before.
  /// - Throws: what the body throws.
  /// - Complexity: beside the wait and the body, constant on average.
  @available(*, noasync, message: "Use run(owner:) instead")
  @_disfavoredOverload @discardableResult
  public func sync<Owner: AnyObject & Sendable, Value: Sendable, Failure: Error>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) throws(Failure) -> Value
  ) throws(Failure) -> Value? {
    try sync(owner, OwnerLifetime.of(owner as AnyObject), priority, body)
  }

  /// Runs the body on this queue for a lifetime, when its turn comes, and returns what it returns. Blocks this thread until then.
  ///
  /// The body runs on a thread of the queue, on its terms: limit, priority, suspension, barriers. Called from inside a body of this same
  /// queue, or on its only thread, it runs at once, on this thread.
  /// - Parameters:
  ///   - lifetime: its end cancels the body. Its owner is not held.
  ///   - priority: among what is ready.
  ///   - body: runs once, or not at all.
  /// - Returns: nil if the body never ran, because the lifetime had ended or its work was cancelled before.
  /// - Throws: what the body throws.
  /// - Complexity: beside the wait and the body, constant.
  @available(*, noasync, message: "Use run(lifetime:) instead")
  @discardableResult
  public func sync<Value: Sendable, Failure: Error>(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable () throws(Failure) -> Value
  ) throws(Failure) -> Value? {
    if isInsideBodyOrItsOnlyThread { return lifetime.isAlive ? try body() : nil }
    let answer = Answer<Value, Failure>()
    let operation = addOperation(lifetime: lifetime, priority: priority) {
      answer.give(Result { () throws(Failure) -> Value in try body() })
    }
    return try answer.value(after: operation)
  }

  private func sync<Owner: AnyObject & Sendable, Value: Sendable, Failure: Error>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority,
    _ body: @escaping @Sendable (Owner) throws(Failure) -> Value
  ) throws(Failure) -> Value? {
    if isInsideBodyOrItsOnlyThread { return lifetime.isAlive ? try body(owner) : nil }
    let answer = Answer<Value, Failure>()
    let operation = OwnerBlockOperation(owner, lifetime) { (owner: Owner) in
      answer.give(Result { () throws(Failure) -> Value in try body(owner) })
    }
    if priority != .normal { operation.queuePriority = priority }
    addOperation(operation)
    operation.holding.hold.lookAgainIfHeldBack()
    return try answer.value(after: operation)
  }

  /// Whether this thread is inside a body of this queue, which has the permit that another would need. Also true on the one thread that all
  /// of its bodies need.
  private var isInsideBodyOrItsOnlyThread: Bool {
    if let queue = underlyingQueue, MainQueue.isMain(queue), MainQueue.isCurrent { return true }
    // What a worker runs between bodies, deinits for example, has no permit.
    if let worker = Worker.current, worker.works(for: core) { return worker.isInBody }
    return OwnerScopedQueue.ofThisThread === self
  }
}

/// What a body returned or threw, for one who waits until it has.
private final class Answer<Value: Sendable, Failure: Error>: Sendable {
  private let result = Locked<Result<Value, Failure>?>(nil)

  func give(_ new: Result<Value, Failure>) { result.withLock { $0 = new } }

  func value(after operation: OwnedOperation) throws(Failure) -> Value? {
    operation.blockUntilFinished()
    guard let result = self.result.withLock({ $0 }) else { return nil }
    return try result.get()
  }
}
