/// The owner that a node of a graph was given, until the worker that has run the node lets go of it.
///
/// When a node's body returns, the nodes that become ready by it are still to be found, and the worker takes the next one in hand. The
/// owner's deinit may wait for them, and must not run in between. So the reference stays with the worker:
///
/// - If the worker goes on with a node of the same owner, and somebody else holds the owner by then, that node takes it over.
/// - Before any other node it goes in the background. Also if somebody else holds the owner now: they may be the first to let go of it.
/// - When the work item is over that led from node to node, it goes on the worker's thread: nothing is in hand.
struct NodeOwner {
  private var kept: (hold: OwnerHold, object: Retained<AnyObject>)?

  var isKept: Bool { kept != nil }

  /// Whether a node may begin that gets the owner.
  mutating func begin(_ hold: OwnerHold) -> OwnerHold.Beginning {
    guard let kept else { return hold.begin() }
    guard kept.hold === hold else {
      letGoInBackground()
      return hold.begin()
    }
    // If not, it is let go of when the item is over, which is next.
    guard hold.mayBegin(kept.object) else { return .heldBack }
    self.kept = nil
    return .begins(kept.object)
  }

  /// The node's body has returned. It had begun with the object.
  mutating func end(_ hold: OwnerHold, _ object: Retained<AnyObject>) { kept = (hold, object) }

  mutating func letGoInBackground() {
    guard let (hold, object) = take() else { return }
    if Mutation.letsGoWithWorkInHand.isOn { hold.endWithoutRelease(object) } else { hold.endInBackground(object) }
  }

  mutating func take() -> (hold: OwnerHold, object: Retained<AnyObject>)? { kept.take() }
}
