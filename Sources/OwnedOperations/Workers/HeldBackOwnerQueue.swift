/// Work of an owner that is held back. Until that is decided it keeps its queue, which may have nobody else: it finishes its work before it
/// goes.
final class HeldBackOwnerQueue: HeldBackWork {
  private let ownerQueue: OwnerQueue
  private let core: QueueCore
  private let host: (any QueueHost)?

  init(_ ownerQueue: OwnerQueue, _ core: QueueCore) { (self.ownerQueue, self.core, host) = (ownerQueue, core, core.host) }

  func ownerWasDecided() { core.goOn(with: ownerQueue) }
}
