import OwnedOperations

/// Calls a handler with one result after the other, also on a queue that could run both calls at once.
///
/// - A call that is not made, because the owner has ended, lets none come after it.
/// - A call that its queue drops, because all that it had was cancelled, is added to it anew: only the owner's end takes a call away.
/// - After the last result has come, no preview is taken any more.
/// - A preview that waits for its queue when the request is cancelled is not shown. Its place is looked at when the queue has come to it.
final class HandlerCalls<Outcome: Sendable>: Sendable {
  fileprivate struct Call {
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

  /// Has the handler called, on its queue, and calls `whenOver` after it. False if nobody is left to be called.
  typealias Submit = @Sendable (_ take: @escaping Take, _ whenOver: @escaping @Sendable () -> Void) -> Bool

  private let lifetime: OwnerLifetime
  private let submit: Submit
  private let state = Guarded(State())

  /// - Parameter lifetime: of the owner, whose end takes away what has not been called.
  init(lifetime: OwnerLifetime, _ submit: @escaping Submit) {
    self.lifetime = lifetime
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
    let delivery = HandlerDelivery(call, self)
    if !submit({ delivery.take() }, { [self] in callNext() }) { delivery.giveUp() }
  }

  fileprivate func isWanted(_ call: Call) -> Bool { !call.isPreview || !state.withLock { $0.dropsPreviews } }

  fileprivate func wasDropped(_ call: Call) {
    if lifetime.isAlive { begin(call) }
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

/// A call on its way through the queue. If it goes without having been taken, the queue has dropped it.
private final class HandlerDelivery<Outcome: Sendable>: Sendable {
  private let call: Guarded<HandlerCalls<Outcome>.Call?>
  private let calls: HandlerCalls<Outcome>

  init(_ call: HandlerCalls<Outcome>.Call, _ calls: HandlerCalls<Outcome>) {
    self.call = Guarded(call)
    self.calls = calls
  }

  private func takeCall() -> HandlerCalls<Outcome>.Call? {
    var taken: HandlerCalls<Outcome>.Call?
    call.withLock { swap(&taken, &$0) }
    return taken
  }

  func take() -> Outcome? {
    guard let call = takeCall(), calls.isWanted(call) else { return nil }
    return call.outcome
  }

  func giveUp() { _ = takeCall() }

  deinit {
    if let call = takeCall() { calls.wasDropped(call) }
  }
}
