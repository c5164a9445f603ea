/// A body that waits for its turn on an actor, on behalf of an owner: what the actor's mailbox holds in place of the body. See
/// `PendingBlock`.
///
/// The owner may be an object that only this actor may touch. So it is retained, called and released on the actor, and nowhere else. The
/// actor itself is held once the block stands in its mailbox. It isn't held before, because an actor keeps whatever lives in it.
final class IsolatedBlock: PendingBlock, @unchecked Sendable {  // as its base class; `actor` is written by the initialiser only
  private var body: ErasedOwnerBody.Body?
  private let hold: OwnerHold
  private weak var actor: (any Actor)?

  /// - Parameter body: called on the actor.
  init(_ lifetime: OwnerLifetime, _ hold: OwnerHold, on actor: any Actor, _ body: @escaping ErasedOwnerBody.Body) {
    self.body = body
    self.hold = hold
    self.actor = actor
    super.init(lifetime)
  }

  func submit() {
    guard lifetime.join(self) else { return releaseBody() }
    resubmit()
    hold.lookAgainIfHeldBack()
  }

  /// Without the actor nobody may touch the owner any more.
  override func resubmit() {
    guard let actor else { return lifetimeDidEnd() }
    // Detached: what delivers may be a task, whose values are none of the handler's.
    Task.detached { await self.run(on: actor) }
  }

  private func run(on actor: isolated any Actor) { run() }

  override func runBody() -> Turn {
    switch hold.begin() {
    case .begins(let owner):
      if let body = body.take() { hold.call(body, with: owner) }
      hold.end(owner)
      return .over
    case .heldBack: return .heldBack(hold)
    case .gone:
      releaseBody()
      return .over
    }
  }

  override func releaseBody() {
    if let body = body.take() { DeferredReleases.add(consume body) }
  }
}
