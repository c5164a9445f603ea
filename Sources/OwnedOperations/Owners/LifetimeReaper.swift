import Dispatch

/// Cleans up behind ended owners, away from the thread that ended them: an end hands its lifetime over in constant time, however much
/// work is pending, and the members learn of it here.
///
/// One serial queue of its own. Serial queues draw on threads that blocked operations can't use up, so captures go even when every worker is
/// stuck.
enum LifetimeReaper {
  private final class Inbox: Sendable {
    let lock = Lock()
    nonisolated(unsafe) var lifetimes: [OwnerLifetime] = []  // guarded by `lock`
  }

  private static let inbox = Inbox()
  private static let queue = DispatchQueue(label: "OwnedOperations.LifetimeReaper", qos: .userInitiated)
  private static let batch = 256

  /// Any thread; constant time.
  static func reap(_ lifetime: OwnerLifetime) {
    let wasEmpty = inbox.lock.withLock {
      inbox.lifetimes.append(lifetime)
      return inbox.lifetimes.count == 1
    }
    if wasEmpty { queue.async { drain() } }
  }

  /// Ends the lifetime from the reaper's thread, for those who may not run its hooks. Any thread.
  static func end(_ lifetime: OwnerLifetime, _ reason: OwnerEndReason) {
    queue.async { lifetime.end(reason) }
  }

  private static func drain() {
    var lifetimes: [OwnerLifetime] = []
    inbox.lock.withLock { swap(&lifetimes, &inbox.lifetimes) }
    var members: [any LifetimeMember] = []
    for lifetime in lifetimes {
      var place: Int? = 0
      while let start = place {
        place = lifetime.takeMembers(from: start, limit: batch, into: &members)
        for member in members { member.lifetimeDidEnd() }
        members.removeAll(keepingCapacity: true)
      }
    }
  }

  /// Returns when everything handed over before the call has been cleaned up. Not from the reaper's own thread.
  static func waitUntilIdle() {
    queue.sync {}
  }
}
