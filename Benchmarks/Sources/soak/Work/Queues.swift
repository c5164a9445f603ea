import Foundation
import OwnedOperations

/// The queues of a run. They live as long as it; others come and go, see `Chores`.
struct Queues: Sendable {
  let all: [CheckedQueue]

  let serial: CheckedQueue
  /// Its limits and fairness change under way.
  let changing: CheckedQueue
  let cancelled: CheckedQueue
  /// For the forms on plain GCD, which run there, or on one of its global queues.
  let plainGCD = DispatchQueue(label: "soak.serial")

  init() {
    let ownerLimited = OwnerScopedQueue(name: "owner limit")
    ownerLimited.maxConcurrentOperationCountPerOwner = 2
    let roundRobin = OwnerScopedQueue(name: "round robin")
    roundRobin.ownerFairness = .roundRobin
    let underlying = DispatchQueue(label: "soak.underlying", attributes: .concurrent)
    serial = CheckedQueue(
      OwnerScopedQueue(name: "limit 1", maxConcurrentOperationCount: 1), "the serial queue", rank: 1, isSerial: true)
    changing = CheckedQueue(OwnerScopedQueue(name: "changing"), "the queue whose limits change", rank: 5)
    cancelled = CheckedQueue(
      OwnerScopedQueue(name: "cancelled"), "the queue in which all is cancelled at times", rank: 7, cancelsAll: true)
    all = [
      CheckedQueue(OwnerScopedQueue(name: "default"), "the default queue", rank: 0),
      serial,
      CheckedQueue(OwnerScopedQueue(name: "limit 3", maxConcurrentOperationCount: 3), "the queue of limit 3", rank: 2),
      CheckedQueue(ownerLimited, "the queue with a limit per owner", rank: 3),
      CheckedQueue(roundRobin, "the round robin queue", rank: 4),
      changing,
      CheckedQueue(OwnerScopedQueue(name: "on GCD", underlyingQueue: underlying), "the queue with an underlying queue", rank: 6),
      cancelled,
    ]
  }

  func any(_ random: inout SplitMix) -> CheckedQueue { all[random.below(all.count)] }
}
