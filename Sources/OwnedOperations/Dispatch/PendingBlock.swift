import Dispatch
import Synchronization

/// A block on its way through a dispatch queue on behalf of an owner: what the queue holds in place of the body.
///
/// The queue may hold it for long: it is busy, suspended, or the deadline is an hour away. The body is stored here, not in the queue's
/// block, and is released when the owner ends.
///
/// ## Protocol
///
/// `isClaimed` goes from false to true. Whoever turns it owns the body from then on: the queue's thread that will run it, or the reaper of
/// the ended owner. Before that, nobody touches the body after the initialiser. Claiming acquires and releases. A block claimed to run
/// reads the lifetime's state after the claim, and that load decides.
///
/// A block whose owner only bodies hold gives the claim back, and comes to the queue again when somebody else holds the owner
/// (`OwnerHold`). A lifetime that ended in between has found the block claimed. So after that the lifetime is asked once more.
class PendingBlock: LifetimeMember, HeldBackWork, @unchecked Sendable {  // by the protocol above; what is added is the claimer's
  final let lifetime: OwnerLifetime
  static let memberKind: MemberKind = MemberKind(of: PendingBlock.self)
  final var memberIndex = MemberList.notListed  // guarded by the lock of `lifetime`
  private let isClaimed = Atomic<Bool>(false)

  init(_ lifetime: OwnerLifetime) {
    self.lifetime = lifetime
  }

  deinit {
    lifetime.leave(self)
  }

  /// The queue has come to the block.
  final func run() {
    guard claim() else { return }
    guard lifetime.isAlive || Mutation.blockSkipsTheLifetime.isOn else { return releaseBody() }
    switch runBody() {
    case .over: return
    case .heldBack(let hold):
      isClaimed.store(false, ordering: .releasing)
      hold.keep(self)
    }
    if !lifetime.isAlive, !Mutation.heldBackBlockMissesTheEnd.isOn { lifetimeDidEnd() }
  }

  enum Turn {
    case over
    /// Nothing was done, because only bodies hold the owner, or a block that was held back comes before this one.
    case heldBack(OwnerHold)
  }

  final func ownerWasDecided() { resubmit() }

  final func lifetimeDidEnd() {
    if claim() { releaseBody() }
  }

  private final func claim() -> Bool {
    !isClaimed.exchange(true, ordering: .acquiringAndReleasing)
  }

  /// Takes the body out, calls it if there is an owner to give to it, and lets go of it. Not called after `releaseBody`.
  func runBody() -> Turn { .over }

  /// Has the queue come to the block again.
  func resubmit() {}

  /// Hands the body to ``DeferredReleases``: neither the reaper nor the queue waits for deinits of the user's. Called at most once, and not
  /// after `runBody`.
  func releaseBody() {}
}

/// Work of a lifetime without an object.
final class LifetimeBlock: PendingBlock, @unchecked Sendable {  // as its base class
  private var body: (@Sendable () -> Void)?

  init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
    self.body = body
    super.init(lifetime)
  }

  override func runBody() -> Turn {
    body.take()?()
    return .over
  }

  override func releaseBody() {
    if let body = body.take() { DeferredReleases.add(consume body) }
  }
}

/// Where a block that has been held back goes again.
struct DispatchPlace {
  let queue: DispatchQueue
  let qos: DispatchQoS
  let flags: DispatchWorkItemFlags

  /// Valid as long as the place is there.
  var queueIdentity: ObjectIdentifier { MainQueue.identity(of: queue) }
}

/// Work of an object, which is held while the body runs, and not before.
final class OwnerBlock: PendingBlock, @unchecked Sendable {  // as its base class
  private var body: ErasedOwnerBody.Body?
  private let hold: OwnerHold
  private let place: DispatchPlace
  /// Stands in the hold's line for its dispatch queue.
  private var isDisplaced = false

  init<Owner: AnyObject & Sendable>(
    _ lifetime: OwnerLifetime, _ owner: Owner, at place: DispatchPlace, _ body: @escaping @Sendable (Owner) -> Void
  ) {
    self.body = ErasedOwnerBody.erase(body)
    self.place = place
    hold = OwnerHold.of(owner, lifetime)
    super.init(lifetime)
  }

  /// For an owner that isn't Sendable: the hold and the body are what is left of it.
  init(_ lifetime: OwnerLifetime, _ hold: OwnerHold, at place: DispatchPlace, _ body: @escaping ErasedOwnerBody.Body) {
    self.body = body
    self.place = place
    self.hold = hold
    super.init(lifetime)
  }

  override func runBody() -> Turn {
    if hold.mustGoBehind(self, on: place.queueIdentity) { return holdBack() }
    switch hold.begin() {
    case .begins(let owner):
      leaveLine()
      if let body = body.take() { hold.call(body, with: owner) }
      hold.end(owner)
      return .over
    case .heldBack: return holdBack()
    case .gone:
      releaseBody()
      return .over
    }
  }

  private func holdBack() -> Turn {
    if !isDisplaced { hold.displace(self, on: place.queueIdentity) }
    isDisplaced = true
    return .heldBack(hold)
  }

  private func leaveLine() {
    if isDisplaced { hold.settle(self, on: place.queueIdentity) }
    isDisplaced = false
  }

  /// Work of the owner was added, which may be held back.
  func wasSubmitted() { hold.lookAgainIfHeldBack() }

  override func resubmit() { ThreadStart.on(place.queue, qos: place.qos, flags: place.flags) { self.run() } }

  override func releaseBody() {
    leaveLine()
    if let body = body.take() { DeferredReleases.add(consume body) }
  }
}
