import Dispatch
import Foundation

/// How a queue is set. What workers have taken under the old rules and not begun is reclaimed, and what these held is released.
extension Scheduler {
  // MARK: Limits, turns, suspension

  /// - Parameter asSet: to be read back.
  mutating func setLimit(_ limit: Int, asSet: Int) {
    self.limit = limit
    limitAsSet = asSet
    reclaimBatches()
  }

  /// Linear in the owners that the queue knows.
  /// - Parameter asSet: to be read back.
  mutating func setOwnerLimit(_ limit: Int, asSet: Int) {
    ownerLimit = limit
    ownerLimitAsSet = asSet
    reclaimBatches()
    for phase in phases { phase.forEachOwnerQueue { phase.release($0, ownerLimit: limit) } }
  }

  /// Linear in the owners that the queue knows.
  mutating func setFairness(_ newValue: OwnerFairness) {
    fairness = newValue
    reclaimBatches()
    for phase in phases { phase.setFairness(newValue) }
  }

  mutating func setSuspended(_ suspended: Bool) {
    isSuspended = suspended
    if suspended { reclaimBatches() }
  }

  func isSuspended(_ lifetime: OwnerLifetime) -> Bool { !suspendedOwners.isEmpty && suspendedOwners.contains(lifetime.id) }

  mutating func setSuspended(_ suspended: Bool, _ lifetime: OwnerLifetime) {
    if suspended {
      // The owner queue is what hears of the owner's end, as long as it is there.
      guard ownerQueue(for: Borrowed(lifetime)) != nil else { return }
      suspendedOwners.insert(lifetime.id)
    } else {
      suspendedOwners.remove(lifetime.id)
    }
    reclaimBatches()
    for phase in phases {
      guard let ownerQueue = phase.existingOwnerQueue(for: lifetime) else { continue }
      ownerQueue.isSuspended = suspended
      phase.release(ownerQueue, ownerLimit: ownerLimit)
    }
  }

  // MARK: What workers are made from

  /// What a setting has replaced. To be let go of after unlocking. That takes longer than the lock should be held, and may release the last
  /// reference to a dispatch queue of the user's.
  struct Replaced {
    fileprivate let workers: ContiguousArray<ScheduledWorker>
    fileprivate var underlyingQueue: DispatchQueue?
  }

  mutating func setName(_ name: String) -> Replaced {
    self.name = name
    return discardFormerWorkers()
  }

  mutating func setQualityOfService(_ qualityOfService: QualityOfService) -> Replaced {
    self.qualityOfService = qualityOfService
    return discardFormerWorkers()
  }

  /// - Returns: nil if there is work, which may count on the former one: then nothing has been set.
  mutating func setUnderlyingQueue(_ new: DispatchQueue?) -> Replaced? {
    if !Mutation.settingForgetsWhatIsOver.isOn { settleAll() }  // who has waited for a graph's run has not waited for that
    guard unfinished == 0 else { return nil }
    var replaced = discardFormerWorkers()
    replaced.underlyingQueue = underlyingQueue
    underlyingQueue = new
    return replaced
  }

  /// What workers are made from has changed. Those that have a batch finish it, and nothing that is added from now on.
  mutating func discardFormerWorkers() -> Replaced {
    workerGeneration += 1
    closeNestedWork()
    return Replaced(workers: workers.removeResting())
  }
}
