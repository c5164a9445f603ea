/// Where the result of work goes: handed over once, by whoever comes first, or dropped.
final class ResultHandler<Value: Sendable>: Sendable {
  typealias Delivery = @Sendable (Result<Value, any Error>) -> Void

  private let state: Locked<State>
  private let lifetime: OwnerLifetime

  private struct State {
    var delivery: Delivery?
  }

  /// - Parameter delivery: has the handler run where it belongs; runs no code of the user's itself.
  init(_ lifetime: OwnerLifetime, _ delivery: @escaping Delivery) {
    self.lifetime = lifetime
    state = Locked(State(delivery: delivery))
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
    state.withLock { state in
      defer { if !Mutation.handlerIsHandedOverTwice.isOn { state.delivery = nil } }
      return state.delivery
    }
  }
}

/// Work that gets no owner, and whose result goes to a handler that does.
///
/// ## Protocol
///
/// - The work is taken out once: by the start (`begin`), which sets `hasBegun`, or by a cancellation (`release`, `wasCancelled`). All under
///   the lock.
/// - If it has begun, its end delivers. If not, `wasCancelled` delivers a `CancellationError`.
/// - A start that was decided before a cancellation, and has not taken the work yet, finds it there and begins, or gone and does nothing.
/// - The owner's end drops the handler, whatever the work is at.
struct HandledWork<Value: Sendable>: ~Copyable, Sendable {
  private struct State {
    var body: ResultBody<Value>?
    var hasBegun = false
  }

  private let state: Locked<State>
  private let handler: ResultHandler<Value>

  init(_ body: consuming ResultBody<Value>, _ handler: ResultHandler<Value>) {
    state = Locked(State(body: body))
    self.handler = handler
  }

  /// The operation has been made. If its owner had ended, there is nobody to tell.
  func wasMade(isFinished: Bool) {
    if isFinished { handler.drop() }
  }

  /// The body, which the caller is to run; nil if it was released.
  func begin() -> ResultBody<Value>? {
    state.withLock { state in
      state.hasBegun = state.body != nil
      return state.body.take()
    }
  }

  /// The body has run.
  func deliver(_ result: Result<Value, any Error>, isCancelled: Bool) {
    handler.deliver(isCancelled ? .failure(CancellationError()) : result)
  }

  /// Releases the body in the background, if it has not begun.
  func release() {
    if let body = state.withLock({ $0.body.take() }) { DeferredReleases.add(consume body) }
  }

  func wasCancelled(_ reason: CancellationReason) {
    if case .ownerEnded = reason {
      if !Mutation.handlerOutlivesTheEnd.isOn { handler.drop() }
      return
    }
    let (isUnderWay, body) = state.withLock { state in
      let body = Mutation.cancelLeavesTheWork.isOn ? nil : state.body.take()
      return (state.hasBegun && !Mutation.handlerComesBeforeTheWorkIsOver.isOn, body)
    }
    if isUnderWay { return }
    if let body { DeferredReleases.add(consume body) }
    handler.deliver(.failure(CancellationError()))
  }
}

/// Runs work, and tells a handler what has come of it.
final class HandledOperation<Value: Sendable>: OwnedOperation, @unchecked Sendable {  // a constant, with the protocol above
  private let work: HandledWork<Value>

  init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () throws -> Value, _ handler: ResultHandler<Value>) {
    work = HandledWork(.synchronous(body), handler)
    super.init(lifetime: lifetime)
    work.wasMade(isFinished: isFinished)
  }

  override func perform() throws {
    guard case .synchronous(let body)? = work.begin() else { return }
    let result = Result { try body() }
    withExtendedLifetime(body) { bodyIsOver() }
    work.deliver(result, isCancelled: isCancelled)
    _ = try result.get()
  }

  override func releaseWork() { work.release() }
  override func didCancel(_ reason: CancellationReason) { work.wasCancelled(reason) }
  override var mayHaveCondition: Bool { false }
}

/// Runs asynchronous work, in a task that is cancelled with the operation, and tells a handler what has come of it.
final class HandledAsyncOperation<Value: Sendable>: OwnedAsyncOperation, @unchecked Sendable {  // a constant, with the protocol above
  private let work: HandledWork<Value>

  init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () async throws -> Value, _ handler: ResultHandler<Value>) {
    work = HandledWork(.asynchronous(body), handler)
    super.init(lifetime: lifetime)
    work.wasMade(isFinished: isFinished)
  }

  override func run() async throws {
    guard case .asynchronous(let body)? = work.begin() else { return }
    let box = WorkBox(consume body)
    do {
      let value = try await box.run()
      work.deliver(.success(value), isCancelled: isCancelled)
    } catch {
      work.deliver(.failure(error), isCancelled: isCancelled)
      throw error
    }
  }

  override func releaseWork() {
    work.release()
    super.releaseWork()
  }

  override func didCancel(_ reason: CancellationReason) { work.wasCancelled(reason) }
  override var mayHaveCondition: Bool { false }
}
