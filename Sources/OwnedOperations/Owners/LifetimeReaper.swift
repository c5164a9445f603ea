import Synchronization

/// Cleans up behind ended owners, away from the thread that ended them. An end hands its lifetime over in constant time, however much work
/// is pending, and the members learn of it here.
///
/// - What is the user's (deinits, `didCancel`, observers, hooks) is not run here, but handed to ``DeferredReleases`` and ``DeferredCalls``.
/// - Foundation may ask an operation that it knows, and that is overridden, on this thread all the same. Should that block, another thread
///   takes over: see ``Relay``.
/// - So a member may be told while another one is being told on another thread.
/// - Owner queues of one queue are told together: see ``MemberToldWithOthers``.
enum LifetimeReaper {
  private static let relay = Relay(together: together) { sweep($0, $1) }
  /// Members of owners that have many, one by one. Apart, so that owners with little work don't wait behind a million operations.
  #if OWNED_OPERATIONS_MODEL
    // The threads of another would be explored, too, and are as these.
    private static var memberRelay: Relay { relay }
    private static var relays: [Relay] { [relay] }
  #else
    private static let memberRelay = Relay()
    private static let relays = [relay, memberRelay]
  #endif
  /// Members that are taken from a lifetime under one hold of its lock.
  #if OWNED_OPERATIONS_MODEL
    private static let batch = 1
  #else
    private static let batch = 256
  #endif

  /// Owners whose members are at rest: nothing is to be cancelled, and their memory may go a little later. To wake a thread for each would
  /// cost connections and cells, which mostly end so, more than all the rest.
  private static let resting = Gatherer<OwnerLifetime> { lifetimes in
    let lifetimes = TakenElements(lifetimes)
    relay.add(
      RelaySteps(count: (lifetimes.count + together - 1) / together) { step in
        sweep(step * together..<min(lifetimes.count, (step + 1) * together), lifetimes.take)
      })
  }

  /// Lifetimes that are swept in one step.
  #if OWNED_OPERATIONS_MODEL
    private static let together = 2
  #else
    private static let together = 32
  #endif

  /// Any thread; amortised constant time.
  /// - Parameter hasHaste: the members hear of it at once, and not only within a tenth of a second.
  static func reap(_ lifetime: OwnerLifetime, hasHaste: Bool = true) {
    if lifetime.isReapedLate { return }
    guard hasHaste || Haste.isForced else {
      if !Mutation.restingMembersAreForgotten.isOn { resting.add(lifetime) }
      return
    }
    relay.push(lifetime)
  }

  /// Tells the only member on this thread, if that can be done in no time: what it has of the owner is in the cache of whoever ends the
  /// owner, if that was made lately. To have it fetched by another processor costs both more than all the rest.
  /// - Returns: whether it has been told. If not, the lifetime is to be reaped.
  static func tellsAtOnce(_ lifetime: OwnerLifetime) -> Bool { !lifetime.isReapedLate && lifetime.tellOnlyMemberAtOnce() }

  /// Whether to hand a lifetime over wakes nobody. A hint.
  static var isAwake: Bool { relay.isAwake }

  /// What `isAwake` and `reap` touch.
  static func prefetch() { Prefetch.toWrite(Borrowed(relay).address) }

  /// In the model only where a scenario is about that: the others are about what the reaper does.
  static var mayTellAtOnce: Bool {
    #if OWNED_OPERATIONS_MODEL
      !ModelRun.leavesEndsToTheReaper
    #else
      true
    #endif
  }

  private static var hasResting: Bool { !Haste.isForced && !resting.isEmpty }
  private static func handOverResting() { if !Haste.isForced { resting.handOver() } }

  /// Ends the lifetime in the background, for those who may not run its hooks. Any thread.
  static func end(_ lifetime: OwnerLifetime, _ reason: OwnerEndReason) {
    DeferredCalls.add { lifetime.end(reason) }
  }

  /// Takes the members of the lifetimes. Those that are told with others hear of it here, or in a step of their own; the others are handed
  /// over.
  ///
  /// What may block comes last, and of one queue only: to tell it, which may turn out to be gone but for this, or about to go. So it holds
  /// up no others, however many are swept together.
  /// - Parameter lifetime: called once for each index.
  private static func sweep(_ indices: Range<Int>, _ lifetime: (Int) -> OwnerLifetime) {
    var groups: [Group] = []
    var others: [OwnerLifetime] = []
    for index in indices {
      let lifetime = lifetime(index)
      guard let member = lifetime.takeOnlyMemberToldWithOthers() else {
        others.append(lifetime)
        continue
      }
      let isOnlyMemory = member.isOnlyMemory && lifetime.isOnlyMemory
      // Most often there is one group.
      if let place = groups.firstIndex(where: { $0.companions == member.companions }) {
        groups[place].add(member, isOnlyMemory)
      } else {
        groups.append(Group(member, isOnlyMemory))
      }
      if !isOnlyMemory { DeferredReleases.add(consume lifetime) }
    }
    for lifetime in others { handOverMembers(of: lifetime) }
    if !others.isEmpty { DeferredReleases.add(contentsOf: consume others) }
    var last = groups.popLast()
    if !groups.isEmpty {
      let groups = TakenElements(consume groups)
      relay.add(
        RelaySteps(count: groups.count) { index in
          var group = groups.take(index)
          group.tell()
        })
    }
    last?.tell()
  }

  /// Members that are told together.
  private struct Group {
    let companions: ObjectIdentifier
    private let kind: MemberKind
    private var memory: [any LifetimeMember] = []
    /// References to these may be the last ones to something of the user's.
    private var others: [any LifetimeMember] = []

    init(_ member: any MemberToldWithOthers, _ isOnlyMemory: Bool) {
      companions = member.companions
      kind = type(of: member).memberKind
      add(member, isOnlyMemory)
    }

    mutating func add(_ member: any MemberToldWithOthers, _ isOnlyMemory: Bool) {
      if isOnlyMemory { memory.append(member) } else { others.append(member) }
    }

    /// Leaves the group empty.
    mutating func tell() {
      var (toldMemory, toldOthers): ([any LifetimeMember], [any LifetimeMember]) = ([], [])
      swap(&toldMemory, &memory)
      swap(&toldOthers, &others)
      if !toldMemory.isEmpty { kind.tellTogether?(consume toldMemory) }
      if toldOthers.isEmpty { return }
      kind.tellTogether?(toldOthers)
      DeferredReleases.add(contentsOf: consume toldOthers)
    }
  }

  private static func handOverMembers(of lifetime: OwnerLifetime) {
    let isOnlyMemory = lifetime.isOnlyMemory
    var place: Int? = 0
    while let start = place {
      var members: [any LifetimeMember] = []
      place = lifetime.takeMembers(from: start, limit: batch, into: &members)
      let taken = TakenElements(consume members)
      memberRelay.add(RelaySteps(count: taken.count) { index in tell(taken.take(index), isOnlyMemory) })
    }
  }

  /// - Parameter isOnlyMemory: what goes with the lifetime is nothing of the user's.
  private static func tell(_ member: consuming any LifetimeMember, _ isOnlyMemory: Bool) {
    member.lifetimeDidEnd()
    if isOnlyMemory, member.isOnlyMemory { return }
    // The reference may be the last one to an operation of the user's.
    DeferredReleases.add(member)
  }

  /// Those at rest are asked first: they come to the relay.
  static var isIdle: Bool { !hasResting && relays.allSatisfy { $0.isAtRest } }

  /// Calls the body when those handed over before have been swept, and told as far as they were.
  static func pass(_ body: @escaping @Sendable () -> Void) {
    handOverResting()
    relay.add(RelaySteps(count: 1) { _ in memberRelay.add(RelaySteps(count: 1) { _ in body() }) })
  }

  // MARK: For tests

  /// The reaper is late for this lifetime, which has yet to end, until `resume`.
  static func hold(_ lifetime: OwnerLifetime) { lifetime.isReapedLate = true }

  /// After the end of a lifetime that was held.
  static func resume(_ lifetime: OwnerLifetime) {
    lifetime.isReapedLate = false
    reap(lifetime)
  }

  private static var handedOverCounts: [Int] {
    #if OWNED_OPERATIONS_MODEL
      []  // to ask would be something to explore
    #else
      relays.map(\.handedOverCount) + [DeferredCalls.handedOverCount, DeferredReleases.handedOverCount]
    #endif
  }

  /// Returns when everything handed over before the call has been cleaned up, and all that came of it has been released and called.
  /// Not from inside any of that.
  static func waitUntilIdle() {
    // What is released may end owners. So all have to be idle, and nothing have been handed over while they were looked at.
    var handedOver: [Int]
    repeat {
      handOverResting()
      for relay in relays { relay.waitUntilIdle() }
      DeferredCalls.waitUntilIdle()
      DeferredReleases.waitUntilIdle()
      handedOver = handedOverCounts
    } while !(isIdle && DeferredCalls.isIdle && DeferredReleases.isIdle && handedOver == handedOverCounts)
  }
}
