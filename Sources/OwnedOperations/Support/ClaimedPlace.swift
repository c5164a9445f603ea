import Synchronization

/// Room for what one of many wants to find again without a search. Who comes first has it, until that one gives it up; the others search.
///
/// ## Protocol
///
/// - `claimant` goes from zero to an address by compare and exchange (acquiring), and back to zero by a store of that claimant's
///   (releasing). A claimant does both, and reads and writes `value`, under the lock that guards it. If it comes under another, then in an
///   order that both know.
/// - So who finds itself in `claimant` reads what it has written. Who finds another there looks no further.
/// - A claimant gives the place up before its memory goes: no other can come to have its address while it stands there.
struct ClaimedPlace: ~Copyable {
  private let claimant = Atomic<UInt>(0)
  private let value = Atomic<UInt>(0)

  init() {}

  /// What the claimant has put here; nil if the place is another's, or nobody's. Under the claimant's lock, as all but `prefetch`.
  @inline(__always)  // for each job
  func value<Object: AnyObject>(of claimant: AnyObject, _: Object.Type) -> Borrowed<Object>? {
    guard self.claimant.load(ordering: .relaxed) == Self.word(claimant) else { return nil }
    return UnsafeMutableRawPointer(bitPattern: value.load(ordering: .relaxed) & ~Self.isCold).map { Borrowed(address: $0) }
  }

  /// Says whether nobody else uses what the claimant has put here, so that it is worth while to fetch it in advance. Where others do, each
  /// would only take it away from the other.
  @inline(__always)  // for each job
  func setCold(_ isCold: Bool) {
    let word = value.load(ordering: .relaxed)
    if (word & Self.isCold != 0) != isCold { value.store(word ^ Self.isCold, ordering: .relaxed) }
  }

  /// Whether it is nobody's, and was somebody's.
  var isLeft: Bool { value.load(ordering: .relaxed) == Self.isLeft }

  /// A bit of `value`.
  private static let isCold: UInt = 1
  /// A `value` that is no address.
  private static let isLeft: UInt = 2

  /// Puts the object here, whom the claimant keeps, unless another was first.
  /// - Returns: whether it is here. It is then until the claimant gives it up.
  func claim(for claimant: AnyObject, _ object: AnyObject) -> Bool {
    guard self.claimant.load(ordering: .relaxed) == 0 else { return false }
    if Mutation.placeIsTakenFromAnother.isOn { self.claimant.store(Self.word(claimant), ordering: .relaxed) }
    guard
      self.claimant.compareExchange(expected: 0, desired: Self.word(claimant), ordering: .acquiring).exchanged
        || Mutation.placeIsTakenFromAnother.isOn
    else { return false }
    value.store(Self.word(object), ordering: .relaxed)
    return true
  }

  /// Leaves the place to others, if the claimant has put the object here.
  func giveUp(by claimant: AnyObject, _ object: AnyObject) {
    guard self.claimant.load(ordering: .relaxed) == Self.word(claimant),
      value.load(ordering: .relaxed) & ~Self.isCold == Self.word(object)
    else { return }
    value.store(Self.isLeft, ordering: .relaxed)
    self.claimant.store(0, ordering: .releasing)
  }

  /// Has the processor fetch what is here, whoever's it is, if that is worth while. Any thread.
  @inline(__always)  // for each job
  func prefetch() {
    #if !OWNED_OPERATIONS_MODEL  // where a load is something to be explored
      let word = value.load(ordering: .relaxed)
      if word & Self.isCold != 0 { Prefetch.toWrite(UnsafeMutableRawPointer(bitPattern: word & ~Self.isCold)) }
    #endif
  }

  private static func word(_ object: AnyObject) -> UInt { UInt(bitPattern: Borrowed(object).address) }
}
