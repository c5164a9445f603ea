import Foundation

/// Work in the background for an owner that lives on an actor, and a handler that comes back to it: one call.
///
/// The work gets no owner and holds none; only the lifetime. The handler gets the owner, on the owner's actor, unless the owner has ended
/// by then. That is decided there, right before the handler begins. So an owner that is confined to an actor is never touched anywhere
/// else, and need not be Sendable.
extension OwnerScopedQueue {
  /// Runs the work on this queue, then the handler with the owner where this was called. That is the main actor, another global actor, or
  /// inside an actor. The owner need not be Sendable.
  ///
  /// ```swift
  /// final class Controller {  // not Sendable
  ///   let queue = OwnerScopedQueue()
  ///   var title = ""
  ///
  ///   @MainActor func load() {
  ///     queue.run(for: self) {
  ///       try String(contentsOfFile: "/etc/hostname", encoding: .utf8)
  ///     } then: { controller, result in
  ///       controller.title = (try? result.get()) ?? "none"
  ///     }
  ///   }
  /// }
  /// ```
  ///
  /// The handler is a closure of the caller's actor, and may use what that may use. It must not capture the owner: it gets it. It is called
  /// once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's end leaves it uncalled.
  /// Then it is released in the background, with what it captured, together with work that has not begun. On the main actor it is a job of
  /// ``main``, and handlers run in the order in which their work ended. Elsewhere they run in the order in which the actor takes its mail.
  ///
  /// Code that belongs to no actor can't call this: there would be nowhere to come back to. There, use the `onMain:` form.
  /// - Parameters:
  ///   - owner: held by nobody until the handler runs, strongly while it runs.
  ///   - priority: of the work in this queue.
  ///   - isolation: the caller's. Leave it out.
  ///   - work: a body of this queue, as with ``addOperation(lifetime:priority:_:)``.
  ///   - handler: called on the caller's actor.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: AnyObject, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, isolation: isolated any Actor = #isolation,
    _ work: @escaping @Sendable () throws -> Value, then handler: @escaping (Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledOperation(lifetime, work, Self.handler(owner, lifetime, isolation, handler)), priority)
  }

  /// Runs asynchronous work on this queue, in a task, then the handler with the owner where this was called. That is the main actor,
  /// another global actor, or inside an actor. The owner need not be Sendable.
  ///
  /// The handler is called once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's
  /// end leaves it uncalled: the task is cancelled then, and what has not begun is released in the background.
  /// - Parameters:
  ///   - owner: held by nobody until the handler runs, strongly while it runs.
  ///   - priority: of the work in this queue.
  ///   - isolation: the caller's. Leave it out.
  ///   - work: has one place among those that execute, for all of its life.
  ///   - handler: called on the caller's actor. Gets the owner, which it must not capture.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: AnyObject, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, isolation: isolated any Actor = #isolation,
    _ work: @escaping @Sendable () async throws -> Value, then handler: @escaping (Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledAsyncOperation(lifetime, work, Self.handler(owner, lifetime, isolation, handler)), priority)
  }

  /// Runs the work on this queue, then the handler on the main actor with the owner. The owner is Sendable, such as one whose class is
  /// `@MainActor`. From any thread.
  ///
  /// ```swift
  /// @MainActor final class Model {
  ///   var count = 0
  /// }
  ///
  /// func load(_ model: Model, on queue: OwnerScopedQueue) {
  ///   queue.run(for: model) { 42 } onMain: { model, result in model.count = (try? result.get()) ?? 0 }
  /// }
  /// ```
  ///
  /// The handler is called once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's
  /// end leaves it uncalled, and has it released in the background together with work that has not begun. It is a job of ``main``; handlers
  /// run in the order in which their work ended.
  /// - Parameters:
  ///   - owner: held by nobody until the handler runs, strongly while it runs.
  ///   - priority: of the work in this queue.
  ///   - work: a body of this queue, as with ``addOperation(lifetime:priority:_:)``.
  ///   - handler: called on the main actor. Gets the owner, which it must not capture.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: AnyObject & Sendable, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, _ work: @escaping @Sendable () throws -> Value,
    onMain handler: @escaping @MainActor (Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledOperation(lifetime, work, Self.mainHandler(owner, lifetime, handler)), priority)
  }

  /// Runs asynchronous work on this queue, in a task, then the handler on the main actor with the owner, which is Sendable. From any
  /// thread.
  ///
  /// The handler is called once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's
  /// end leaves it uncalled: the task is cancelled then, and what has not begun is released in the background.
  /// - Parameters:
  ///   - owner: held by nobody until the handler runs, strongly while it runs.
  ///   - priority: of the work in this queue.
  ///   - work: has one place among those that execute, for all of its life.
  ///   - handler: called on the main actor. Gets the owner, which it must not capture.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: AnyObject & Sendable, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, _ work: @escaping @Sendable () async throws -> Value,
    onMain handler: @escaping @MainActor (Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledAsyncOperation(lifetime, work, Self.mainHandler(owner, lifetime, handler)), priority)
  }

  /// Runs the work on this queue, then the handler on the actor that is the owner. From any thread.
  ///
  /// ```swift
  /// actor Library {
  ///   var titles: [String] = []
  ///   func load(on queue: OwnerScopedQueue) {
  ///     queue.run(for: self) { ["Moby-Dick"] } then: { library, result in library.titles = (try? result.get()) ?? [] }
  ///   }
  /// }
  /// ```
  ///
  /// The handler is called once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's
  /// end leaves it uncalled, and has it released in the background together with work that has not begun. From the moment at which the
  /// handler stands in the actor's mailbox, that holds the actor, as it does for all calls.
  /// - Parameters:
  ///   - owner: held by nobody until the handler is in its mailbox.
  ///   - priority: of the work in this queue.
  ///   - work: a body of this queue, as with ``addOperation(lifetime:priority:_:)``.
  ///   - handler: called on the actor, which it gets.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: Actor, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, _ work: @escaping @Sendable () throws -> Value,
    then handler: @escaping @Sendable (isolated Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledOperation(lifetime, work, Self.actorHandler(owner, lifetime, handler)), priority)
  }

  /// Runs asynchronous work on this queue, in a task, then the handler on the actor that is the owner. From any thread.
  ///
  /// The handler is called once, whatever comes of the work, with a `CancellationError` if the operation was cancelled. Only the owner's
  /// end leaves it uncalled: the task is cancelled then, and what has not begun is released in the background. From the moment at which the
  /// handler stands in the actor's mailbox, that holds the actor.
  /// - Parameters:
  ///   - owner: held by nobody until the handler is in its mailbox.
  ///   - priority: of the work in this queue.
  ///   - work: has one place among those that execute, for all of its life.
  ///   - handler: called on the actor, which it gets.
  /// - Returns: the operation that does the work, to be cancelled or looked at. Whoever waits for it doesn't wait for the handler.
  @discardableResult
  public func run<Owner: Actor, Value: Sendable>(
    for owner: Owner, priority: Operation.QueuePriority = .normal, _ work: @escaping @Sendable () async throws -> Value,
    then handler: @escaping @Sendable (isolated Owner, Result<Value, any Error>) -> Void
  ) -> OwnedOperation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return add(HandledAsyncOperation(lifetime, work, Self.actorHandler(owner, lifetime, handler)), priority)
  }

  private func add(_ operation: OwnedOperation, _ priority: Operation.QueuePriority) -> OwnedOperation {
    if priority != .normal { operation.queuePriority = priority }
    addOperation(operation)
    return operation
  }

  // MARK: Handlers

  private static func handler<Owner: AnyObject, Value: Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ isolation: any Actor, _ handler: @escaping (Owner, Result<Value, any Error>) -> Void
  ) -> ResultHandler<Value> {
    // It is called on the actor that it was made on, and only released elsewhere.
    nonisolated(unsafe) let handler = handler
    let hold = OwnerHold.of(owner, lifetime)
    if isolation === MainActor.shared {
      return ResultHandler(lifetime) { result in
        main.runOnMain(lifetime, hold, .normal) { owner in handler(unsafeDowncast(owner, to: Owner.self), result) }
      }
    }
    // An actor that holds the owner must not be held by the owner's work.
    let actor = WeakActor(isolation)
    return ResultHandler(lifetime) { result in
      PendingBlock(lifetime, hold, at: .actor(actor)) { owner in handler(unsafeDowncast(owner, to: Owner.self), result) }.submitToActor()
    }
  }

  private static func mainHandler<Owner: AnyObject & Sendable, Value: Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ handler: @escaping @MainActor (Owner, Result<Value, any Error>) -> Void
  ) -> ResultHandler<Value> {
    let hold = OwnerHold.of(owner, lifetime)
    return ResultHandler(lifetime) { result in
      main.runOnMain(lifetime, hold, .normal, ErasedOwnerBody.erase(onMain: { (owner: Owner) in handler(owner, result) }))
    }
  }

  private static func actorHandler<Owner: Actor, Value: Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ handler: @escaping @Sendable (isolated Owner, Result<Value, any Error>) -> Void
  ) -> ResultHandler<Value> {
    let hold = OwnerHold.of(owner, lifetime)
    let actor = WeakActor(owner)
    return ResultHandler(lifetime) { result in
      let block = PendingBlock(lifetime, hold, at: .actor(actor)) { owner in
        unsafeDowncast(owner, to: Owner.self).assumeIsolated { handler($0, result) }
      }
      block.submitToActor()
    }
  }
}
