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
/// The body is released as soon as it has run, or the operation is cancelled before it has started; the value lives as long as the operation.
public final class OwnedResultOperation<Output: Sendable>: OwnedOperation, @unchecked Sendable {
  // `@unchecked Sendable`: all that is stored is guarded by the operation's lock, except `isAsynchronous`, which never changes.
  private enum Body {
    case synchronous(@Sendable () throws -> Output)
    case asynchronous(@Sendable () async throws -> Output)
  }

  private var body: Body?
  private var result: Output?
  private var task: Task<Void, Never>?
  private let hasTask: Bool

  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () throws -> Output) {
    self.body = .synchronous(body)
    hasTask = false
    super.init(lifetime: lifetime)
  }

  /// The body runs in a task, which is cancelled with the operation; the operation finishes when the body has come to its end.
  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () async throws -> Output) {
    self.body = .asynchronous(body)
    hasTask = true
    super.init(lifetime: lifetime)
  }

  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () throws -> Output) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () async throws -> Output) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  /// What the body returned; nil unless the operation has succeeded.
  public var output: Output? {
    guard case .succeeded? = outcome else { return nil }
    return lock.withLock { result }
  }

  /// Waits for the operation to finish. It is not started by this; it is not cancelled when the task that waits is.
  /// - Throws: what the body threw; `CancellationError` if the operation was cancelled, or the task that waits is.
  public var value: Output {
    get async throws {
      try await finished()
      if case .failed(let error)? = outcome { throw error }
      guard let output else { throw CancellationError() }
      return output
    }
  }

  public override var isAsynchronous: Bool { hasTask }

  public override func perform() throws {
    switch takeBody() {
    case .synchronous(let body)?: keep(try body())
    case .asynchronous(let body)?: begin(body)
    case nil: break
    }
  }

  private func begin(_ body: @escaping @Sendable () async throws -> Output) {
    let work = WorkBox(body)
    let new = Task(priority: TaskPriority(qualityOfService)) { [self] in
      do {
        keep(try await work.run())
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

  private func takeBody() -> Body? {
    lock.withLock {
      defer { body = nil }
      return body
    }
  }

  override var mayHaveCondition: Bool { false }

  override func releaseWork() {
    _ = takeBody()
    var former: Task<Void, Never>?
    lock.withLock { swap(&former, &task) }
  }

  override func cancelWork() { lock.withLock { task }?.cancel() }
  override var finishesOnTimeout: Bool { false }
  override var ignoresCancellation: Bool { !hasTask }
}

/// An asynchronous body, given up when it has run: before the operation finishes, though the task that ran it goes on for a moment.
final class WorkBox<Output: Sendable>: @unchecked Sendable {  // used by the one task that runs it
  private var body: (@Sendable () async throws -> Output)?

  init(_ body: @escaping @Sendable () async throws -> Output) { self.body = body }

  func run() async throws -> Output {
    defer { body = nil }
    guard let body else { throw CancellationError() }
    return try await body()
  }
}
