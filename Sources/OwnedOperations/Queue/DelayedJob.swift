/// A job that is added when its delay has passed.
///
/// The thread that adds it is that of all delays of the process, so it must not be the one to run a deinit: of the owner, which it does not
/// hold, of what the body has captured, or of the queue. The queue gets the only reference to the body, and what is left goes in the
/// background.
final class DelayedJob: Sendable {
  private struct State {
    var queue: OwnerScopedQueue?
    var work: WorkItem?
  }

  private let state: Locked<State>

  init(_ queue: OwnerScopedQueue, _ work: consuming WorkItem) { state = Locked(State(queue: queue, work: work)) }

  /// Once.
  func add(_ lifetime: OwnerLifetime, level: Int) {
    guard let work = state.withLock({ $0.work.take() }), let queue = state.withLock({ $0.queue.take() }) else { return }
    queue.addInBackground(consume work, lifetime, level: level)
    DeferredReleases.add(consume queue)
  }
}
