import Dispatch
import Synchronization

/// A block on its way through a dispatch queue on behalf of an owner: what the queue holds in place of the body.
///
/// The queue may hold it for as long as it likes (it is busy, suspended, or the deadline is an hour away): the body is here, not in
/// the queue's block, and goes when the owner ends.
///
/// ## Protocol
///
/// `isClaimed` goes from false to true, once. Whoever turns it, the queue's thread that is about to run the body or the reaper that heard
/// of the owner's end, owns the body from then on; before, nobody touches it after the initialiser. Claiming acquires and
/// releases. A block claimed to run reads the lifetime's state after the claim, and that load decides.
class PendingBlock: LifetimeMember, @unchecked Sendable {  // by the protocol above; what subclasses add belongs to the claimer too
  final let lifetime: OwnerLifetime
  static let memberKind: MemberKind = MemberKindOf<PendingBlock>()
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
    if lifetime.isAlive { runBody() } else { releaseBody() }
  }

  final func lifetimeDidEnd() {
    if claim() { releaseBody() }
  }

  private final func claim() -> Bool {
    !isClaimed.exchange(true, ordering: .acquiringAndReleasing)
  }

  /// Takes the body out, calls it if there is an owner to give to it, and lets go of it. Called at most once, and not after `releaseBody`.
  func runBody() {}

  /// Called at most once, and not after `runBody`.
  func releaseBody() {}
}

/// Work of a lifetime without an object.
final class LifetimeBlock: PendingBlock, @unchecked Sendable {  // as its base class
  private var body: (@Sendable () -> Void)?

  init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
    self.body = body
    super.init(lifetime)
  }

  override func runBody() {
    body.take()?()
  }

  override func releaseBody() {
    body = nil
  }
}

/// Work of an object, held weakly until the body runs.
final class OwnerBlock<Owner: AnyObject & Sendable>: PendingBlock, @unchecked Sendable {  // as its base class
  private var body: (@Sendable (Owner) -> Void)?
  private weak var owner: Owner?  // written in the initialiser only

  init(_ lifetime: OwnerLifetime, _ owner: Owner, _ body: @escaping @Sendable (Owner) -> Void) {
    self.body = body
    self.owner = owner
    super.init(lifetime)
  }

  override func runBody() {
    guard let body = body.take(), let owner else { return }
    withExtendedLifetime(owner) { body(owner) }
  }

  override func releaseBody() {
    body = nil
  }
}
