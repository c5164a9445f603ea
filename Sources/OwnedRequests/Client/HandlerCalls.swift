/// Calls a handler with one result after the other, also on a queue that could run both calls at once.
///
/// - A call that is not made, because the owner has ended, lets none come after it.
/// - After the last result has come, no preview is taken any more.
/// - A preview that waits for its queue when the request is cancelled is not shown. Its place is looked at when the queue has come to it.
final class HandlerCalls<Outcome: Sendable>: Sendable {
  private struct Call {
    var outcome: Outcome
    var isPreview: Bool
  }

  private struct State {
    var isCalling = false
    var waiting: [Call] = []
    var isOver = false
    var dropsPreviews = false
  }

  /// Gives what the handler is to be called with; nil if it is not to be called.
  typealias Take = @Sendable () -> Outcome?

  private let submit: @Sendable (_ take: @escaping Take, _ whenOver: @escaping @Sendable () -> Void) -> Void
  private let state = Guarded(State())

  /// - Parameter submit: has the handler called, on its queue, and calls `whenOver` after it.
  init(_ submit: @escaping @Sendable (_ take: @escaping Take, _ whenOver: @escaping @Sendable () -> Void) -> Void) {
    self.submit = submit
  }

  /// What comes before the end.
  func show(_ outcome: Outcome) { add(Call(outcome: outcome, isPreview: true), dropsPreviews: false) }

  /// The last call.
  /// - Parameter dropsPreviews: the request was cancelled, and nothing that came before is of interest any more.
  func finish(_ outcome: Outcome, dropsPreviews: Bool) { add(Call(outcome: outcome, isPreview: false), dropsPreviews: dropsPreviews) }

  private func add(_ call: Call, dropsPreviews: Bool) {
    let isFirst = state.withLock { state in
      guard !state.isOver else { return false }
      state.isOver = !call.isPreview
      state.dropsPreviews = dropsPreviews
      if state.isCalling { state.waiting.append(call) }
      defer { state.isCalling = true }
      return !state.isCalling
    }
    if isFirst { begin(call) }
  }

  private func begin(_ call: Call) {
    submit({ [self] in call.isPreview && state.withLock { $0.dropsPreviews } ? nil : call.outcome }, { [self] in callNext() })
  }

  private func callNext() {
    let next = state.withLock { state -> Call? in
      guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
      state.isCalling = false
      return nil
    }
    if let next { begin(next) }
  }
}
