import Foundation

/// Work on the main actor for owners that live there.
///
/// ``OwnerScopedQueue/main`` has the type of every queue, so nothing about it tells the compiler that its bodies run on the main actor.
/// These forms have a name of their own, belong to the type, and always mean the main queue. They can't be called on another by mistake.
///
/// The owner is retained and released on the main thread only, one body at a time. Between the call and the body nothing but its lifetime
/// is held.
extension OwnerScopedQueue {
  /// Runs the body on the main actor, as a job of ``main``, unless the owner ends first. The owner need not be Sendable: a controller that
  /// lives on the main actor.
  ///
  /// ```swift
  /// final class Controller {  // not Sendable
  ///   var title = ""
  /// }
  ///
  /// @MainActor func show(_ controller: Controller) {
  ///   OwnerScopedQueue.onMain(owner: controller) { controller in controller.title = "later" }
  /// }
  /// ```
  ///
  /// The owner is held weakly until the body runs, and strongly while it runs. The body must not capture the owner: it gets it.
  /// - Complexity: constant on average: the owner's lifetime is looked up by its address.
  @MainActor
  public static func onMain<Owner: AnyObject>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @MainActor (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    main.runOnMain(lifetime, OwnerHold.of(owner, lifetime), priority, ErasedOwnerBody.erase(onMain: body))
  }

  /// Runs the body on the main actor, as a job of ``main``, unless the owner ends first. From any thread. The owner is Sendable, such as
  /// one whose class is `@MainActor`.
  ///
  /// ```swift
  /// @MainActor final class Model {
  ///   var title = ""
  /// }
  ///
  /// func loaded(_ title: String, for model: Model) {
  ///   OwnerScopedQueue.onMain(owner: model) { model in model.title = title }
  /// }
  /// ```
  ///
  /// The owner is held weakly until the body runs, and strongly while it runs; it is released on the main thread. The body must not capture
  /// the owner: it gets it.
  /// - Complexity: constant on average: the owner's lifetime is looked up by its address.
  public static func onMain<Owner: AnyObject & Sendable>(
    owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @MainActor (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    main.runOnMain(lifetime, OwnerHold.of(owner, lifetime), priority, ErasedOwnerBody.erase(onMain: body))
  }

  /// Runs the body on the main actor when the delay has passed, with an owner that need not be Sendable. What it captured is released when
  /// the owner ends, not at the deadline.
  /// - Complexity: constant on average, and a timer of GCD's.
  @MainActor
  public static func onMain<Owner: AnyObject>(
    after delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @MainActor (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    main.runOnMain(after: delay, lifetime, OwnerHold.of(owner, lifetime), priority, ErasedOwnerBody.erase(onMain: body))
  }

  /// Runs the body on the main actor when the delay has passed, with an owner that is Sendable. What it captured is released when the owner
  /// ends, not at the deadline. From any thread.
  /// - Complexity: constant on average, and a timer of GCD's.
  public static func onMain<Owner: AnyObject & Sendable>(
    after delay: Duration, owner: Owner, priority: Operation.QueuePriority = .normal, _ body: @escaping @MainActor (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    main.runOnMain(after: delay, lifetime, OwnerHold.of(owner, lifetime), priority, ErasedOwnerBody.erase(onMain: body))
  }

  /// Runs the body on the main actor, as a job of ``main``, unless the lifetime ends first. From any thread. The lifetime's owner is not
  /// held, and the body must not capture it.
  public static func onMain(
    lifetime: OwnerLifetime, priority: Operation.QueuePriority = .normal, _ body: @escaping @MainActor () -> Void
  ) {
    // Called by the main queue only.
    main.async(lifetime: lifetime, priority: priority) { MainActor.assumeIsolated(body) }
  }

  /// Each body holds its owner by itself: kept from job to job, the last reference could be let go of on another thread.
  func runOnMain(
    _ lifetime: OwnerLifetime, _ hold: OwnerHold, _ priority: Operation.QueuePriority, _ body: @escaping ErasedOwnerBody.Body
  ) {
    guard lifetime.isAlive else { return refusedJobs.add() }
    submit(.ownerJob(body, heldBy: hold), lifetime: Borrowed(lifetime), priority: priority)
  }

  private func runOnMain(
    after delay: Duration, _ lifetime: OwnerLifetime, _ hold: OwnerHold, _ priority: Operation.QueuePriority,
    _ body: @escaping ErasedOwnerBody.Body
  ) {
    DispatchQueue.main.asyncAfter(deadline: .now() + delay.dispatchInterval, lifetime: lifetime) {
      self.runOnMain(lifetime, hold, priority, body)
    }
  }
}
