import Foundation

/// Observers that leave by themselves.
///
/// An observation ends with its owner, or with the object that it observes, whichever goes first. It keeps neither alive. Of one post,
/// those of a higher level are called first, whoever owns them, and among equals those that were registered first. Foundation's own
/// observers come in Foundation's order, before or after ours.
extension NotificationCenter {
  /// Calls the body with the owner when a notification is posted, until the owner or the observed object ends.
  ///
  /// ```swift
  /// final class Screen: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
  ///   func refresh() { print("refreshing") }
  /// }
  ///
  /// let screen = Screen()
  /// let saved = Notification.Name("saved")
  /// NotificationCenter.default.observe(saved, owner: screen) { screen, notification in screen.refresh() }
  /// NotificationCenter.default.post(name: saved, object: nil)
  /// ```
  ///
  /// A notification that is posted while the owner ends calls the body or doesn't, by one decision. Later ones don't. The body may post,
  /// observe, end this observation or others, and let go of its owner. It runs under no lock. It is skipped while nothing but bodies and
  /// handlers of the owner's holds the owner.
  ///
  /// Without a queue the body runs on the thread that posts, before `post` returns. With one, the post doesn't wait. Each delivery is a job
  /// of the owner in that queue, which is counted, waited for and cancelled as such. Deliveries of one observation run one at a time, in
  /// the order of the posts. They hold the notification, and the object in it, until they have run or were cancelled.
  ///
  /// An object that posts from its own deinit isn't heard by those who observe that object.
  /// - Parameters:
  ///   - name: of the notifications; nil for all names. While somebody observes all names, every post in this center pays for a look.
  ///   - object: only what is posted for this object; nil for any. It need not be an `NSObject`.
  ///   - owner: held weakly, and strongly while the body runs.
  ///   - level: whose turn it is. NaN is a precondition failure.
  ///   - queue: runs the body; kept until the observation ends. Nil for the thread that posts.
  ///   - body: gets the owner, which it must not capture. Released when the observation ends.
  /// - Returns: the observation, for those who may want to end it earlier. The center keeps it. It isn't valid if the owner has ended.
  /// - Complexity: constant, and a registration with Foundation for the first of a name. Linear in the observers of the same name that have
  ///   a lower level.
  @discardableResult
  public func observe<Owner: OperationOwner & Sendable>(
    _ name: Notification.Name?, object: AnyObject? = nil, owner: Owner, level: ObserverLevel = .normal, on queue: OwnerScopedQueue? = nil,
    _ body: @escaping @Sendable (Owner, Notification) -> Void
  ) -> OwnedObservation {
    let lifetime = owner.lifetimeToken.lifetime
    return observe(name, object, lifetime, level, ObservationHandler(owner, lifetime, line(to: queue, lifetime), body))
  }

  /// Calls the body with the owner when a notification is posted, until the owner or the observed object ends. The owner is an object that
  /// holds no token. The observation keeps neither alive.
  ///
  /// A notification that is posted while the owner ends calls the body or doesn't, by one decision. Later ones don't. The body runs under
  /// no lock, and may post, observe, and end this observation or others. Without a queue it runs on the thread that posts, before `post`
  /// returns. With one, it runs as a job of the owner there, one delivery at a time, in the order of the posts.
  /// - Parameters:
  ///   - name: of the notifications; nil for all names. While somebody observes all names, every post in this center pays for a look.
  ///   - object: only what is posted for this object; nil for any. It need not be an `NSObject`.
  ///   - owner: held weakly, and strongly while the body runs, which is skipped while nothing but bodies and handlers of the owner's holds
  ///     it.
  ///   - level: whose turn it is. NaN is a precondition failure.
  ///   - queue: runs the body; kept until the observation ends. Nil for the thread that posts.
  ///   - body: gets the owner, which it must not capture. Released when the observation ends.
  /// - Returns: the observation, for those who may want to end it earlier. The center keeps it. It isn't valid if the owner has ended.
  /// - Complexity: constant on average, and a registration with Foundation for the first of a name. Linear in the observers of the same
  ///   name that have a lower level.
  @_disfavoredOverload @discardableResult
  public func observe<Owner: AnyObject & Sendable>(
    _ name: Notification.Name?, object: AnyObject? = nil, owner: Owner, level: ObserverLevel = .normal, on queue: OwnerScopedQueue? = nil,
    _ body: @escaping @Sendable (Owner, Notification) -> Void
  ) -> OwnedObservation {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    return observe(name, object, lifetime, level, ObservationHandler(owner, lifetime, line(to: queue, lifetime), body))
  }

  /// Calls the body when a notification is posted, until the lifetime or the observed object ends.
  ///
  /// A notification that is posted while the lifetime ends calls the body or doesn't, by one decision. Later ones don't. The body runs
  /// under no lock, and may post, observe, and end this observation or others. Without a queue it runs on the thread that posts, before
  /// `post` returns. With one, it runs as a job of the lifetime there, one delivery at a time, in the order of the posts.
  /// - Parameters:
  ///   - name: of the notifications; nil for all names. While somebody observes all names, every post in this center pays for a look.
  ///   - object: only what is posted for this object; nil for any. It need not be an `NSObject`.
  ///   - lifetime: its end ends the observation. Its owner is not held.
  ///   - level: whose turn it is. NaN is a precondition failure.
  ///   - queue: runs the body; kept until the observation ends. Nil for the thread that posts.
  ///   - body: must not capture the owner. Released when the observation ends.
  /// - Returns: the observation, for those who may want to end it earlier. The center keeps it. It isn't valid if the lifetime has ended.
  /// - Complexity: constant, and a registration with Foundation for the first of a name. Linear in the observers of the same name that have
  ///   a lower level.
  @discardableResult
  public func observe(
    _ name: Notification.Name?, object: AnyObject? = nil, lifetime: OwnerLifetime, level: ObserverLevel = .normal,
    on queue: OwnerScopedQueue? = nil, _ body: @escaping @Sendable (Notification) -> Void
  ) -> OwnedObservation {
    observe(name, object, lifetime, level, ObservationHandler(line(to: queue, lifetime), body))
  }

  private func line(to queue: OwnerScopedQueue?, _ lifetime: OwnerLifetime) -> (any DeliveryLine)? {
    queue.map { SerialLine($0, lifetime) }
  }
}
