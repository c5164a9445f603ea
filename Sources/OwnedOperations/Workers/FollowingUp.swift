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
  /// Has the owner queues leave their lifetimes.
  static func complete(_ ownerQueues: consuming [OwnerQueue]) {
    guard !ownerQueues.isEmpty else { return }
    for ownerQueue in copy ownerQueues { ownerQueue.lifetime?.leave(ownerQueue) }
    // A lifetime that is only dropped ends with its last reference, which may be here.
    let mayEnd = ownerQueues.contains { ownerQueue in ownerQueue.unretainedLifetime.map { $0.referenceCount == 1 } ?? false }
    if mayEnd { DeferredReleases.add(contentsOf: ownerQueues) } else { DeferredReleases.addWithoutHaste(ownerQueues) }
  }
}

extension QueueCore {
  /// Tells the progress, whose observers are the user's; then those whose wait was over before. And so on, until nothing is left to tell.
  func tell(_ report: Scheduler.Report, _ waiters: [Waiter]) {
    var (next, waiters) = (Optional(report), waiters)
    while let report = next {
      report.tell()
      for waiter in waiters { waiter.resume() }
      (next, waiters) = mutate { scheduler, _ in scheduler.goOnReporting() }
    }
    for waiter in waiters { waiter.resume() }
  }

  func tellInBackground(_ report: Scheduler.Report, _ waiters: [Waiter]) {
    DeferredCalls.add { [reference] in
      if reference?.whileThere({ $0.tell(report, waiters) }) != nil { return }
      // The queue has gone.
      report.tell()
      for waiter in waiters { waiter.resume() }
    }
  }
}
