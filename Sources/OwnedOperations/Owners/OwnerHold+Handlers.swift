/// Handlers of events: bodies that are not held back, but skipped.
///
/// A job waits until it is clear what becomes of its owner. An event is over by then. So a handler whose owner only bodies and handlers
/// hold isn't called; later events reach an owner that one of them has handed on.
extension OwnerHold {
  /// Calls the handler with the object, if somebody other than bodies and handlers holds it, and `mayBegin` says so then. The object may go
  /// before this returns, if the handler has let go of the last other reference.
  /// - Parameter mayBegin: the decision about this start, taken last.
  /// - Returns: false if the object has gone.
  @discardableResult
  func callHandler(if mayBegin: () -> Bool, _ handler: (AnyObject) -> Void) -> Bool {
    callHandler(if: mayBegin, handler) { end($0) }
  }

  /// Calls a handler that is a piece of work, which is to be over before the object goes, under the same conditions.
  /// - Parameter held: is set to what keeps the object, and counts it as held by a body. Nil if the object has gone.
  func callHandler(if mayBegin: () -> Bool, holding held: inout AnyObject?, _ handler: (AnyObject) -> Void) -> Bool {
    callHandler(if: mayBegin, handler) { held = BodyReference(self, $0) }
  }

  private func callHandler(if mayBegin: () -> Bool, _ handler: (AnyObject) -> Void, atEnd: (Retained<AnyObject>) -> Void) -> Bool {
    var held: Retained<AnyObject>?
    switch begin(&held) {
    case .gone: return false
    case .heldBack:
      if let held { atEnd(held) }
      return true
    case .begins(let object):
      if mayBegin() {
        OwnerBodyFrame.run(for: self) { object.with { handler($0) } }
      }
      atEnd(object)
      return true
    }
  }
}
