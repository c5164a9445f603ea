import Foundation

/// A closure that is called with the object that owns it. Holds the owner strongly from its start to its finish, not before.
final class OwnerBlockOperation: OwnedOperation, @unchecked Sendable {  // all is guarded by the operation's lock
  let holding: OperationOwnerHold
  private var body: ErasedOwnerBody.ThrowingBody?

  init<Owner: AnyObject & Sendable>(_ owner: Owner, _ lifetime: OwnerLifetime, _ body: @escaping @Sendable (Owner) throws -> Void) {
    holding = OperationOwnerHold(owner, lifetime)
    self.body = ErasedOwnerBody.eraseThrowing(body)
    super.init(lifetime: lifetime)
  }

  override var holdsOwner: Bool { true }
  override func beginForOwner() -> OwnerHold? { holding.begin() }
  override func takeOwner() -> Bool { holding.take() }
  override func endForOwner() { holding.endUnlessTaken() }
  override func letGoOfOwner() { holding.end() }

  override func perform() throws {
    guard let body = takeBody() else { return }
    defer { withExtendedLifetime(body) { bodyIsOver() } }
    try holding.call(body)
  }

  override func releaseWork() {
    if let body = takeBody() { DeferredReleases.add(consume body) }
  }
  override var mayHaveCondition: Bool { false }

  private func takeBody() -> ErasedOwnerBody.ThrowingBody? {
    lock.withLock {
      defer { body = nil }
      return body
    }
  }

  override var ignoresCancellation: Bool { true }
}
