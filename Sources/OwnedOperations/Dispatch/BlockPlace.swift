import Dispatch

/// Where a block of an owner runs, and goes again if it has been held back.
enum BlockPlace: Sendable {
  case queue(DispatchPlace)
  /// An actor that is held once the block stands in its mailbox. It isn't held before, because an actor keeps whatever lives in it.
  case actor(WeakActor)
}

/// How a block is submitted to a dispatch queue.
struct DispatchPlace: Sendable {
  let queue: DispatchQueue
  let qos: DispatchQoS
  private let rawFlags: DispatchWorkItemFlags.RawValue  // not Sendable otherwise
  var flags: DispatchWorkItemFlags { DispatchWorkItemFlags(rawValue: rawFlags) }

  init(queue: DispatchQueue, qos: DispatchQoS, flags: DispatchWorkItemFlags) {
    (self.queue, self.qos, rawFlags) = (queue, qos, flags.rawValue)
  }

  /// Valid as long as the place is there.
  var queueIdentity: ObjectIdentifier { MainQueue.identity(of: queue) }
}

/// An actor, for those who must not keep it.
final class WeakActor: Sendable {
  weak let object: (any Actor)?

  init(_ object: any Actor) { self.object = object }
}
