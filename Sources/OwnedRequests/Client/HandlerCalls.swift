/// Calls a handler with one result after the other, also on a queue that could run both calls at once.
///
/// A call that is not made, because the owner has ended, lets none come after it.
final class HandlerCalls<Outcome: Sendable>: Sendable {
  private struct State {
    var isCalling = false
    var waiting: [Outcome] = []
  }

  private let submit: @Sendable (Outcome, _ whenOver: @escaping @Sendable () -> Void) -> Void
  private let state = Guarded(State())

  /// - Parameter submit: has the handler called, on its queue, and calls `whenOver` after it.
  init(_ submit: @escaping @Sendable (Outcome, _ whenOver: @escaping @Sendable () -> Void) -> Void) { self.submit = submit }

  @Sendable
  func call(_ outcome: Outcome) {
    let isFirst = state.withLock { state in
      if state.isCalling { state.waiting.append(outcome) }
      defer { state.isCalling = true }
      return !state.isCalling
    }
    if isFirst { submit(outcome) { [self] in callNext() } }
  }

  private func callNext() {
    let next = state.withLock { state -> Outcome? in
      guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
      state.isCalling = false
      return nil
    }
    if let next { submit(next) { [self] in callNext() } }
  }
}
