/// Requests that are sent together. When one fails, or who waits for them is cancelled, nothing is sent any more for the others.
///
/// They are cancelled after that, one after the other. None of them begins because one before it has made room. Requests of others do:
/// code of the user's that hears of a cancellation may wait for those.
final class RequestBatch: Sendable {
  private let state = Guarded(false)

  var isOver: Bool { state.withLock { $0 } }

  func end() { state.withLock { $0 = true } }
}
