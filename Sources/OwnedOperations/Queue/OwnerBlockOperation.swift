import Foundation

/// A closure that is called with the object that owns it. Holds the owner weakly until the work runs, and strongly while it runs.
// `@unchecked Sendable`: everything is guarded by the operation's lock.
final class OwnerBlockOperation<Owner: AnyObject & Sendable>: OwnedOperation, @unchecked Sendable {
  private weak var owner: Owner?
  private var runningOwner: Owner?
  private var body: (@Sendable (Owner) throws -> Void)?

  init(_ owner: Owner, _ lifetime: OwnerLifetime, _ body: @escaping @Sendable (Owner) throws -> Void) {
    self.owner = owner
    self.body = body
    super.init(lifetime: lifetime)
  }

  override func takeOwner() -> Bool {
    lock.withLock {
      runningOwner = owner
      return runningOwner != nil
    }
  }

  /// Lets go of the owner after the finish: if this was the last to hold it, that ends the owner, which must not make cancelled of what has succeeded.
  override func start() {
    super.start()
    let owner = lock.withLock {
      defer { runningOwner = nil }
      return runningOwner
    }
    withExtendedLifetime(owner) {}  // until here: not under the lock
  }

  override func perform() throws {
    let owner = lock.withLock { runningOwner }
    if let owner, let body = takeBody() { try body(owner) }
  }

  override func releaseWork() { _ = takeBody() }
  override var mayHaveCondition: Bool { false }

  private func takeBody() -> (@Sendable (Owner) throws -> Void)? {
    lock.withLock {
      defer { body = nil }
      return body
    }
  }

  override var ignoresCancellation: Bool { true }
}
