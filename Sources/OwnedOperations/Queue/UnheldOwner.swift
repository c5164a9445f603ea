/// An object as the owner of jobs that others add later, on threads of their own.
///
/// The object isn't held meanwhile, not even for the moment in which a job is added. Otherwise that moment might outlast the last reference
/// of the user's: the job would still find its owner, and whoever adds it would run the owner's deinit.
package struct UnheldOwner<Owner: AnyObject & Sendable>: Sendable {
  private let lifetime: OwnerLifetime
  /// Nil for the object that the lifetime is bound to.
  private let hold: OwnerHold?

  package init(_ owner: Owner, _ lifetime: OwnerLifetime) {
    self.lifetime = lifetime
    hold = lifetime.holdUnlessBound(to: owner)
  }

  /// False once the object's deinit has begun, though its lifetime may go on for others.
  package var isThere: Bool { (hold ?? lifetime.ownerHold)?.isObjectAlive ?? false }

  /// Adds a job of the object's. Any thread.
  package func add(to queue: OwnerScopedQueue, _ body: @escaping @Sendable (Owner) -> Void) {
    queue.submit(ErasedOwnerBody.erase(body), lifetime, hold)
  }
}
