// What the scheduler has said is to be done when the lock is free, and needs threads.

extension Waiter {
  /// The wait is over.
  func resume() {
    switch self {
    case .thread(let thread): thread.wake()
    case .task(let task): task.resume()
    case .drain(let outcome): outcome.settle(true)
    }
  }
}

extension OwnerQueueDepartures {
  /// `complete`; in the background if there are more than so many: they would hold up the thread, and what it is to do next.
  static func complete(_ ownerQueues: consuming [OwnerQueue], unlessMoreThan most: Int) -> [OwnerQueue] {
    guard ownerQueues.count > most else { return complete(ownerQueues) }
    DeferredCalls.add { [ownerQueues = copy ownerQueues] in _ = complete(ownerQueues) }
    DeferredReleases.add(contentsOf: ownerQueues)  // none of the references stays here: it could be the last
    return []
  }

  /// Has the owner queues leave their lifetimes.
  /// - Returns: those that nobody holds any more, for owners to come. Only of lifetimes whose end is announced: it is for nobody else to
  ///   end them, so to let go of one runs no code of the user's.
  static func complete(_ ownerQueues: consuming [OwnerQueue]) -> [OwnerQueue] {
    guard !ownerQueues.isEmpty else { return [] }
    for ownerQueue in copy ownerQueues { ownerQueue.lifetime?.leave(ownerQueue) }
    var spares: [OwnerQueue] = []
    for index in ownerQueues.indices where ownerQueues[index].lifetime?.isOnlyMemory ?? false {
      guard isKnownUniquelyReferenced(&ownerQueues[index]) else { continue }
      ownerQueues[index].becomeSpare()
      spares.append(ownerQueues[index])
    }
    if spares.count == ownerQueues.count { return spares }
    ownerQueues.removeAll { $0.unretainedLifetime == nil }
    // A lifetime that is only dropped ends with its last reference, which may be here.
    let mayEnd = ownerQueues.contains { ownerQueue in ownerQueue.unretainedLifetime.map { $0.referenceCount == 1 } ?? false }
    if mayEnd { DeferredReleases.add(contentsOf: ownerQueues) } else { DeferredReleases.addWithoutHaste(ownerQueues) }
    return spares
  }
}

extension QueueProgress {
  /// Soon, away from all threads that others depend on.
  func tellInBackground() {
    if claimTelling() { DeferredCalls.add { self.tell() } }
  }
}
