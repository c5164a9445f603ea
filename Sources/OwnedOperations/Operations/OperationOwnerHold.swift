/// The owner of an operation whose body gets it: held from the start, or just before, until the finish.
///
/// - `object`: held, by whoever came first of a queue (`begin`) and a start (`take`).
/// - `isTaken`: the one start that was accepted, or the task that it is for, uses what is held. Only its end lets go.
/// - `isOver`: it has let go. From then on nothing is held, whoever comes late: a queue with an old item.
final class OperationOwnerHold: Sendable {
  let hold: OwnerHold
  private let state = Locked(State())

  private struct State {
    var object: Retained<AnyObject>?  // by `hold`
    var isTaken = false
    var isOver = false
  }

  init(_ owner: AnyObject, _ lifetime: OwnerLifetime) { hold = OwnerHold.of(owner, lifetime) }

  deinit { end() }

  /// Before the start, by a queue: holds the owner if a body may begin.
  /// - Returns: where to wait if not, because only bodies hold the owner.
  func begin() -> OwnerHold? {
    guard state.withLock({ !$0.isOver }) else { return nil }
    switch hold.begin() {
    case .begins(let object): _ = keep(object)
    case .heldBack: return hold
    case .gone: break
    }
    return nil
  }

  /// In the start. False if the owner has gone, or all is over.
  func take() -> Bool {
    let isHeld = state.withLock { state -> Bool? in
      state.isTaken = true
      if state.isOver { return false }
      return state.object == nil ? nil : true
    }
    if let isHeld { return isHeld }
    guard let object = hold.retain() else { return false }
    return keep(object)
  }

  /// - Returns: whether the owner is held: by this reference, or by one that was there before.
  private func keep(_ new: Retained<AnyObject>) -> Bool {
    let (isKept, isOver) = state.withLock { state -> (Bool, Bool) in
      guard !state.isOver || Mutation.ownerIsHeldAfterTheEnd.isOn, state.object == nil else { return (false, state.isOver) }
      state.object = new
      return (true, false)
    }
    // A worker has the item in hand.
    if !isKept { hold.endInBackground(new) }
    return !isOver
  }

  /// A queue that has called `begin` has not started the operation; somebody else may have. The owner goes in the background: the queue's
  /// worker has the operation, and with that what it has captured, still in hand.
  func endUnlessTaken() {
    let held = state.withLock { state in state.isTaken ? nil : state.object.take() }
    if let held { hold.endInBackground(held) }
  }

  /// Lets go of the owner, if it is held, for good.
  func end() {
    let held = state.withLock { state in
      state.isOver = true
      return state.object.take()
    }
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
