/// Pending work of an owner: what an end must reach. Operations, delayed blocks and a queue's record of the owner are members.
///
/// A lifetime does not keep its members alive. A member joins when its work becomes pending and leaves when the work is finished, at the
/// latest in its deinit.
protocol LifetimeMember: AnyObject, Sendable {
  /// Where the member stands in its lifetime's list. Written and read by ``MemberList`` only, under the lifetime's lock.
  var memberIndex: Int32 { get set }

  /// The owner has ended. Called once, on the reaper's thread, if the member had joined by then and not left.
  /// Code of the user's that may block does not belong here: it would hold up the cleaning up for other owners.
  func lifetimeDidEnd()
}

/// The members of one lifetime, unretained, in an array: 16 bytes a member, O(1) to join and to leave, and left to the
/// reaper as it stands.
///
/// Guarded by the lock of its lifetime. While the lifetime is alive the last member fills the place of one that leaves; once it has
/// ended, places no longer move, because the reaper walks them.
///
/// A member whose last reference has gone on another thread may still stand here, waiting in its deinit for the lock.
/// It can be named, and moved, until it has left; it can't be retained any more, which `retained()` tells.
struct MemberList {
  static let notListed: Int32 = -1

  private struct Entry {
    /// Can be named as long as it has not left.
    unowned(unsafe) var member: (any LifetimeMember)?

    #if canImport(ObjectiveC)
      private weak var weakMember: (any LifetimeMember)?

      init(member: any LifetimeMember) {
        self.member = member
        weakMember = member
      }

      func retained() -> (any LifetimeMember)? { member == nil ? nil : weakMember }
    #else
      func retained() -> (any LifetimeMember)? {
        guard let member, Unmanaged.passUnretained(member as AnyObject).retainUnlessReleased() else { return nil }
        defer { Unmanaged.passUnretained(member as AnyObject).release() }  // the reference returned is one more
        return member
      }
    #endif
  }

  private var entries: [Entry] = []

  var count: Int { entries.count }

  mutating func insert(_ member: some LifetimeMember) {
    member.memberIndex = Int32(truncatingIfNeeded: entries.count)
    entries.append(Entry(member: member))
  }

  /// Takes the member out, if it is in. O(1).
  /// - Returns: the member that has filled its place, if it could be retained. Let go of it when the lock is free: the
  ///   reference may be the last one by then, and the deinit takes the lock.
  mutating func remove(_ member: some LifetimeMember, keepingPlaces: Bool) -> (any LifetimeMember)? {
    let index = Int(member.memberIndex)
    guard index != Int(Self.notListed) else { return nil }
    member.memberIndex = Self.notListed
    guard index < entries.count else { return nil }
    if keepingPlaces {
      entries[index].member = nil
      return nil
    }
    let last = entries.removeLast()
    guard index < entries.count else { return nil }
    entries[index] = last
    let moved = last.retained()
    // Also if it is in its deinit, which a reference more or less doesn't change.
    last.member?.memberIndex = Int32(truncatingIfNeeded: index)
    return moved
  }

  /// Takes the members at the places `start..<start + limit` out and appends those that can still be retained.
  /// - Returns: the place to go on from, or nil at the end of the list.
  mutating func take(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    let end = min(start + limit, entries.count)
    for index in start..<end {
      guard let member = entries[index].retained() else { continue }
      member.memberIndex = Self.notListed
      entries[index].member = nil
      taken.append(member)
    }
    return end < entries.count ? end : nil
  }

  mutating func removeAll() {
    entries = []
  }
}
