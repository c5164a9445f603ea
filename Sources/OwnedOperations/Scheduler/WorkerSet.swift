/// A queue's workers: those that are active, which have been dispatched and have not left, and those that rest until they are needed again.
/// Guarded by the queue's lock.
struct WorkerSet {
  private static let mostResting = 64
  /// The active ones come first.
  private var workers: ContiguousArray<ScheduledWorker> = []
  private(set) var activeCount = 0

  var active: ArraySlice<ScheduledWorker> { workers[..<activeCount] }

  /// The worker to dispatch, active from now on: the one that left last, or a new one.
  mutating func activate(orMake make: () -> ScheduledWorker) -> ScheduledWorker {
    if activeCount == workers.count { workers.append(make()) }
    let worker = workers[activeCount]
    worker.place = activeCount
    activeCount += 1
    return worker
  }

  /// - Parameter isKept: for its next time.
  mutating func leave(_ worker: ScheduledWorker, isKept: Bool) {
    activeCount -= 1
    if worker.place != activeCount {
      workers.swapAt(worker.place, activeCount)
      workers[worker.place].place = worker.place
    }
    guard !isKept || workers.count - activeCount > Self.mostResting else { return }
    workers.swapAt(activeCount, workers.count - 1)
    workers.removeLast()
  }

  /// - Returns: those that rested: to let go of them takes longer than the lock should be held.
  mutating func removeResting() -> ContiguousArray<ScheduledWorker> {
    var resting: ContiguousArray<ScheduledWorker> = []
    if activeCount == 0 {
      swap(&resting, &workers)
    } else {
      resting.append(contentsOf: workers[activeCount...])
      workers.removeLast(restingCount)
    }
    return resting
  }

  var restingCount: Int { workers.count - activeCount }
}
