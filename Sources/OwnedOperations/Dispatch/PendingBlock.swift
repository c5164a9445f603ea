import Dispatch
import Synchronization

/// A block on its way through a dispatch queue, or an actor's mailbox, on behalf of an owner: what the queue holds in place of the body.
///
/// The queue may hold it for long: it is busy, suspended, or the deadline is an hour away. The body is stored here, not in the queue's
/// block, and is released when the owner ends. The owner is held while the body runs, and not before.
///
/// ## Protocol
///
/// `isClaimed` goes from false to true. Whoever turns it owns the body from then on: the thread that will run it, or who has found that it
/// won't run, because the owner has ended or its actor has gone. Before that, nobody touches the body after the initialiser.
/// Claiming acquires and releases. A block claimed to run reads the lifetime's state after the claim, and that load decides.
///
/// A block whose owner only bodies hold gives the claim back, and comes to the queue again when somebody else holds the owner
/// (`OwnerHold`). A lifetime that ended in between has found the block claimed. So after that the lifetime is asked once more.
final class PendingBlock: LifetimeMember, HeldBackWork {
  /// What is called: on behalf of a lifetime, or with its owner.
  private enum Body {
    case ofLifetime(@Sendable () -> Void)
    case ofOwner(ErasedOwnerBody.Body)
  }

  /// The claimer's.
  private struct Claimed {
    var body: Body?
    /// Stands in the hold's line for its dispatch queue.
    var isDisplaced = false
  }

  let lifetime: OwnerLifetime
  /// Nil for work of a lifetime without an object, which is never held back.
  private let owner: (hold: OwnerHold, place: BlockPlace)?
  static let memberKind: MemberKind = MemberKind(of: PendingBlock.self)
  private let memberPlace = SharedCell(MemberList.notListed)  // guarded by the lock of `lifetime`
  private let isClaimed = Atomic<Bool>(false)
  private let claimed: SharedCell<Claimed>

  /// Work of a lifetime without an object.
  init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
    self.lifetime = lifetime
    owner = nil
    claimed = SharedCell(Claimed(body: .ofLifetime(body)))
  }

  /// Work of an object.
  convenience init<Owner: AnyObject & Sendable>(
    _ lifetime: OwnerLifetime, _ owner: Owner, at place: BlockPlace, _ body: @escaping @Sendable (Owner) -> Void
  ) {
    self.init(lifetime, OwnerHold.of(owner, lifetime), at: place, ErasedOwnerBody.erase(body))
  }

  /// For an owner that isn't Sendable: the hold and the body are what is left of it. It is retained, called and released where the body
  /// runs, and nowhere else.
  init(_ lifetime: OwnerLifetime, _ hold: OwnerHold, at place: BlockPlace, _ body: @escaping ErasedOwnerBody.Body) {
    self.lifetime = lifetime
    owner = (hold, place)
    claimed = SharedCell(Claimed(body: .ofOwner(body)))
  }

  deinit {
    lifetime.leave(self)
  }

  var memberIndex: Int32 {
    get { memberPlace.value }
    set { memberPlace.value = newValue }
  }

  /// The queue has come to the block.
  func run() {
    guard claim() else { return }
    guard lifetime.isAlive || Mutation.blockSkipsTheLifetime.isOn else { return releaseBody() }
    switch runBody() {
    case .over: return
    case .heldBack(let hold, let object):
      isClaimed.store(false, ordering: .releasing)
      hold.keep(self)
      if !lifetime.isAlive, !Mutation.heldBackBlockMissesTheEnd.isOn { lifetimeDidEnd() }
      if let object { hold.end(object) }
    }
  }

  /// Work of the owner was added, which may be held back.
  func wasSubmitted() { owner?.hold.lookAgainIfHeldBack() }

  /// Has the queue come to the block again. If the owner has gone, or is about to, the queue isn't waited for: the owner's deinit may be
  /// what it runs.
  func ownerWasDecided() {
    if owner?.hold.isObjectAlive ?? true { submitAgain() } else { lifetimeDidEnd() }
  }

  func lifetimeDidEnd() {
    if claim() { releaseBody() }
  }

  private func claim() -> Bool {
    !isClaimed.exchange(true, ordering: .acquiringAndReleasing)
  }

  // MARK: The claimer's

  private enum Turn {
    case over
    /// Nothing was done, because only bodies hold the owner, or a block that was held back comes before this one. With the owner, if it is
    /// still to be let go of.
    case heldBack(OwnerHold, Retained<AnyObject>?)
  }

  /// Takes the body out, calls it if there is an owner to give to it, and lets go of it. Not after `releaseBody`.
  private func runBody() -> Turn {
    guard let (hold, place) = owner else {
      if case .ofLifetime(let body)? = claimed.value.body.take() { body() }
      return .over
    }
    if case .queue(let place) = place, hold.mustGoBehind(self, on: place.queueIdentity) { return holdBack(hold, nil) }
    var held: Retained<AnyObject>?
    switch hold.begin(&held) {
    case .begins(let object):
      leaveLine()
      if case .ofOwner(let body)? = claimed.value.body.take() { hold.call(body, with: object) }
      hold.end(object)
      return .over
    case .heldBack: return holdBack(hold, held)
    case .gone:
      releaseBody()
      return .over
    }
  }

  private func holdBack(_ hold: OwnerHold, _ object: Retained<AnyObject>?) -> Turn {
    if case .queue(let place)? = owner?.place, !claimed.value.isDisplaced {
      hold.displace(self, on: place.queueIdentity)
      claimed.value.isDisplaced = true
    }
    return .heldBack(hold, object)
  }

  private func leaveLine() {
    guard claimed.value.isDisplaced, case (let hold, .queue(let place))? = owner else { return }
    hold.settle(self, on: place.queueIdentity)
    claimed.value.isDisplaced = false
  }

  /// Hands the body, unless it has been taken out, to ``DeferredReleases``: neither the reaper nor the queue waits for deinits of the
  /// user's.
  private func releaseBody() {
    leaveLine()
    if let body = claimed.value.body.take() { DeferredReleases.add(consume body) }
  }

  // MARK: To its place

  /// Puts the block into the actor's mailbox.
  func submitToActor() {
    guard lifetime.join(self) else { return lifetimeDidEnd() }
    submitAgain()
    wasSubmitted()
  }

  private func submitAgain() {
    switch owner?.place {
    case .queue(let place): ThreadStart.on(place.queue, qos: place.qos, flags: place.flags) { self.run() }
    case .actor(let reference):
      // Without the actor nobody may touch the owner any more.
      guard let actor = reference.object else { return lifetimeDidEnd() }
      // Detached: what delivers may be a task, whose values are none of the handler's.
      Task.detached { await self.run(on: actor) }
    case nil: return
    }
  }

  private func run(on actor: isolated any Actor) { run() }
}
