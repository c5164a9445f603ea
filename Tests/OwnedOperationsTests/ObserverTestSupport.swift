import Foundation

@testable import OwnedOperations

extension Notification.Name {
  static let first = Notification.Name("first")
  static let second = Notification.Name("second")
}

/// An owner, or something to observe, without a token.
final class Tokenless: Sendable {}

extension ObservableCenter {
  /// What of ours is there: observations that are not swept, and registrations.
  var observed: (observations: Int, registrations: Int) { ObservationTables.existing(self)?.counts ?? (0, 0) }
  var hasNothing: Bool { observed == (0, 0) }
}

/// A center whose posts are made step by step, so that anything may happen between its look at the registrations and each call.
final class StepwiseCenter: ObservableCenter, @unchecked Sendable {  // guarded by `lock`
  typealias Block = @Sendable (Notification) -> Void

  private final class Token: NSObject {}

  private let lock = Lock()
  private var registrations: [(token: Token, name: Notification.Name?, block: Block)] = []

  var registrationCount: Int { lock.withLock { registrations.count } }

  func register(_ name: Notification.Name?, _ block: @escaping Block) -> any NSObjectProtocol {
    let token = Token()
    lock.withLock { registrations.append((token, name, block)) }
    return token
  }

  func unregister(_ token: any NSObjectProtocol) {
    let former = lock.withLock {
      defer { registrations.removeAll { $0.token === token } }
      return registrations
    }
    withExtendedLifetime(former) {}
  }

  func observe(
    _ name: Notification.Name?, object: AnyObject? = nil, lifetime: OwnerLifetime, _ body: @escaping @Sendable (Notification) -> Void
  ) -> OwnedObservation { observe(name, object, lifetime, .normal, ObservationHandler(nil, body)) }

  /// The calls of a post, to be made one after the other.
  func beginPost(_ name: Notification.Name, _ object: Any? = nil) -> [() -> Void] {
    let notification = Notification(name: name, object: object)
    let blocks = lock.withLock { registrations.filter { $0.name == nil || $0.name == name }.map(\.block) }
    return blocks.map { block in { block(notification) } }
  }

  func post(_ name: Notification.Name, _ object: Any? = nil) {
    for call in beginPost(name, object) { call() }
  }
}
