/// The owner of an operation whose body gets it: held from the start, or just before, until the finish.
final class OperationOwnerHold: Sendable {
  let hold: OwnerHold
  private let state = Locked(State())

  private struct State {
    var object: Retained<AnyObject>?  // by `hold`
    var isTaken = false
  }

  init(_ owner: AnyObject, _ lifetime: OwnerLifetime) { hold = OwnerHold.of(owner, lifetime) }

  deinit { end() }

  /// Before the start, by a queue: holds the owner if a body may begin.
  /// - Returns: where to wait if not, because only bodies hold the owner.
  func begin() -> OwnerHold? {
    switch hold.begin() {
    case .begins(let object): keep(object)
    case .heldBack: return hold
    case .gone: break
    }
    return nil
  }

  /// In the start. False if the owner has gone.
  func take() -> Bool {
    let isHeld = state.withLock { state in
      state.isTaken = true
      return state.object != nil
    }
    if isHeld { return true }
    guard let object = hold.retain() else { return false }
    keep(object)
    return true
  }

  private func keep(_ new: Retained<AnyObject>) {
    let isFirst = state.withLock { state in
      guard state.object == nil else { return false }
      state.object = new
      return true
    }
    if !isFirst { hold.end(new) }
  }

  /// A queue that has called `begin` has not started the operation; somebody else may have.
  func endUnlessTaken() {
    let held = state.withLock { state in state.isTaken ? nil : state.object.take() }
    if let held { hold.end(held) }
  }

  /// Lets go of the owner, if it is held.
  func end() {
    let held = state.withLock { $0.object.take() }
    if let held { hold.end(held) }
  }

  /// Hands the reference over, for an `AsyncBody` that keeps it in a frame of its own. Nil if the owner has gone.
  func handOver() -> UnsafeMutableRawPointer? {
    guard take() else { return nil }
    return state.withLock { $0.object.take()?.address }
  }

  /// Calls the body with the owner, between `take` and `end`.
  func call(_ body: ErasedOwnerBody.ThrowingBody) throws {
    if let held = state.withLock({ $0.object }) { try hold.call(body, with: held) }
  }
}
