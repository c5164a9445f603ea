/// Work of an owner that is held back. Until that is decided it keeps its queue, which may have nobody else: it finishes its work before it
/// goes.
final class HeldBackSlot: HeldBackWork {
  private let slot: OwnerSlot
  private let core: QueueCore
  private let host: (any QueueHost)?

  init(_ slot: OwnerSlot, _ core: QueueCore) { (self.slot, self.core, host) = (slot, core, core.host) }

  func ownerWasDecided() { core.goOn(with: slot) }
}
