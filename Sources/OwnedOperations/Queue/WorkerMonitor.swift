import Dispatch

/// Looks, every two milliseconds while a queue is busy, for workers that have neither begun a record nor used their processor since the last look.
/// They are blocked in something that we are not told of (sleep, I/O, a lock): another worker may take over, and what they had taken in advance goes back to the
/// ready lists.
///
/// One timer per busy queue; none while every worker finds work and slots in plenty.
extension OwnerScopedQueue {
  private static let monitorInterval = DispatchTimeInterval.milliseconds(2)
  static let monitorQueue = DispatchQueue(label: "OwnedOperations.WorkerMonitor", qos: .userInitiated)
  /// A thread that used less of its processor than this since the last look is taken to be blocked, in nanoseconds.
  private static let leastProcessorTime: UInt64 = 300_000

  func scheduleLookAtWorkers() {
    Self.monitorQueue.asyncAfter(deadline: .now() + Self.monitorInterval) { [reference] in reference?.queue?.lookAtWorkers() }
  }

  func lookAtWorkers() {
    lock.lock()
    state.isMonitored = false
    for worker in state.workers.active { look(at: worker) }
    let needsMonitor = state.stuck > 0 || state.hasWork || !state.runs.isEmpty || state.workers.active.contains { $0.batch.hasRest }
    if needsMonitor, !state.workers.active.isEmpty { state.monitor(self) }
    unlockAndFollowUp()
  }

  private func look(at worker: Worker) {
    var sighting = Worker.Sighting(serial: worker.serial, position: worker.batch.position)
    let last = worker.lastSeen
    let processorTime = worker.processorTime
    sighting.processorTime = processorTime ?? 0
    worker.lastSeen = sighting
    if worker.isArriving, !worker.batch.hasBegun { return state.setStuck(worker, false) }
    let hasMoved = sighting.serial != last.serial || sighting.position != last.position
    if !hasMoved, sighting.serial != 0 { state.recordTime = QueueState.unknownTime }
    let isComputing = processorTime.map { $0 &- last.processorTime >= Self.leastProcessorTime } ?? false
    let isStuck = !hasMoved && !isComputing && sighting.serial != 0
    state.setStuck(worker, isStuck && !worker.isWaiting)
    if isStuck {
      state.settle(worker, isWorker: false)
      state.takeBatchBack(from: worker)
    }
  }
}
