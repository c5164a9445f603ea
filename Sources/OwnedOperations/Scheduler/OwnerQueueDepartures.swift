/// Owner queues that have been taken out of their phases and have yet to leave their lifetimes. Guarded by the queue's lock.
///
/// To leave may mean to let go of the last reference to a lifetime, or to other pending work of the owner. Their hooks and deinits are the
/// user's code. So it is done after unlocking, in the background.
final class OwnerQueueDepartures {
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var ownerQueues: [OwnerQueue] = []
  /// So many are kept without work that a sweep is due; see `OwnerQueueTable`.
  var mayBeMore = false
}
