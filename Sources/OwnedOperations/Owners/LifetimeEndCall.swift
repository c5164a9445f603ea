/// A member of a lifetime that does one thing when the owner ends: for those who can't be members themselves.
///
/// Whoever wants to hear keeps it, and lets go of it, or calls `leave`, when that isn't wanted any more. Joining and leaving take constant
/// time, and so the end does: unlike hooks, members are told in the background.
final class LifetimeEndCall: LifetimeMember {
  static let memberKind: MemberKind = MemberKind(of: LifetimeEndCall.self)
  let lifetime: OwnerLifetime
  private let place = SharedCell(MemberList.notListed)  // guarded by the lock of `lifetime`
  private let action: Locked<Action>

  private struct Action {
    var body: (@Sendable () -> Void)?
  }

  /// - Parameter action: called at most once, on a thread of the reaper's, and so runs and releases nothing of the user's. Must not keep
  ///   this object's keeper.
  init(_ lifetime: OwnerLifetime, _ action: @escaping @Sendable () -> Void) {
    self.lifetime = lifetime
    self.action = Locked(Action(body: action))
  }

  deinit { lifetime.leave(self) }

  var memberIndex: Int32 {
    get { place.value }
    set { place.value = newValue }
  }

  /// Once.
  /// - Returns: false if the owner has ended: then the action isn't called.
  func join() -> Bool { lifetime.join(self) }

  /// The end doesn't matter any more. May be called more than once.
  func leave() {
    lifetime.leave(self)
    withExtendedLifetime(take()) {}
  }

  func lifetimeDidEnd() { take()?() }

  private func take() -> (@Sendable () -> Void)? {
    action.withLock { $0.body.take() }
  }
}
