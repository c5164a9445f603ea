// What the scheduler has said is to be done when the lock is free, and needs threads.

extension Waiter {
  /// The wait is over.
  func resume() {
    switch self {
    case .thread(let thread): thread.wake()
    case .task(let continuation): continuation.resume()
    case .drain(let outcome): outcome.settle(true)
    }
  }
}

extension OwnerQueueDepartures {
  /// `complete`, for the queue's deinit: many would hold up the thread that lets go of it.
  static func completeOfDeinit(_ ownerQueues: consuming [OwnerQueue]) {
    guard ownerQueues.count > 64 else { return complete(ownerQueues) }
    DeferredCalls.add { [ownerQueues = copy ownerQueues] in complete(ownerQueues) }
    DeferredReleases.add(contentsOf: ownerQueues)  // none of the references stays here: it could be the last
  }

  /// Has the owner queues leave their lifetimes.
  static func complete(_ ownerQueues: consuming [OwnerQueue]) {
    guard !ownerQueues.isEmpty else { return }
    for ownerQueue in copy ownerQueues { ownerQueue.lifetime?.leave(ownerQueue) }
    // A lifetime that is only dropped ends with its last reference, which may be here.
    let mayEnd = ownerQueues.contains { ownerQueue in ownerQueue.unretainedLifetime.map { $0.referenceCount == 1 } ?? false }
    if mayEnd { DeferredReleases.add(contentsOf: ownerQueues) } else { DeferredReleases.addWithoutHaste(ownerQueues) }
  }
}

extension QueueProgress {
  /// Soon, away from all threads that others depend on.
  func tellInBackground() {
    if claimTelling() { DeferredCalls.add { self.tell() } }
  }
}
