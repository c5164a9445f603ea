/// The owner whose jobs a worker is running one after the other.
///
/// A job's owner is held strongly while the job runs. To take a reference for each job and to let go of it afterwards would write to the
/// owner's count twice a job. Those who add jobs read that cache line. So the reference taken for one job is kept for the next one of the
/// same owner. Whether somebody else holds the owner by then costs a look at the count. If only bodies do, the job is held back, and the
/// reference let go of.
struct HeldOwner: ~Copyable {
  enum Answer {
    /// Valid until the next call.
    case begins(Retained<AnyObject>)
    /// Only bodies hold the owner. The job is to be put back, and then `letGoInBackground` to be called.
    case heldBack(OwnerHold)
    case gone
  }

  private var lifetime: UnsafeMutableRawPointer?
  private var hold: Retained<OwnerHold>?
  private var object: Retained<AnyObject>?  // by `hold`
  /// Of the bodies that get the object.
  private let frame: UnsafeMutablePointer<OwnerBodyFrame>

  /// - Parameter frame: uninitialised memory, for as long as this exists.
  init(_ frame: UnsafeMutablePointer<OwnerBodyFrame>) { self.frame = frame }

  /// Whether a job of the owner may begin.
  @inline(__always)  // for each job with an owner
  mutating func answer(for lifetime: Borrowed<OwnerLifetime>?) -> Answer {
    guard let lifetime else { return .gone }
    if lifetime.address != self.lifetime {
      letGoInBackground()  // the job is in hand
      take(lifetime)
    }
    guard let object, let hold else { return .gone }
    let mayBegin = hold.with { $0.mayBegin(object) }
    // Asked for each job, and last: a lifetime may also be ended by hand.
    guard lifetime.with({ $0.isAlive }) else { return .gone }
    return mayBegin ? .begins(object) : .heldBack(hold.borrowed.object)
  }

  private mutating func take(_ lifetime: Borrowed<OwnerLifetime>) {
    guard let hold = lifetime.with({ $0.isAlive ? $0.ownerHold : nil }), let object = hold.retain() else { return }
    self.lifetime = lifetime.address
    self.object = object
    self.hold = Retained(hold)  // the owner's deinit may let go of all others
    frame.initialize(to: OwnerBodyFrame(Borrowed(hold)))
    OwnerBodyFrame.enter(frame)
  }

  /// Before anything that isn't a job of this owner. May run the owner's deinit.
  mutating func letGo() {
    if hold != nil { letGoOfOwner() }
  }

  /// Before work of somebody else's, which is in hand and must not be held up: the owner's deinit runs in the background. Also if somebody
  /// else holds the owner now: they may be the first to let go of it.
  mutating func letGoInBackground() {
    if hold != nil { letGoOfOwner(inBackground: true) }
  }

  /// When the item is over, and before what the body has captured goes: a deinit that blocks must not keep the owner. It is kept for the
  /// next job of the same owner only, if that is to begin: if only bodies hold the owner, it is not. The owner's deinit, which is no body,
  /// runs with no work item in hand; and, as with a strong reference of the body's own, before what the body has captured goes.
  /// - Parameter next: the lifetime whose job is next; a hint.
  mutating func bodyDidEnd(beforeJobOf next: UnsafeMutableRawPointer?) {
    guard let hold, let object else { return }
    if next != lifetime || !hold.with({ $0.isHeldByOthers(object.borrowed) }) { letGoOfOwner() }
  }

  @inline(never)
  private mutating func letGoOfOwner(inBackground: Bool = false) {
    guard let hold, let object else { return }
    OwnerBodyFrame.leave(frame)
    (lifetime, self.hold, self.object) = (nil, nil, nil)
    hold.with { hold in
      if !inBackground { return hold.end(object) }
      if Mutation.letsGoWithWorkInHand.isOn { hold.endWithoutRelease(object) } else { hold.endInBackground(object) }
    }
    hold.release()
  }
}
