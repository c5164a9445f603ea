import Foundation

/// Work tied to an owner that runs alone.
///
/// It is an ordinary job in a barrier phase that has nothing but such: the phase before it is closed, and so is its own. So all that holds
/// for jobs holds for it: it is cancelled, counted, waited for and held back as one.
extension OwnerScopedQueue {
  /// Runs the body with the owner when everything added before has finished, unless the owner ends first. What is added later waits for it.
  ///
  /// ```swift
  /// final class Index: Sendable {
  ///   func rebuild() { print("alone") }
  /// }
  ///
  /// let index = Index()
  /// OwnerScopedQueue().addBarrier(owner: index) { index in index.rebuild() }
  /// ```
  ///
  /// Unlike the closure of ``addBarrierBlock(_:)`` it belongs to its owner. It counts in ``operationCount(ownedBy:)``, is waited for by
  /// ``finished(ownedBy:)`` and cancelled with the owner's other work. The owner may be suspended (``setSuspended(_:ownedBy:)``), or held
  /// by nothing but running bodies of its own work (<doc:HoldingOwners>). Then the barrier holds up what comes behind it, of all owners:
  /// that comes after the barrier, or not at all. When it is cancelled, what comes behind it goes on.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Complexity: linear in the queue's workers.
  public func addBarrier<Owner: OperationOwner & Sendable>(owner: Owner, _ body: @escaping @Sendable (Owner) -> Void) {
    addBarrier(owner, owner.lifetimeToken.lifetime, body)
  }

  /// Runs the body with an object that holds no token when everything added before has finished, unless the object ends first. What is
  /// added later waits for it.
  ///
  /// It counts as work of the object, is waited for and cancelled with its other work. While the object is suspended, or held by nothing
  /// but running bodies of its own work (<doc:HoldingOwners>), it holds up what comes behind it. When it is cancelled, that goes on.
  /// - Parameters:
  ///   - owner: held weakly until the body runs, strongly while it runs.
  ///   - body: runs once, on a thread of the queue's. Gets the owner, which it must not capture.
  /// - Complexity: linear in the queue's workers.
  @_disfavoredOverload
  public func addBarrier<Owner: AnyObject & Sendable>(owner: Owner, _ body: @escaping @Sendable (Owner) -> Void) {
    addBarrier(owner, OwnerLifetime.of(owner as AnyObject), body)
  }

  /// Runs the body when everything added before has finished, unless the lifetime ends first. What is added later waits for it.
  ///
  /// It counts as work of the lifetime, is waited for and cancelled with its other work. While the lifetime is suspended, it holds up what
  /// comes behind it. When it is cancelled, that goes on.
  /// - Parameters:
  ///   - lifetime: kept until the body has run. Its owner is not held, and the body must not capture it.
  ///   - body: runs once, on a thread of the queue's.
  /// - Complexity: linear in the queue's workers.
  public func addBarrier(lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submitAlone(.block(body), lifetime)
  }

  private func addBarrier<Owner: AnyObject & Sendable>(
    _ owner: Owner, _ lifetime: OwnerLifetime, _ body: @escaping @Sendable (Owner) -> Void
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submitAlone(.ownerJob(ErasedOwnerBody.erase(body), heldBy: lifetime.holdUnlessBound(to: owner)), lifetime)
  }

  private func submitAlone(_ work: consuming WorkItem, _ lifetime: OwnerLifetime) {
    let level = PriorityLevel.of(.normal)
    switch core.mutate(with: work, { scheduler, _, work in scheduler.addAlone(work, lifetime, level: level) }) {
    case .taken: break
    case .takenForHeldBackOwner: lifetime.ownerHold?.lookAgainIfHeldBack()
    case .refused: refusedJobs.add()
    }
  }
}
