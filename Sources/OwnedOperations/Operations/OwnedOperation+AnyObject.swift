import Foundation

extension OwnedOperation {
  /// Makes an operation for any object, which need not hold a token: see ``OwnerLifetime/of(_:)-(AnyObject)``.
  @_disfavoredOverload
  public convenience init(owner: AnyObject) {
    self.init(lifetime: OwnerLifetime.of(owner))
  }
}

extension OwnedBlockOperation {
  /// Makes an operation for any object. Mind that the closure keeps what it captures until it has run: capture the owner weakly.
  @_disfavoredOverload
  public convenience init(owner: AnyObject, _ body: @escaping @Sendable () throws -> Void) {
    self.init(lifetime: OwnerLifetime.of(owner), body)
  }
}
