/// How much a member has pending: how soon it is to hear of an end, and by whom.
enum PendingAmount: UInt8 {
  case none, one, several

  init(_ count: Int) { self = count == 0 ? .none : count == 1 ? .one : .several }
}

/// Pending work of an owner: what an end must reach. Operations, blocks, graph runs, observations and
/// owner queues are members.
///
/// A lifetime does not keep its members alive. A member joins when its work becomes pending and leaves when the work is finished, at the
/// latest in its deinit.
protocol LifetimeMember: AnyObject, Sendable {
  /// `MemberKind(of: Self.self)`, kept once for all.
  static var memberKind: MemberKind { get }

  /// Where the member stands in its lifetime's list. Written and read by ``MemberList`` only, under the lifetime's lock.
  var memberIndex: Int32 { get set }

  /// How much the member has pending. With nothing, there is no haste to tell it of an end; with several, that is left to the reaper. A
  /// hint: it may be out of date, but not for who has given the member work, or been told that it is finished. Asked under the lifetime's
  /// lock, also while the member deinitialises.
  var pending: PendingAmount { get }

  /// Whether the last reference to it may go where nothing of the user's may run, once it has been told of the end; unless what goes with
  /// its lifetime is the user's. The same for all of a kind.
  var isOnlyMemory: Bool { get }

  /// The owner has ended. Called once, on a thread of the reaper's, if the member had joined by then and not left.
  /// What is the user's is not run or released here, but handed to ``DeferredCalls`` and ``DeferredReleases``.
  func lifetimeDidEnd()
}

extension LifetimeMember {
  var pending: PendingAmount { .several }
  var isOnlyMemory: Bool { false }
}

/// A member that hears of its end together with others, of other lifetimes: that is cheaper where many owners come and go.
protocol MemberToldWithOthers: LifetimeMember {
  /// With whom it is told: those who have the same.
  var companions: ObjectIdentifier { get }

  /// What `lifetimeDidEnd` does, on the thread that ends the owner: if that takes constant time, waits for nobody and leaves alone all that
  /// is the user's.
  /// - Parameter member: the caller's only reference. It goes with this, if it is done.
  /// - Returns: whether it has been done. If not, nothing has.
  static func lifetimeDidEndAtOnce(of member: Retained<Self>) -> Bool

  /// What `lifetimeDidEnd` does, for a few that are told together. The references go in it, and may be the last, unless the caller has
  /// another.
  static func lifetimesDidEnd(of members: consuming [Self])
}

/// How a list deals with members that it knows by address only. It takes no reference: that could turn out to be the last one, under the
/// lifetime's lock, and costs more than all the rest.
final class MemberKind: Sendable {
  private let setIndex: @Sendable (Int32, UnsafeMutableRawPointer) -> Void
  private let pending: @Sendable (UnsafeMutableRawPointer) -> PendingAmount
  private let member: @Sendable (AnyObject) -> any LifetimeMember
  /// To ask a member for what it conforms to takes longer than all else that is done with it.
  private let memberToldWithOthers: (@Sendable (AnyObject) -> any MemberToldWithOthers)?
  // If its members are told with others: see ``MemberToldWithOthers``.

  let tellTogether: (@Sendable (consuming [any LifetimeMember]) -> Void)?
  private let tellAtOnce: (@Sendable (Retained<AnyObject>) -> Bool)?

  convenience init<Member: LifetimeMember>(of kind: Member.Type) {
    self.init(of: kind, toldWithOthers: nil, tellAtOnce: nil, tellTogether: nil)
  }

  convenience init<Member: MemberToldWithOthers>(of kind: Member.Type) {
    self.init(
      of: kind, toldWithOthers: { unsafeDowncast($0, to: Member.self) },
      tellAtOnce: { member in Member.lifetimeDidEndAtOnce(of: Retained(address: member.address)) },
      tellTogether: { members in
        var untyped = consume members
        let typed = untyped.compactMap { $0 as? Member }
        untyped = []
        Member.lifetimesDidEnd(of: consume typed)
      })
  }

  private init<Member: LifetimeMember>(
    of _: Member.Type, toldWithOthers: (@Sendable (AnyObject) -> any MemberToldWithOthers)?,
    tellAtOnce: (@Sendable (Retained<AnyObject>) -> Bool)?, tellTogether: (@Sendable (consuming [any LifetimeMember]) -> Void)?
  ) {
    self.tellAtOnce = tellAtOnce
    memberToldWithOthers = toldWithOthers
    setIndex = { index, member in Borrowed<Member>(address: member).with { $0.memberIndex = index } }
    pending = { member in Borrowed<Member>(address: member).with { $0.pending } }
    member = { unsafeDowncast($0, to: Member.self) }
    self.tellTogether = tellTogether
  }

  func setIndex(_ index: Int32, of member: UnsafeMutableRawPointer) { setIndex(index, member) }
  func pending(_ member: UnsafeMutableRawPointer) -> PendingAmount { pending(member) }
  func member(_ object: AnyObject) -> any LifetimeMember { member(object) }
  var isToldWithOthers: Bool { memberToldWithOthers != nil }
  func tellAtOnce(_ member: Retained<AnyObject>) -> Bool { tellAtOnce?(member) ?? false }
  func memberToldWithOthers(_ object: AnyObject) -> (any MemberToldWithOthers)? { memberToldWithOthers?(object) }
}

/// The members of one lifetime, unretained, in an array of 16 bytes a member. Joining and leaving are O(1), and the array is left to the
/// reaper as it stands.
///
/// Guarded by the lock of its lifetime. While the lifetime is alive the last member fills the place of one that leaves. Once it has ended,
/// places no longer move, because the reaper walks them.
///
/// A member whose last reference has gone on another thread may still stand here, waiting in its deinit for the lock. Its memory is there
/// until it has left, so it can be moved. It can't be retained any more, which `retained()` tells.
struct MemberList {
  static let notListed: Int32 = -1

  private struct Entry {
    var reference: UnretainedReference<AnyObject>?
    let kind: Borrowed<MemberKind>  // there is one for each kind, for ever

    func retained() -> (any LifetimeMember)? {
      guard let object = reference?.retained() else { return nil }
      return kind.with { $0.member(object) }
    }

    func retainedToldWithOthers() -> (any MemberToldWithOthers)? {
      guard kind.with({ $0.isToldWithOthers }), let object = reference?.retained() else { return nil }
      return kind.with { $0.memberToldWithOthers(object) }
    }

    func retainToldWithOthers() -> ToldAtOnce? {
      guard kind.with({ $0.isToldWithOthers }), let object = reference?.retained() else { return nil }
      return ToldAtOnce(member: Retained(object), kind: kind)
    }
  }

  /// A member that may be told at once. Counted by hand, so that nobody counts it twice.
  struct ToldAtOnce {
    fileprivate let member: Retained<AnyObject>
    fileprivate let kind: Borrowed<MemberKind>

    /// Once.
    func tell() -> Bool {
      let isTold = kind.with { $0.tellAtOnce(member) }
      if !isTold { member.release() }
      return isTold
    }
  }

  private var entries: [Entry] = []

  var count: Int { entries.count }
  var capacity: Int { entries.capacity }

  /// An end takes constant time.
  private static let mostAsked = 4

  /// The most that any of the members has pending. More than a few are not asked.
  var pending: PendingAmount {
    guard entries.count <= Self.mostAsked else { return .several }
    var most = PendingAmount.none
    for entry in entries {
      guard let address = entry.reference?.address else { continue }
      let pending = entry.kind.with { $0.pending(address) }
      if pending.rawValue > most.rawValue { most = pending }
    }
    return most
  }

  mutating func insert<Member: LifetimeMember>(_ member: Member) {
    member.memberIndex = Int32(truncatingIfNeeded: entries.count)
    entries.append(Entry(reference: UnretainedReference(member), kind: Borrowed(Member.memberKind)))
  }

  /// Takes the member out, if it is in. O(1).
  mutating func remove(_ member: some LifetimeMember, keepingPlaces: Bool) {
    let index = Int(member.memberIndex)
    guard index != Int(Self.notListed) else { return }
    member.memberIndex = Self.notListed
    guard index < entries.count else { return }
    if keepingPlaces {
      if entries.count > 1 { entries[index].reference = nil } else { entries = [] }
      return
    }
    let last = entries.removeLast()
    defer { shrink() }
    guard index < entries.count, let address = last.reference?.address else { return }
    entries[index] = last
    last.kind.with { $0.setIndex(Int32(truncatingIfNeeded: index), of: address) }
  }

  /// Amortised constant time: as many have left since the array was this large.
  private mutating func shrink() {
    guard entries.capacity > 64, entries.count < entries.capacity / 4 else { return }
    var smaller: [Entry] = []
    smaller.reserveCapacity(entries.count * 2)
    smaller.append(contentsOf: entries)
    entries = smaller
  }

  /// Takes the members at the places `start..<start + limit` out and appends those that can still be retained.
  /// - Returns: the place to go on from, or nil at the end of the list.
  mutating func take(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    let end = min(start + limit, entries.count)
    for index in start..<end {
      guard let member = entries[index].retained() else { continue }
      member.memberIndex = Self.notListed
      entries[index].reference = nil
      taken.append(member)
    }
    return end < entries.count ? end : nil
  }

  /// Takes the member out, if there is one that hears of its end with others, and no other place.
  mutating func takeOnlyOneToldWithOthers() -> (any MemberToldWithOthers)? {
    guard entries.count == 1, let member = entries[0].retainedToldWithOthers() else { return nil }
    member.memberIndex = Self.notListed
    entries = []
    return member
  }

  /// The one member, if it hears of its end with others. It stays.
  var onlyOneToldAtOnce: ToldAtOnce? { entries.count == 1 ? entries[0].retainToldWithOthers() : nil }

  mutating func removeAll() {
    entries = []
  }
}
