extension Protected {
  /// Writes later, on a thread of the queue, on behalf of an owner. The body runs alone there, and is skipped once the owner has ended.
  /// This call returns at once.
  ///
  /// ```swift
  /// final class Screen: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
  /// }
  ///
  /// let screen = Screen()
  /// let titles = Protected([String]())
  /// titles.writeLater(owner: screen) { _, titles in titles.append("loaded") }
  /// ```
  ///
  /// Late writes to one object run in the order in which they were asked for, if they go to the same queue. The body takes the hold that
  /// ``write(file:line:_:)`` takes, and so runs alone. A read that begins after it, or that was called by it, sees what it wrote.
  ///
  /// While nothing but running bodies of its own work holds an owner, its late writes are held back (<doc:HoldingOwners>). In the object's
  /// own queue those of other owners go on meanwhile, and come before it; an owner's own stay in order. In a queue that you name a late
  /// write is a barrier like any other (``OwnerScopedQueue/addBarrier(owner:_:)-85ulm``): what comes behind it waits.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - queue: the body is a barrier there. It runs when what was added before has finished. By default a queue of this object's own, to
  ///     which nothing but late writes goes.
  ///   - file: of the call, for messages. Leave it out.
  ///   - line: of the call, for messages. Leave it out.
  ///   - body: called at most once. Released in the background when the owner ends.
  /// - Complexity: constant; with a queue that you name, linear in its workers.
  public func writeLater<Owner: OperationOwner & Sendable>(
    owner: Owner, on queue: OwnerScopedQueue? = nil, file: StaticString = #fileID, line: UInt = #line,
    _ body: @escaping @Sendable (Owner, inout State) -> Void
  ) {
    let write: @Sendable (Owner) -> Void = { owner in self.write(file: file, line: line) { body(owner, &$0) } }
    if let queue { queue.addBarrier(owner: owner, write) } else { queueForLateWrites.async(owner: owner, execute: write) }
  }

  /// Writes later, on a thread of the queue, on behalf of an object that holds no token. The body runs alone there, once, and is skipped
  /// once the object has ended. This call returns at once.
  ///
  /// Late writes run in the order in which they were asked for, if they go to the same queue. They are held back while nothing but running
  /// bodies of its own work holds the object (<doc:HoldingOwners>).
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - queue: the body is a barrier there. By default a queue of this object's own, to which nothing but late writes goes.
  ///   - file: of the call, for messages. Leave it out.
  ///   - line: of the call, for messages. Leave it out.
  ///   - body: called at most once. Released in the background when the object ends.
  /// - Complexity: constant on average; with a queue that you name, linear in its workers.
  @_disfavoredOverload
  public func writeLater<Owner: AnyObject & Sendable>(
    owner: Owner, on queue: OwnerScopedQueue? = nil, file: StaticString = #fileID, line: UInt = #line,
    _ body: @escaping @Sendable (Owner, inout State) -> Void
  ) {
    let write: @Sendable (Owner) -> Void = { owner in self.write(file: file, line: line) { body(owner, &$0) } }
    if let queue { queue.addBarrier(owner: owner, write) } else { queueForLateWrites.async(owner: owner, execute: write) }
  }

  /// Writes later, on a thread of the queue, on behalf of a lifetime. The body runs alone there, once, and is skipped once the lifetime has
  /// ended. This call returns at once.
  ///
  /// Late writes run in the order in which they were asked for, if they go to the same queue.
  /// - Parameters:
  ///   - lifetime: kept until the body has run. Its owner is not held, and the body must not capture it.
  ///   - queue: the body is a barrier there. By default a queue of this object's own, to which nothing but late writes goes.
  ///   - file: of the call, for messages. Leave it out.
  ///   - line: of the call, for messages. Leave it out.
  ///   - body: called at most once. Released in the background when the lifetime ends.
  /// - Complexity: constant; with a queue that you name, linear in its workers.
  public func writeLater(
    lifetime: OwnerLifetime, on queue: OwnerScopedQueue? = nil, file: StaticString = #fileID, line: UInt = #line,
    _ body: @escaping @Sendable (inout State) -> Void
  ) {
    let write: @Sendable () -> Void = { self.write(file: file, line: line) { body(&$0) } }
    if let queue { queue.addBarrier(lifetime: lifetime, write) } else { queueForLateWrites.async(lifetime: lifetime, execute: write) }
  }

  /// Returns when the late writes that went to the object's own queue have run or been skipped, those that are held back included. Not from
  /// inside one of them.
  /// - Complexity: beside the wait, constant.
  public func lateWritesFinished() async { await lateWrites.made(OwnerScopedQueue.self)?.finished() }
}

extension Protected {
  /// For late writes that name no queue, and nothing else: with one at a time, in order, a job is as good as a barrier. And it doesn't hold
  /// up the others when it is held back. Made when there is the first.
  private var queueForLateWrites: OwnerScopedQueue {
    lateWrites.object { OwnerScopedQueue(name: "Protected", maxConcurrentOperationCount: 1) }
  }
}
