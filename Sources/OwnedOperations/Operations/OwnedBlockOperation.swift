import Foundation

/// An owned operation whose work is a closure.
///
/// ```swift
/// let lifetime = OwnerLifetime()
/// let url = URL(filePath: "/etc/hosts")
/// let operation = OwnedBlockOperation(lifetime: lifetime) { try Data(contentsOf: url).count }
/// ```
///
/// The closure is released as soon as it has run or, in the background, when the operation is cancelled before it has started.
public final class OwnedBlockOperation: OwnedOperation, @unchecked Sendable {  // `body` is guarded by the operation's lock
  @exclusivity(unchecked) private var body: (@Sendable () throws -> Void)?

  /// Makes an operation for a lifetime.
  /// - Parameters:
  ///   - lifetime: its end cancels the operation.
  ///   - body: runs once at most, on the thread that starts the operation. What it throws is the operation's outcome.
  public init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () throws -> Void) {
    self.body = body
    super.init(lifetime: lifetime)
  }

  /// Makes an operation for an owner that holds a token. Mind that the closure keeps what it captures until it has run: capture the owner
  /// weakly.
  public convenience init(owner: some OperationOwner, _ body: @escaping @Sendable () throws -> Void) {
    self.init(lifetime: owner.lifetimeToken.lifetime, body)
  }

  /// Runs the closure, on the thread that starts the operation, and releases it. What it throws is the outcome.
  public override func perform() throws {
    guard let body = takeBody() else { return }
    defer { withExtendedLifetime(body) { bodyIsOver() } }
    try body()
  }

  private func takeBody() -> (@Sendable () throws -> Void)? {
    var taken: (@Sendable () throws -> Void)?
    lock.lock()
    swap(&taken, &body)
    lock.unlock()
    return taken
  }

  override func releaseWork() {
    if let body = takeBody() { DeferredReleases.add(consume body) }
  }
  override var isSpent: Bool { load().isFinished && keepsNothing }
  override var endsWithItsFinish: Bool { true }
  override var mayHaveCondition: Bool { false }
  override var ignoresCancellation: Bool { true }
}
