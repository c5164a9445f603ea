import Foundation

/// What an observation calls, and where. One reference, so that a delivery takes a copy, and an end takes it away, in one step.
final class ObservationHandler: Sendable {
  /// Called with the owner, whose type is forgotten.
  typealias OwnerBody = @Sendable (AnyObject, Notification) -> Void

  enum Body {
    case owner(OwnerHold, OwnerBody)
    case lifetime(@Sendable (Notification) -> Void)
  }

  let body: Body
  /// Nil if the handler is called by the thread that posts.
  let line: (any DeliveryLine)?

  private init(_ body: Body, _ line: (any DeliveryLine)?) { (self.body, self.line) = (body, line) }

  /// For an owner, which is not kept.
  convenience init<Owner: AnyObject & Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ line: (any DeliveryLine)?, _ body: @escaping @Sendable (Owner, Notification) -> Void
  ) {
    self.init(.owner(OwnerHold.of(owner, lifetime), Self.erase(body)), line)
  }

  /// For a lifetime without an object.
  convenience init(_ line: (any DeliveryLine)?, _ body: @escaping @Sendable (Notification) -> Void) { self.init(.lifetime(body), line) }

  // As in `ErasedOwnerBody`: structs, so that the closure keeps its calling convention.
  private struct Typed<Owner: AnyObject> { let call: @Sendable (Owner, Notification) -> Void }
  private struct Erased { let call: OwnerBody }

  private static func erase<Owner: AnyObject>(_ body: @escaping @Sendable (Owner, Notification) -> Void) -> OwnerBody {
    unsafeBitCast(Typed(call: body), to: Erased.self).call
  }

  /// As below, on a queue.
  /// - Parameter owner: is set to what keeps the owner, to be released when the delivery is over.
  func call(_ notification: Notification, holding owner: inout AnyObject?, if mayBegin: () -> Bool) -> Bool {
    guard case .owner(let hold, let body) = body else { return call(notification, if: mayBegin) }
    return hold.callHandler(if: mayBegin, holding: &owner) { owner in body(owner, notification) }
  }

  /// Calls the body, unless it is too late.
  /// - Parameter mayBegin: the decision about this start, taken last.
  /// - Returns: false if the owner has gone.
  func call(_ notification: Notification, if mayBegin: () -> Bool) -> Bool {
    switch body {
    case .owner(let hold, let body):
      return hold.callHandler(if: mayBegin) { owner in body(owner, notification) }
    case .lifetime(let body):
      if mayBegin() { body(notification) }
      return true
    }
  }
}
