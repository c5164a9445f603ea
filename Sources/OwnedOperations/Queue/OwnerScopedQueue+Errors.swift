import Foundation

/// Jobs that throw, and where their errors go.
///
/// A job has no outcome that somebody could ask for, so what its body throws goes to the queue's ``OwnerScopedQueue/onError``. Bodies that
/// don't throw have forms of their own, which know nothing of this, and pay nothing.
extension OwnerScopedQueue {
  /// Called with what the body of an `async(owner:)` job has thrown, and the identifier of the job's owner.
  ///
  /// ```swift
  /// let queue = OwnerScopedQueue()
  /// queue.onError = { owner, error in print("work of \(owner) failed: \(error)") }
  /// queue.async(lifetime: .process) { try FileManager.default.removeItem(atPath: "/no/such/file") }
  /// ```
  ///
  /// It runs in the background, some time after the body has thrown. It runs under no lock, without a place in the queue, and whether or
  /// not the owner has ended meanwhile. It may call anything, and may block. Calls begin in the order of the throws, and one that blocks is
  /// overtaken. Nobody waits for it: ``finished()`` may return before. The handler that is set when the body throws is the one that is
  /// called.
  ///
  /// By default, nil, an error is written to standard error, one line. A `CancellationError` is no error, but how a body says that it gave
  /// up: it goes nowhere. What the body of an operation throws is that operation's outcome, and doesn't come here.
  public var onError: (@Sendable (OwnerID, any Error) -> Void)? {
    get { extras.withLock { $0.jobErrors }?.handler }
    set { jobErrors.handler = newValue }
  }

  var jobErrors: JobErrors {
    if let known = extras.withLock({ $0.jobErrors }) { return known }
    let new = JobErrors()
    return extras.withLock { extras in
      if let known = extras.jobErrors { return known }
      extras.jobErrors = new
      return new
    }
  }

  /// Runs a body that may throw with the owner, unless the owner ends first. What it throws goes to ``onError``. A job: no `Operation`
  /// object.
  /// - Complexity: constant.
  @_disfavoredOverload
  public func async<Owner: OperationOwner & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) throws -> Void
  ) {
    submit(owner, owner.lifetimeToken.lifetime, priority, body)
  }

  /// Runs a body that may throw with an object that holds no token, unless it ends first. What it throws goes to ``onError``. A job: no
  /// `Operation` object.
  /// - Complexity: constant on average.
  @_disfavoredOverload
  public func async<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable (Owner) throws -> Void
  ) {
    submit(owner, OwnerLifetime.of(owner as AnyObject), priority, body)
  }

  /// Runs a body that may throw, unless the lifetime ends first. What it throws goes to ``onError``. A job: no `Operation` object.
  /// - Complexity: constant.
  @_disfavoredOverload
  public func async(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, execute body: @escaping @Sendable () throws -> Void
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    let (errors, id) = (jobErrors, lifetime.id)
    async(lifetime: lifetime, priority: priority) { errors.catching(for: id) { try body() } }
  }

  private func submit<Owner: AnyObject & Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority, _ body: @escaping @Sendable (Owner) throws -> Void
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    let (errors, id) = (jobErrors, lifetime.id)
    let throwing = ErasedOwnerBody.eraseThrowing(body)
    // The queue is not captured: the jobs of a suspended queue must not keep it.
    let erased: ErasedOwnerBody.Body = { owner in errors.catching(for: id) { try throwing(owner) } }
    let hold = lifetime.holdUnlessBound(to: owner)
    submit(.ownerJob(erased, heldBy: hold), lifetime: Borrowed(lifetime), priority: priority)
  }
}

/// Where the errors of a queue's jobs go. Outlives the queue if jobs are still running.
final class JobErrors: Sendable {
  private struct State {
    var handler: (@Sendable (OwnerID, any Error) -> Void)?
  }

  private let state = Locked(State())

  var handler: (@Sendable (OwnerID, any Error) -> Void)? {
    get { state.withLock { $0.handler } }
    set {
      var former = newValue
      state.withLock { swap(&former, &$0.handler) }  // the former one goes outside the lock
    }
  }

  func catching(for owner: OwnerID, _ body: () throws -> Void) {
    do { try body() } catch { report(error, of: owner) }
  }

  private func report(_ error: any Error, of owner: OwnerID) {
    guard !(error is CancellationError) else { return }
    if let handler {
      DeferredCalls.add { handler(owner, error) }
    } else {
      let line = "OwnedOperations: a job of \(owner) has thrown an error that nobody handles: \(error); set onError of its queue\n"
      DeferredCalls.add { FileHandle.standardError.write(Data(line.utf8)) }
    }
  }
}
