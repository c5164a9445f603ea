/// Pending work of an owner: what an end must reach. Operations, delayed blocks and a queue's record of the owner are members.
///
/// A lifetime does not keep its members alive. A member joins when its work becomes pending and leaves when the work is finished, at the
/// latest in its deinit.
protocol LifetimeMember: AnyObject, Sendable {
  /// `MemberKindOf<Self>()`, kept once for all.
  static var memberKind: MemberKind { get }

  /// Where the member stands in its lifetime's list. Written and read by ``MemberList`` only, under the lifetime's lock.
  var memberIndex: Int32 { get set }

  /// The owner has ended. Called once, on the reaper's thread, if the member had joined by then and not left.
  /// Code of the user's that may block does not belong here: it would hold up the cleaning up for other owners.
  func lifetimeDidEnd()
}

/// How a list deals with members that it knows by address only: without taking a reference, which could turn out to be the last one, under the
/// lifetime's lock, and costs more than all the rest.
class MemberKind: @unchecked Sendable {  // without state
  func setIndex(_ index: Int32, of member: UnsafeMutableRawPointer) {}
  func retained(_ member: UnsafeMutableRawPointer) -> (any LifetimeMember)? { nil }
}

final class MemberKindOf<Member: LifetimeMember>: MemberKind, @unchecked Sendable {  // without state
  override func setIndex(_ index: Int32, of member: UnsafeMutableRawPointer) {
    Unmanaged<Member>.fromOpaque(member)._withUnsafeGuaranteedRef { $0.memberIndex = index }
  }

  #if !canImport(ObjectiveC)
    override func retained(_ member: UnsafeMutableRawPointer) -> (any LifetimeMember)? {
      let member = Unmanaged<Member>.fromOpaque(member)
      return member.retainUnlessReleased() ? member.takeRetainedValue() : nil
    }
  #endif
}

/// The members of one lifetime, unretained, in an array: 16 bytes a member, O(1) to join and to leave, and left to the
/// reaper as it stands.
///
/// Guarded by the lock of its lifetime. While the lifetime is alive the last member fills the place of one that leaves; once it has
/// ended, places no longer move, because the reaper walks them.
///
/// A member whose last reference has gone on another thread may still stand here, waiting in its deinit for the lock. Its memory is there
/// until it has left, so it can be moved; it can't be retained any more, which `retained()` tells.
struct MemberList {
  static let notListed: Int32 = -1

  private struct Entry {
    var address: UnsafeMutableRawPointer?
    unowned(unsafe) let kind: MemberKind
    #if canImport(ObjectiveC)
      weak var member: (any LifetimeMember)?

      func retained() -> (any LifetimeMember)? { address == nil ? nil : member }
    #else
      func retained() -> (any LifetimeMember)? { address.flatMap(kind.retained) }
    #endif
  }

  private var entries: [Entry] = []

  var count: Int { entries.count }

  mutating func insert<Member: LifetimeMember>(_ member: Member) {
    member.memberIndex = Int32(truncatingIfNeeded: entries.count)
    let address = Unmanaged.passUnretained(member).toOpaque()
    #if canImport(ObjectiveC)
      entries.append(Entry(address: address, kind: Member.memberKind, member: member))
    #else
      entries.append(Entry(address: address, kind: Member.memberKind))
    #endif
  }

  /// Takes the member out, if it is in. O(1).
  mutating func remove(_ member: some LifetimeMember, keepingPlaces: Bool) {
    let index = Int(member.memberIndex)
    guard index != Int(Self.notListed) else { return }
    member.memberIndex = Self.notListed
    guard index < entries.count else { return }
    if keepingPlaces {
      entries[index].address = nil
      return
    }
    let last = entries.removeLast()
    guard index < entries.count, let address = last.address else { return }
    entries[index] = last
    last.kind.setIndex(Int32(truncatingIfNeeded: index), of: address)
  }

  /// Takes the members at the places `start..<start + limit` out and appends those that can still be retained.
  /// - Returns: the place to go on from, or nil at the end of the list.
  mutating func take(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    let end = min(start + limit, entries.count)
    for index in start..<end {
      guard let member = entries[index].retained() else { continue }
      member.memberIndex = Self.notListed
      entries[index].address = nil
      taken.append(member)
    }
    return end < entries.count ? end : nil
  }

  mutating func removeAll() {
    entries = []
  }
}
