/// A job with its owner. Where the owner comes from when its turn has come is decided here.
extension WorkItem {
  /// - Parameter hold: of an owner that is not the object its lifetime is bound to; nil for one that is.
  static func ownerJob(_ body: consuming @escaping ErasedOwnerBody.Body, heldBy hold: OwnerHold?) -> WorkItem {
    if let hold { .record(SharedOwnerBody(hold, body), 0) } else { .ownerBlock(body) }
  }
}

extension OwnerLifetime {
  /// Binds the lifetime to the object, if it is not bound yet; if it is bound to another, the object's own hold.
  func holdUnlessBound<Owner: AnyObject & Sendable>(to owner: Owner) -> OwnerHold? { bind(owner) ? nil : OwnerHold.of(owner) }
}
