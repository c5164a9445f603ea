/// An asynchronous sequence that ends with an owner: what `AsyncSequence.owned(by:)` returns.
extension AsyncSequence where Self: Sendable, Element: Sendable {
  /// The same elements, until the owner ends. A loop over them that waits for the next one ends, too.
  ///
  /// ```swift
  /// let session = OwnerLifetime(name: "session")
  /// let (numbers, continuation) = AsyncStream.makeStream(of: Int.self)
  /// continuation.yield(1)
  /// for await number in numbers.owned(by: session) {
  ///   print(number)
  ///   session.end()  // the loop ends, though the stream doesn't
  /// }
  /// ```
  ///
  /// Each iterator has a task of its own, which asks this sequence for one element at a time. It asks only when the iterator is asked:
  /// nothing is fetched in advance. An element is handed on or dropped, by one decision. None comes after the owner's end. Errors are those
  /// of this sequence.
  ///
  /// The task is cancelled when the owner ends, the iterator goes, or the task that waits for an element is cancelled. Then the sequence
  /// ends. A base that doesn't answer its cancellation is abandoned: nobody waits for it, and it goes when it returns.
  /// - Parameter lifetime: whose end ends the sequence. Kept by it; the owner isn't.
  public func owned(by lifetime: OwnerLifetime) -> some AsyncSequence<Element, Failure> & Sendable {
    OwnedSequence(base: self, lifetime: lifetime)
  }
}

private struct OwnedSequence<Base: AsyncSequence & Sendable>: AsyncSequence, Sendable where Base.Element: Sendable {
  let base: Base
  let lifetime: OwnerLifetime

  func makeAsyncIterator() -> Iterator {
    let pump = ElementPump(base, lifetime)
    pump.joinLifetime()
    return Iterator(consumer: Consumer(pump))
  }

  struct Iterator: AsyncIteratorProtocol {
    let consumer: Consumer

    mutating func next() async throws(Base.Failure) -> Base.Element? {
      let answer = await consumer.pump.next()
      return try consumer.pump.decide(answer).get()
    }

    /// The decision is made on the caller's actor, which nothing comes between and the loop's body.
    mutating func next(isolation actor: isolated (any Actor)?) async throws(Base.Failure) -> Base.Element? {
      let answer = await consumer.pump.next()
      return try consumer.pump.decide(answer).get()
    }
  }

  /// What the iterator and its copies hold. The pump's task doesn't.
  final class Consumer: Sendable {
    let pump: ElementPump<Base>
    init(_ pump: ElementPump<Base>) { self.pump = pump }
    deinit { pump.close(inBackground: false) }
  }
}

/// Asks a sequence for elements, one at a time, on behalf of one iterator.
///
/// ## Protocol
///
/// All is in `state`. Continuations are resumed, tasks cancelled and elements released outside of its lock.
///
/// - The consumer asks (`isAsked`) and waits in `consumer`. The task waits in `idle` until it is asked, then asks the base.
/// - One of them waits at a time: the consumer for an element, or the task for a question.
/// - The task hands an element to `consumer`. Whether it is handed on is decided when the consumer runs again, on its own actor: by one
///   load, last of all (`decide`). If the owner has ended by then, the consumer gets the end.
/// - `isOver` goes from false to true, once: by the base's end or error, or by `close`. Whoever turns it resumes the consumer. The task is
///   cancelled by `close`, told when it is idle, and not waited for.
/// - The task keeps the pump until it returns. The owner's lifetime doesn't.
private final class ElementPump<Base: AsyncSequence & Sendable>: Sendable where Base.Element: Sendable {
  typealias Answer = Result<Base.Element?, Base.Failure>

  private struct State {
    /// Until the task has it.
    var base: Base?
    var isAsked = false
    var isOver = false
    var consumer: SuspendedTask<Answer, Never>?
    var idle: CheckedContinuation<Bool, Never>?
    var task: Task<Void, Never>?
    var endCall: LifetimeEndCall?
  }

  private let lifetime: OwnerLifetime
  private let state: Locked<State>

  init(_ base: Base, _ lifetime: OwnerLifetime) {
    self.lifetime = lifetime
    state = Locked(State(base: base))
  }

  /// Has the sequence end with the owner. Once, before the consumer has the pump.
  func joinLifetime() {
    let endCall = LifetimeEndCall(lifetime) { [weak self] in self?.close(inBackground: true) }
    state.withLock { $0.endCall = endCall }
    if !endCall.join() { close(inBackground: false) }
  }

  // MARK: The consumer

  func next() async -> Answer {
    guard lifetime.isAlive else {
      close(inBackground: false)
      return .success(nil)
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { ask($0) }
    } onCancel: {
      close(inBackground: true)
    }
  }

  /// Where the consumer goes on.
  func decide(_ answer: Answer) -> Answer { lifetime.isAlive ? answer : .success(nil) }

  private func ask(_ continuation: CheckedContinuation<Answer, Never>) {
    var first: Base?
    var idle: CheckedContinuation<Bool, Never>?
    let consumer = SuspendedTask(continuation)
    let isOver = state.withLock { state in
      if state.isOver { return true }
      precondition(
        state.consumer == nil, "an iterator of owned(by:) was asked for an element while it waits for one; make an iterator for each task")
      state.consumer = consumer
      idle = state.idle.take()
      state.isAsked = idle == nil
      first = state.base.take()
      return false
    }
    if isOver { return continuation.resume(returning: .success(nil)) }
    idle?.resume(returning: true)
    if let first { start(first) }
  }

  private func start(_ base: Base) {
    let task = Task { await pump(base) }
    let isOver = state.withLock { state in
      if !state.isOver { state.task = task }
      return state.isOver
    }
    if isOver { task.cancel() }
  }

  /// The sequence ends here. Any thread, more than once.
  /// - Parameter inBackground: the thread must not run what is the user's, such as handlers of a cancellation.
  func close(inBackground: Bool) {
    var left = state.withLock { state in
      let left = state
      state = State(isOver: true)
      return left
    }
    left.consumer?.resume(returning: .success(nil))
    left.idle?.resume(returning: false)
    left.endCall?.leave()
    guard inBackground else {
      left.task?.cancel()
      return
    }
    if let task = left.task { DeferredCalls.add { task.cancel() } }
    if let base = left.base.take() { DeferredReleases.add(consume base) }
  }

  // MARK: The task

  private func pump(_ base: Base) async {
    var iterator = base.makeAsyncIterator()
    while await isAskedAgain() {
      do throws(Base.Failure) {
        answer(.success(try await iterator.next(isolation: nil)))
      } catch {
        answer(.failure(error))
      }
    }
  }

  /// - Returns: false at the end.
  private func isAskedAgain() async -> Bool {
    await withCheckedContinuation { continuation in
      let answer: Bool? = state.withLock { state in
        if state.isOver { return false }
        if state.isAsked {
          state.isAsked = false
          return true
        }
        state.idle = continuation
        return nil
      }
      if let answer { continuation.resume(returning: answer) }
    }
  }

  private func answer(_ answer: Answer) {
    let isLast = if case .success(.some) = answer { false } else { true }
    var consumer: SuspendedTask<Answer, Never>?
    var endCall: LifetimeEndCall?
    state.withLock { state in
      consumer = state.consumer.take()
      guard isLast else { return }
      state.isOver = true
      state.task = nil
      endCall = state.endCall.take()
    }
    endCall?.leave()
    consumer?.resume(returning: answer)
  }
}
