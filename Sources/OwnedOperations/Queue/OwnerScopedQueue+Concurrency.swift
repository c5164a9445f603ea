import Foundation
import Synchronization

/// Swift concurrency: tasks run on the queue's threads, and the end of an owner cancels them.
extension OwnerScopedQueue: TaskExecutor {
  /// For the Swift runtime: one step of a task that prefers this queue, as with `Task(executorPreference: queue)`. It runs like a job
  /// without an owner, at the priority of its task.
  public func enqueue(_ job: consuming ExecutorJob) {
    let priority = Operation.QueuePriority(job.priority)
    submit(.taskStep(UnownedJob(job)), lifetime: nil, priority: priority)
  }

  /// Runs an asynchronous body on the queue when its turn comes, and returns what it returns.
  ///
  /// The body inherits the priority and the task-local values of the caller; cancelling the caller cancels it. From its turn until it is
  /// over it counts as one executing operation, of the owner and of the queue. When the owner ends, the body never starts, or is cancelled.
  ///
  /// The owner is held from the body's start until the body is over, however long it is suspended in between: an owner can't go before.
  /// Where that may be long, use the `weaklyFor:` form. A caller that goes on holding the owner while it waits keeps it, too.
  ///
  /// The body has its place in the queue for all of its life. Only while it awaits other work of the queue may others have the place. It
  /// goes on when there is one again.
  /// - Throws: what the body throws. `CancellationError` if the owner ended or `cancelAllOperations()` was called before the body was over,
  ///   or if the caller was cancelled before the body began.
  public func run<Owner: OperationOwner & Sendable, T: Sendable>(
    owner: consuming Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = owner.lifetimeToken.lifetime
    let holding = OperationOwnerHold(consume owner, lifetime)
    return try await run(holding, lifetime, priority, body)
  }

  /// Runs an asynchronous body on the queue for an object that holds no token when its turn comes, and returns what it returns.
  ///
  /// The body inherits the priority and the task-local values of the caller; cancelling the caller cancels it. From its turn until it is
  /// over it counts as one executing operation, of the object and of the queue. While it awaits other work of the queue it doesn't count.
  /// When the object ends, the body never starts, or is cancelled.
  /// - Parameters:
  ///   - owner: held from the body's start until the body is over. Where that may be long, use the `weaklyFor:` form.
  ///   - priority: among what is ready.
  ///   - body: runs once, or not at all.
  /// - Throws: what the body throws. `CancellationError` if the object ended or `cancelAllOperations()` was called before the body was
  ///   over, or if the caller was cancelled before the body began.
  @_disfavoredOverload
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    owner: consuming Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    let holding = OperationOwnerHold(consume owner, lifetime)
    return try await run(holding, lifetime, priority, body)
  }

  /// Runs an asynchronous body that doesn't keep its owner: it gets a weak reference. The owner's end cancels the body, wherever it is
  /// suspended.
  ///
  /// ```swift
  /// final class Screen: Sendable {
  ///   func show(_ text: String) { print(text) }
  /// }
  ///
  /// let screen = Screen()
  /// try await OwnerScopedQueue().run(weaklyFor: screen) { screen in
  ///   try await Task.sleep(for: .seconds(60))  // the screen may go meanwhile, which ends the sleep
  ///   screen.object?.show("a minute later")
  /// }
  /// ```
  /// - Throws: what the body throws. `CancellationError` if the owner ended or `cancelAllOperations()` was called before the body was over,
  ///   or if the caller was cancelled before the body began.
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    weaklyFor owner: consuming Owner, priority: Operation.QueuePriority = .normal,
    _ body: @escaping @Sendable (WeakOwner<Owner>) async throws -> T
  ) async throws -> T {
    let reference = WeakOwner(consume owner)
    return try await run(weaklyFor: reference, priority: priority, body)
  }

  /// Runs an asynchronous body that doesn't keep its owner, for callers that don't keep it either while they wait. The owner's end cancels
  /// the body, wherever it is suspended.
  /// - Parameters:
  ///   - owner: made before the owner was let go of.
  ///   - priority: among what is ready.
  ///   - body: gets the weak reference. From its turn until it is over it counts as one executing operation, of the owner and of the queue.
  /// - Throws: what the body throws. `CancellationError` if the owner ended or `cancelAllOperations()` was called before the body was over,
  ///   or if the caller was cancelled before the body began.
  public func run<Owner: AnyObject & Sendable, T: Sendable>(
    weaklyFor owner: WeakOwner<Owner>, priority: Operation.QueuePriority = .normal,
    _ body: @escaping @Sendable (WeakOwner<Owner>) async throws -> T
  ) async throws -> T {
    try await run(lifetime: owner.lifetime, priority: priority) { try await body(owner) }
  }

  nonisolated(nonsending) private func run<Owner: AnyObject & Sendable, T: Sendable>(
    _ holding: OperationOwnerHold, _ lifetime: OwnerLifetime, _ priority: Operation.QueuePriority,
    _ body: @escaping @Sendable (Owner) async throws -> T
  ) async throws -> T {
    try Task.checkCancellation()
    let turn = QueueTurn(lifetime: lifetime, holding)
    add(turn, priority)
    let result = TurnResult<T>()
    defer { result.release() }
    try await run(turn) { result.set(try await turn.call(body)) }
    return try result.get()
  }

  /// Runs an asynchronous body on the queue for a lifetime when its turn comes, and returns what it returns.
  ///
  /// The body inherits the priority and the task-local values of the caller; cancelling the caller cancels it. From its turn until it is
  /// over it counts as one executing operation, of the lifetime and of the queue. While it awaits other work of the queue it doesn't count.
  /// When the lifetime ends, the body never starts, or is cancelled.
  /// - Parameters:
  ///   - lifetime: its owner is not held, and the body must not capture it.
  ///   - priority: among what is ready.
  ///   - body: runs once, or not at all.
  /// - Throws: what the body throws. `CancellationError` if the lifetime ended or `cancelAllOperations()` was called before the body was
  ///   over, or if the caller was cancelled before the body began.
  public func run<T: Sendable>(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () async throws -> T
  ) async throws -> T {
    try Task.checkCancellation()
    return try await run(addTurn(lifetime: lifetime, priority: priority), body)
  }

  private func add(_ turn: QueueTurn, _ priority: Operation.QueuePriority) {
    if priority != .normal { turn.queuePriority = priority }
    addTurn(turn)
  }

  /// Takes a place in the queue for a task that is about to be made.
  func addTurn(lifetime: OwnerLifetime, priority: Operation.QueuePriority) -> QueueTurn {
    let turn = QueueTurn(lifetime: lifetime, nil)
    add(turn, priority)
    return turn
  }

  /// Runs a body in the place that was taken for it, and returns what it returns when it is over.
  func run<T: Sendable>(_ turn: QueueTurn, _ body: @escaping @Sendable () async throws -> T) async throws -> T {
    let result = TurnResult<T>()
    defer { result.release() }
    try await run(turn) { result.set(try await body()) }
    return try result.get()
  }

  nonisolated(nonsending) private func run(_ turn: QueueTurn, _ body: @escaping QueueTurn.Body) async throws {
    guard OperationTask.current != nil else { return try await turn.run(in: self, body) }
    // This is the task of an operation, which may have to make room when the body waits.
    let waiter = WaitingTask()
    _ = turn.addWaiter(waiter)
    try await WaitTarget.operation(turn).whileWaiting(toldBy: waiter) { try await turn.run(in: self, body) }
  }
}

/// What a body has returned. It is written in the body's task, and read when that is over.
///
/// Memory, because the metadata of a generic class would be looked up for each use, four times a body. It is let go of by `release`.
private struct TurnResult<T: Sendable>: @unchecked Sendable {  // the two tasks have it one after the other
  private struct Header {
    var isSet = false
  }

  private let memory: UnsafeMutableRawPointer

  init() {
    memory = .allocate(byteCount: Self.offset + MemoryLayout<T>.size, alignment: max(MemoryLayout<T>.alignment, 16))
    memory.initializeMemory(as: Header.self, to: Header())
  }

  private static var offset: Int { max(MemoryLayout<T>.alignment, 16) }
  private var header: UnsafeMutablePointer<Header> { memory.assumingMemoryBound(to: Header.self) }
  private var value: UnsafeMutablePointer<T> { (memory + Self.offset).assumingMemoryBound(to: T.self) }

  /// Once at most.
  func set(_ value: T) {
    (memory + Self.offset).initializeMemory(as: T.self, to: value)
    header.pointee.isSet = true
  }

  func get() throws -> T {
    guard header.pointee.isSet else { throw CancellationError() }
    return value.pointee
  }

  func release() {
    if header.pointee.isSet { value.deinitialize(count: 1) }
    memory.deallocate()
  }
}

/// A weak reference to an owner, for bodies that may be suspended for long.
public struct WeakOwner<Owner: AnyObject & Sendable>: Sendable {
  private let reference: WeakReference<Owner>
  /// The lifetime of the owner.
  public let lifetime: OwnerLifetime

  /// Makes a reference that doesn't hold the owner.
  public init(_ owner: Owner) {
    reference = WeakReference(owner)
    lifetime = OwnerLifetime.of(owner as AnyObject)
  }

  /// The owner, unless it has gone.
  public var object: Owner? { reference.object }
}

extension Operation.QueuePriority {
  /// The nearest to that of a task.
  fileprivate init(_ priority: JobPriority) { self.init(taskPriority: priority.rawValue) }

  /// The nearest to that of a task; normal if it has none of its own.
  init(_ priority: TaskPriority?) { self.init(taskPriority: priority?.rawValue ?? TaskPriority.medium.rawValue) }

  private init(taskPriority rawValue: UInt8) {
    switch rawValue {
    case TaskPriority.high.rawValue...: self = .high
    case ..<TaskPriority.low.rawValue: self = .veryLow
    case ..<TaskPriority.medium.rawValue: self = .low
    default: self = .normal
    }
  }
}
