/// Where the result of work goes: handed over once, by whoever comes first, or dropped.
final class ResultHandler<Value: Sendable>: Sendable {
  typealias Delivery = @Sendable (Result<Value, any Error>) -> Void

  private let lock = Lock()
  nonisolated(unsafe) private var delivery: Delivery?  // guarded by `lock`
  private let lifetime: OwnerLifetime

  /// - Parameter delivery: has the handler run where it belongs; runs no code of the user's itself.
  init(_ lifetime: OwnerLifetime, _ delivery: @escaping Delivery) {
    self.lifetime = lifetime
    self.delivery = delivery
  }

  /// Whether the owner lives is decided where the handler runs. If it has ended already, nothing needs to go there.
  func deliver(_ result: Result<Value, any Error>) {
    guard lifetime.isAlive else { return drop() }
    take()?(result)
  }

  /// Releases the handler in the background.
  func drop() {
    if let delivery = take() { DeferredReleases.add(consume delivery) }
  }

  private func take() -> Delivery? {
    lock.withLock {
      defer { if !Mutation.handlerIsHandedOverTwice.isOn { delivery = nil } }
      return delivery
    }
  }
}

/// Work that gets no owner, and whose result goes to a handler that does.
///
/// ## Protocol
///
/// - The work is taken out once: by the start (`begin`), which sets `hasBegun`, or by a cancellation (`release`). Both under the lock.
/// - If it has begun, its end delivers. If it was cancelled before, `wasCancelled` does, with a `CancellationError`; it is called after the
///   work was released.
/// - A start that was decided before a cancellation, and has not taken the work yet, may find that `wasCancelled` has delivered. The
///   handler takes the first result only.
/// - The owner's end drops the handler, whatever the work is at.
final class HandledOperation<Value: Sendable>: OwnedOperation, @unchecked Sendable {  // by the protocol above
  private var work: (@Sendable () throws -> Value)?
  private var hasBegun = false
  private let handler: ResultHandler<Value>

  init(_ lifetime: OwnerLifetime, _ work: @escaping @Sendable () throws -> Value, _ handler: ResultHandler<Value>) {
    self.work = work
    self.handler = handler
    super.init(lifetime: lifetime)
    if isFinished { handler.drop() }
  }

  override func perform() throws {
    guard let work = begin() else { return }
    let result = Result { try work() }
    withExtendedLifetime(work) { bodyIsOver() }
    handler.deliver(isCancelled ? .failure(CancellationError()) : result)
    _ = try result.get()
  }

  private func begin() -> (@Sendable () throws -> Value)? {
    lock.withLock {
      hasBegun = work != nil
      defer { work = nil }
      return work
    }
  }

  override func releaseWork() {
    let work = lock.withLock {
      defer { self.work = nil }
      return self.work
    }
    if let work { DeferredReleases.add(consume work) }
  }

  override func didCancel(_ reason: CancellationReason) {
    if case .ownerEnded = reason {
      if !Mutation.handlerOutlivesTheEnd.isOn { handler.drop() }
      return
    }
    let isUnderWay = lock.withLock { hasBegun } && !Mutation.handlerComesBeforeTheWorkIsOver.isOn
    if !isUnderWay { handler.deliver(.failure(CancellationError())) }
  }

  override var mayHaveCondition: Bool { false }
}

/// Runs asynchronous work, in a task that is cancelled with the operation, and tells a handler what has come of it.
final class HandledAsyncOperation<Value: Sendable>: OwnedAsyncOperation, @unchecked Sendable {  // by the protocol of `HandledOperation`
  private var work: (@Sendable () async throws -> Value)?
  private var hasBegun = false
  private let handler: ResultHandler<Value>

  init(_ lifetime: OwnerLifetime, _ work: @escaping @Sendable () async throws -> Value, _ handler: ResultHandler<Value>) {
    self.work = work
    self.handler = handler
    super.init(lifetime: lifetime)
    if isFinished { handler.drop() }
  }

  override func run() async throws {
    guard let work = begin() else { return }
    let box = WorkBox(consume work)
    do {
      let value = try await box.run()
      handler.deliver(isCancelled ? .failure(CancellationError()) : .success(value))
    } catch {
      handler.deliver(.failure(isCancelled ? CancellationError() : error))
      throw error
    }
  }

  private func begin() -> (@Sendable () async throws -> Value)? {
    lock.withLock {
      hasBegun = work != nil
      defer { work = nil }
      return work
    }
  }

  override func releaseWork() {
    let work = lock.withLock {
      defer { self.work = nil }
      return self.work
    }
    if let work { DeferredReleases.add(consume work) }
    super.releaseWork()
  }

  override func didCancel(_ reason: CancellationReason) {
    if case .ownerEnded = reason { return handler.drop() }
    if !lock.withLock({ hasBegun }) { handler.deliver(.failure(CancellationError())) }
  }

  override var mayHaveCondition: Bool { false }
}
