import Foundation

/// An owned operation that makes a value, with a body that is synchronous or asynchronous.
///
/// ```swift
/// let queue = OwnerScopedQueue()
/// let size = OwnedResultOperation(lifetime: OwnerLifetime()) { try Data(contentsOf: URL(filePath: "/etc/hosts")).count }
/// queue.addOperation(size)
/// print(try await size.value)
/// ```
///
/// The body is released as soon as it has run. When the operation is cancelled before it has started, the body is released in the
/// background. The value lives as long as the operation.
public final class OwnedResultOperation<Output: Sendable>: OwnedOperation, @unchecked Sendable {
  // Safe to share: all that is stored is guarded by the operation's lock, except `isAsynchronous`, which never changes.
  private var body: ResultBody<Output>?
  private var result: Output?
  private var task: Task<Void, Never>?
  private let hasTask: Bool

  /// Makes an operation whose body runs on the thread that starts it. What it returns is the ``output``.
  /// - Parameters:
  ///   - lifetime: its end cancels the operation.
  ///   - body: runs once at most. What it throws is the operation's outcome.
  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () throws -> Output) {
    self.body = .synchronous(body)
    hasTask = false
    super.init(lifetime: lifetime)
  }

  /// Makes an operation whose body runs in a task, which is cancelled with the operation. The operation finishes when the body has come to
  /// its end.
  /// - Parameters:
  ///   - lifetime: its end cancels the operation.
  ///   - body: runs once at most. What it throws is the operation's outcome.
  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () async throws -> Output) {
    self.body = .asynchronous(body)
    hasTask = true
    super.init(lifetime: lifetime)
  }

  /// Makes an operation for an owner that holds a token. The body runs on the thread that starts it. The body keeps what it captures until
  /// it has run, so it must not capture the owner.
  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () throws -> Output) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  /// Makes an operation for an owner that holds a token. The body runs in a task, which is cancelled with the operation. The body keeps
  /// what it captures until it has run, so it must not capture the owner.
  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () async throws -> Output) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  /// What the body returned; nil unless the operation has succeeded.
  public var output: Output? {
    guard case .succeeded? = outcome else { return nil }
    return lock.withLock { result }
  }

  /// Waits for the operation to finish. It is not started by this, and not cancelled when the task that waits is.
  /// - Throws: what the body threw. `CancellationError` if the operation was cancelled, or the task that waits is.
  public var value: Output {
    get async throws {
      try await finishedUnlessCancelled()
      if case .failed(let error)? = outcome { throw error }
      guard let output else { throw CancellationError() }
      return output
    }
  }

  /// Blocks this thread until the operation has finished, and returns its value. It is not started by this. A worker that calls it says
  /// so to its queue, as with ``OwnedOperation/waitUntilFinished()``. On the main thread, outside of such work, it must not be called for
  /// an operation of the main queue. As in Foundation, it would wait for ever.
  /// - Throws: what the body threw. `CancellationError` if the operation was cancelled. ``OwnerScopedQueueError/waitingForItself(_:)``
  ///   inside the operation's own body.
  @available(*, noasync, message: "Use value instead")
  public func get() throws -> Output {
    if OperationThread.isInside(self), !load().isFinished { throw OwnerScopedQueueError.waitingForItself(label) }
    blockUntilFinished()
    if case .failed(let error)? = outcome { throw error }
    guard let output else { throw CancellationError() }
    return output
  }

  /// Whether the body runs in a task.
  public override var isAsynchronous: Bool { hasTask }

  /// Runs the body, on the thread that starts the operation, or begins its task. What the body throws is the outcome.
  public override func perform() throws {
    switch takeBody() {
    case .synchronous(let body)?:
      defer { withExtendedLifetime(body) { bodyIsOver() } }
      keep(try body())
    case .asynchronous(let body)?: begin(body)
    case nil: break
    }
  }

  private func begin(_ body: @escaping @Sendable () async throws -> Output) {
    let work = WorkBox(body)
    let new = Task(executorPreference: drivenExecutor, priority: TaskPriority(qualityOfService)) { [self] in
      do {
        if mayBeginInTask { keep(try await runInTask { try await work.run() }) } else { work.giveUp() }
        finish()
      } catch {
        finish(throwing: error)
      }
    }
    lock.withLock { if !load().contains(.finishClaimed) { task = new } }
    // A cancellation that came before the task was there to be cancelled.
    if isCancelled { new.cancel() }
  }

  private func keep(_ output: Output) { lock.withLock { result = output } }

  private func takeBody() -> ResultBody<Output>? {
    lock.withLock {
      defer { body = nil }
      return body
    }
  }

  override var mayHaveCondition: Bool { false }

  override func releaseWork() {
    if let body = takeBody() { DeferredReleases.add(consume body) }
    var former: Task<Void, Never>?
    lock.withLock { swap(&former, &task) }
    if let task = former.take() { DeferredReleases.add(consume task) }
  }

  override func cancelWork() { lock.withLock { task }?.cancel() }
  override var finishesOnTimeout: Bool { false }
  override var ignoresCancellation: Bool { !hasTask }
}

/// What makes a value.
enum ResultBody<Output: Sendable>: Sendable {
  case synchronous(@Sendable () throws -> Output)
  case asynchronous(@Sendable () async throws -> Output)
}

/// An asynchronous body, given up when it has run: before the operation finishes, though the task that ran it goes on for a moment.
final class WorkBox<Output: Sendable>: Sendable {
  private struct State {
    var body: (@Sendable () async throws -> Output)?
  }

  private let state: Locked<State>

  init(_ body: @escaping @Sendable () async throws -> Output) { state = Locked(State(body: body)) }

  /// The body will not run.
  func giveUp() {
    if let body = state.withLock({ $0.body.take() }) { DeferredReleases.add(consume body) }
  }

  func run() async throws -> Output {
    guard let body = state.withLock({ $0.body.take() }) else { throw CancellationError() }
    return try await body()
  }
}
