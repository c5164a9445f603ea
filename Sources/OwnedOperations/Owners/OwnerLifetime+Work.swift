import Synchronization

/// Pending work, and the object that it is about.
extension OwnerLifetime {
  /// Has the member told when the owner ends. O(1).
  /// - Returns: false if the owner has ended: the caller does then what the member would do.
  func join(_ member: some LifetimeMember) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 || Mutation.memberMissesTheEnd.isOn else { return false }
      guarded.members.insert(member)
      return true
    }
  }

  /// The member has nothing pending any more. Does nothing if it has left or the reaper has taken it. O(1).
  func leave(_ member: some LifetimeMember) {
    lock.withLock {
      let isReaped = word.load(ordering: .relaxed) & Flag.ended != 0
      guarded.members.remove(member, keepingPlaces: isReaped && !Mutation.memberMovesWhileReaped.isOn)
    }
  }

  /// For the reaper, after the end; see ``MemberList/take(from:limit:into:)``.
  func takeMembers(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    lock.withLock {
      let next = guarded.members.take(from: start, limit: limit, into: &taken)
      if next == nil { guarded.members.removeAll() }
      return next
    }
  }

  /// The same, for the one member that most have: see ``MemberToldWithOthers``.
  func takeOnlyMemberToldWithOthers() -> (any MemberToldWithOthers)? { lock.withLock { guarded.members.takeOnlyOneToldWithOthers() } }

  /// Tells the only member, if that can be done on the thread that ends the owner.
  func tellOnlyMemberAtOnce() -> Bool {
    guard isOnlyMemory, let member = lock.withLock({ guarded.members.onlyOneToldAtOnce }) else { return false }
    return member.tell()
  }

  /// Several pieces of work are pending, which an end leaves to the reaper.
  func noteSeveral() {
    if LifetimeReaper.mayTellAtOnce, word.load(ordering: .relaxed) & Flag.hadSeveral == 0 {
      word.bitwiseOr(Flag.hadSeveral, ordering: .relaxed)
    }
  }

  // MARK: The owner itself

  /// For a lifetime that was just made: its object's end will be noticed by asking.
  func watch(_ liveness: ObjectLiveness) {
    lock.withLock {
      let relations = guarded.makeRelations()
      relations.liveness = liveness
      word.bitwiseOr(Flag.watchesObject, ordering: .releasing)
    }
  }

  /// Asks after the object, and has the lifetime ended if it has gone: in the background, because whoever asks may hold a lock.
  func objectIsAlive() -> Bool {
    guard lock.withLock({ guarded.relations?.liveness?.isAlive ?? true }) else {
      LifetimeReaper.end(self, .objectDeinitialised)
      return false
    }
    return true
  }

  /// Makes `owner` the object that ``ownerHold`` is about, held weakly, unless another object came first: several
  /// objects may share a token. An object that is deinitialising is not bound.
  /// - Returns: whether `owner` is the one.
  func bind(_ owner: AnyObject) -> Bool { bind(owner) { OwnerHold.of(owner) } }

  /// `bind`, for the lifetime of the object's token. No registry need know the hold: who asks for it comes through the token.
  func bindOwn(_ owner: AnyObject) -> Bool { bind(owner) { OwnerHold(owner) } }

  private func bind(_ owner: AnyObject, makingHold: () -> OwnerHold) -> Bool {
    if word.load(ordering: .acquiring) & Flag.bound == 0, !keep(makingHold()) { return false }
    if boundHold.unsafelyUnwrapped.refers(to: owner) { return true }  // there, because it is bound
    if word.load(ordering: .relaxed) & Flag.shared == 0 {
      lock.withLock { _ = word.bitwiseOr(Flag.shared, ordering: .releasing) }
    }
    return false
  }

  /// - Parameter hold: goes, outside the lock, if another has come first.
  /// - Returns: whether there is one.
  private func keep(_ hold: OwnerHold) -> Bool {
    guard hold.isOfObject else { return false }
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.bound == 0 || Mutation.laterHoldIsKept.isOn else { return }
      boundHold = hold
      word.bitwiseOr(Flag.bound, ordering: .releasing)
    }
    return true
  }

  /// Whether work of the lifetime may get the object that the hold is about.
  func mayConcern(_ hold: OwnerHold) -> Bool { ownerHold === hold || word.load(ordering: .acquiring) & Flag.shared != 0 }

  /// Who holds the object bound, on behalf of its work; nil before `bind` has returned true.
  var ownerHold: OwnerHold? { word.load(ordering: .acquiring) & Flag.bound == 0 ? nil : boundHold }

  /// `ownerHold`, for those who must not count references. Stays as long as the lifetime.
  var unretainedHold: Borrowed<OwnerHold>? {
    guard word.load(ordering: .acquiring) & Flag.bound != 0 else { return nil }
    return Borrowed(boundHold.unsafelyUnwrapped)  // there, because it is bound
  }

  /// Work of the owner was added.
  func noteNestedAddition() { unretainedHold?.with { $0.lookAgainIfHeldBack() } }

  // MARK: For tests

  /// See `LifetimeReaper.hold(_:)`.
  var isReapedLate: Bool {
    get { word.load(ordering: .relaxed) & Flag.reapedLate != 0 }
    set {
      if newValue { word.bitwiseOr(Flag.reapedLate, ordering: .relaxed) } else { word.bitwiseAnd(~Flag.reapedLate, ordering: .relaxed) }
    }
  }

  // MARK: For tests that say memory stays flat

  var hookCapacity: Int { lock.withLock { guarded.hooks }?.capacity ?? 0 }
  var childCount: Int { lock.withLock { guarded.relations?.children.count ?? 0 } }
  var childCapacity: Int { lock.withLock { guarded.relations?.children.capacity ?? 0 } }
  var memberCount: Int { lock.withLock { guarded.members.count } }
  var memberCapacity: Int { lock.withLock { guarded.members.capacity } }
}
