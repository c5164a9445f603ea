import Foundation

/// What few operations have, kept out of the many: made when it is first needed. Guarded by the operation's lock.
final class OperationExtras {
  var name: String?
  var completionBlock: (@Sendable () -> Void)?
  /// Whether the completion block had its turn, or the operation has finished in a way that gives it none any more.
  var completionIsOver = false
  /// What the work threw.
  var error: (any Error)?
  /// The dependency that did not succeed. Written before the word can name this reason; until its name is known.
  var failedDependency: Operation?
  /// Once somebody has asked, or it is no dependency any more.
  var nameOfFailedDependency: String?
  var timeout: Duration?
  var timer: UptimeTimer?
  /// All but the first.
  @exclusivity(unchecked) var dependents: [DependencyCell] = []
  /// Whether some of them may wait no longer, or stand there twice.
  @exclusivity(unchecked) var hasForgottenDependents = false
  /// What the body waits for. One that is a task may wait at several places.
  var currentWaits: [ObjectIdentifier: WaitTarget] = [:]
  var waiters: [any OperationWaiter] = []
  var observers: ObserverList?
}

extension OwnedOperation {
  /// Under the lock.
  final func makeExtras() -> OperationExtras {
    if let extras { return extras }
    let new = OperationExtras()
    extras = new
    return new
  }
}
