import Foundation

/// An owned operation whose work is a closure.
///
/// ```swift
/// let lifetime = OwnerLifetime()
/// let url = URL(filePath: "/etc/hosts")
/// let operation = OwnedBlockOperation(lifetime: lifetime) { try Data(contentsOf: url).count }
/// ```
///
/// The closure is released as soon as it has run, or the operation is cancelled before it has started.
public final class OwnedBlockOperation: OwnedOperation, @unchecked Sendable {  // `body` is guarded by the operation's lock
  @exclusivity(unchecked) private var body: (@Sendable () throws -> Void)?

  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () throws -> Void) {
    self.body = body
    super.init(lifetime: lifetime)
  }

  /// Makes an operation for an owner that holds a token. Mind that the closure keeps what it captures until it has run: capture the owner weakly.
  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () throws -> Void) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  public override func perform() throws { try takeBody()?() }

  private func takeBody() -> (@Sendable () throws -> Void)? {
    var taken: (@Sendable () throws -> Void)?
    lock.lock()
    swap(&taken, &body)
    lock.unlock()
    return taken
  }

  override func releaseWork() { _ = takeBody() }
  override var mayHaveCondition: Bool { false }
  override var ignoresCancellation: Bool { true }
}
