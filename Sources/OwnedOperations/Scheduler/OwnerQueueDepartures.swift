/// Owner queues that have been taken out of their phases and have yet to leave their lifetimes. Guarded by the queue's lock.
///
/// To leave may mean to let go of the last reference to a lifetime, or to other pending work of the owner. Their hooks and deinits are the
/// user's code. So it is done after unlocking, in the background.
final class OwnerQueueDepartures {
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var ownerQueues: [OwnerQueue] = []
  /// So many are kept without work that a sweep is due; see `OwnerQueueTable`. A worker does it, when it has settled what it has run: those
  /// who add mustn't wait for that.
  var isSweepDue = false
  /// No worker has come to it, and whoever makes the next does.
  var isSweepOverdue = false

  /// Some that have left everything, for owners to come.
  @exclusivity(unchecked) private var spares: [OwnerQueue] = []
  private static let mostSpares = 256

  var spareCount: Int { spares.count }

  func takeSpare() -> OwnerQueue? { spares.popLast() }

  /// Takes as many as there is room for out of the array: whoever has that must not keep a reference, which could come to be the last.
  func keep(_ ownerQueues: inout [OwnerQueue]) {
    while spares.count < Self.mostSpares, let ownerQueue = ownerQueues.popLast() {
      ownerQueue.dropFlowsInUse()
      spares.append(ownerQueue)
    }
  }

  var hasRoom: Bool { spares.count < Self.mostSpares }

  /// If the owner queue has just departed, has it leave the lifetime, on the thread that ends that. There is room.
  ///
  /// The lifetime's lock comes after the queue's. The lifetime itself doesn't go: its end is under way.
  /// - Parameter ownerQueue: the only reference that is left then. It goes, before another owner can come to have the owner queue.
  func completeIfLast(_ ownerQueue: Retained<OwnerQueue>, isKept: Bool) {
    guard let last = ownerQueues.last, ownerQueue.borrowed.refers(to: last), let departed = ownerQueues.popLast() else {
      return ownerQueue.release()  // the phase has one
    }
    departed.lifetime?.leave(departed)
    ownerQueue.release()
    departed.becomeSpare()
    departed.dropFlowsInUse()
    if isKept { spares.append(departed) }
  }

  func takeSpares() -> [OwnerQueue] {
    var taken: [OwnerQueue] = []
    swap(&taken, &spares)
    return taken
  }
}
