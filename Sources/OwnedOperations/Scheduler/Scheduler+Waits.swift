/// Those who wait for work of the queue, or of one owner in it. They themselves are in `WaitList`.
extension Scheduler {
  /// Whether it is worth looking for those whose wait is over.
  var hasDueWaiters: Bool { waits.isEmpty ? false : waits.hasDue(unfinished: unfinished) }

  /// Those whose wait is over, to be resumed after unlocking.
  mutating func takeDueWaiters() -> [WaitList.Entry] { waits.takeDue(unfinished: unfinished) }

  /// - Parameters:
  ///   - lifetime: whose work to wait for; nil for everything.
  ///   - inside: the work of the queue that makes the wait.
  mutating func insert(_ waiter: Waiter, for lifetime: OwnerLifetime?, inside: WaitList.Inside?) {
    // Workers count what they have done batch by batch. The last of an owner's work must not have to wait for that of others in the same
    // batch.
    if lifetime != nil { reclaimBatches() }
    settleAll()
    guard let lifetime else { return waits.insertForQueue(waiter, inside: inside) }
    let wait = waits.insert(waiter, for: lifetime, inside: inside, unfinished: waits[lifetime] == nil ? unfinished(ownedBy: lifetime) : 0)
    for phase in phases { phase.existingOwnerQueue(for: lifetime)?.awaited = wait }
  }

  mutating func remove(_ outcome: DrainOutcome, for lifetime: OwnerLifetime) { waits.remove(outcome, for: lifetime) }

  /// Nil if the operation is not in the queue, or has finished.
  func asWaiting(_ operation: OwnedOperation) -> WaitList.Inside? {
    guard let place = operations.place(of: operation) else { return nil }
    return WaitList.Inside(lifetime: operations[place].ownerQueue.lifetime, operation: ObjectIdentifier(operation))
  }

  func unfinished(ownedBy lifetime: OwnerLifetime) -> Int {
    phases.reduce(0) { $0 + ($1.existingOwnerQueue(for: lifetime)?.unfinished ?? 0) }
  }
}
