import Foundation

/// What an ``ObservationTable`` asks of its center. Tests have one whose posts are made step by step.
protocol ObservableCenter: AnyObject, Sendable {
  /// Has the block called for each post of the name, or for each post, of any object, until the token is given back.
  func register(_ name: Notification.Name?, _ block: @escaping @Sendable (Notification) -> Void) -> any NSObjectProtocol
  func unregister(_ token: any NSObjectProtocol)
}

extension NotificationCenter: ObservableCenter {
  func register(_ name: Notification.Name?, _ block: @escaping @Sendable (Notification) -> Void) -> any NSObjectProtocol {
    addObserver(forName: name, object: nil, queue: nil, using: block)
  }

  func unregister(_ token: any NSObjectProtocol) { removeObserver(token) }
}

extension ObservableCenter {
  /// For those who know the kind of their owner, and where its handler runs.
  func observe(
    _ name: Notification.Name?, _ object: AnyObject?, _ lifetime: OwnerLifetime, _ level: ObserverLevel, _ handler: ObservationHandler
  ) -> OwnedObservation {
    let observation = OwnedObservation(name, object, lifetime, level, handler)
    guard observation.isValid else {
      observation.invalidate()
      return observation
    }
    ObservationTables.table(of: self).insert(observation, at: self)
    observation.joinLifetimes()
    return observation
  }
}
