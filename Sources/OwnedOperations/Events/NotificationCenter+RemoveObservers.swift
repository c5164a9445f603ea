import Foundation

/// Ending many observations at once. What was registered with Foundation's own calls stays.
///
/// When one of these returns, no handler of those observations begins any more. A call goes on that is under way on another thread, or from
/// which this is called. Deliveries that wait on a queue are dropped. What was captured is released on this thread.
extension NotificationCenter {
  /// Ends the owner's observations in this center. If more is given, ends only those that all of it applies to.
  ///
  /// ```swift
  /// let session = OwnerLifetime(name: "session")
  /// let saved = Notification.Name("saved")
  /// NotificationCenter.default.observe(saved, lifetime: session) { _ in print("saved") }
  /// NotificationCenter.default.removeObservers(ownedBy: session, named: saved)
  /// ```
  /// - Parameters:
  ///   - lifetime: whose observations are meant.
  ///   - object: only those that observe this object, and no other.
  ///   - name: only those that were made for this name; not those of all names.
  ///   - level: only those of this level.
  /// - Complexity: linear in the center's observations, or in those of the name or the object.
  public func removeObservers(
    ownedBy lifetime: OwnerLifetime, of object: AnyObject? = nil, named name: Notification.Name? = nil, level: ObserverLevel? = nil
  ) {
    removeObservers(lifetime, object, name, level)
  }

  /// Ends the observations of the object in this center, whoever owns them. If more is given, ends only those that all of it applies to.
  /// Observations of any object are not meant.
  /// - Complexity: linear in the observations of the object, and in the names.
  public func removeObservers(of object: AnyObject, named name: Notification.Name? = nil, level: ObserverLevel? = nil) {
    removeObservers(nil, object, name, level)
  }

  /// Ends the observations of the name in this center, whoever owns them. If a level is given, ends only those of this level. Observations
  /// of all names are not meant.
  /// - Complexity: linear in the observations of the name.
  public func removeObservers(named name: Notification.Name, level: ObserverLevel? = nil) {
    removeObservers(nil, nil, name, level)
  }

  /// Ends the observations of the level in this center, whoever owns them.
  /// - Complexity: linear in the center's observations.
  public func removeObservers(level: ObserverLevel) {
    removeObservers(nil, nil, nil, level)
  }

  private func removeObservers(_ lifetime: OwnerLifetime?, _ object: AnyObject?, _ name: Notification.Name?, _ level: ObserverLevel?) {
    guard let table = ObservationTables.existing(self) else { return }
    let address = object.map { Borrowed($0).address }
    let selection = ObservationTable.Selection(lifetime: lifetime, object: address, name: name, level: level)
    for observation in table.observations(in: selection) { observation.invalidate() }
  }
}
