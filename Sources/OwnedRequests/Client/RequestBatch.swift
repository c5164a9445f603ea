/// Requests that are sent together. When one fails, or who waits for them is cancelled, nothing is sent any more for the others.
///
/// They are cancelled after that, one after the other. None of them begins because one before it has made room. Requests of others do:
/// code of the user's that hears of a cancellation may wait for those. (What has the turn of the failed one itself may have begun: the turn
/// is given on before it is known what its answer means.) One that the cache has answered is none of the others: it is refreshed.
final class RequestBatch: Sendable {
  private let state = Guarded(false)

  var isOver: Bool { state.withLock { $0 } }

  func end() { state.withLock { $0 = true } }
}
