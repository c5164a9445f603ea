/// A look at the workers. When, and why, stands in `WorkerMonitor`.
extension Scheduler {
  /// 100 ms.
  private static let mostQuietLooks = 50
  /// A thread that used less of its processor than this since the last look is taken to be blocked, in nanoseconds.
  private static let leastProcessorTime: UInt64 = 300_000

  mutating func lookAtWorkers() {
    isMonitored = false
    var hasMoved = false
    for worker in workers.active where look(at: worker) { hasMoved = true }
    letMoreIn(hasMoved: hasMoved)
    let needsMonitor =
      hasWork || !runs.isEmpty
      || workers.active.contains {
        $0.isBlocked && !$0.isOutside || $0.batch.hasRest || $0.batch.nested.isOpen || $0.batch.currentFlow?.held.count ?? 0 > 0
      } || isEndAwaited && hasUncountedEnd
    if needsMonitor, !workers.active.isEmpty { monitor() }
  }

  /// A delivery waits for the one before it in its line. That may be over, and what it leaves block, or compute, in a deinit of the user's.
  @inline(never)
  mutating func monitorLines() {
    firstPhase.with { $0.hasHeldForLine = false }
    monitor()
  }

  /// Whatever bodies do: one more worker whenever work is ready and none has finished for long.
  private mutating func letMoreIn(hasMoved: Bool) {
    guard hasWork, !hasMoved else {
      quietLooks = 0
      return
    }
    quietLooks += 1
    guard quietLooks >= Self.mostQuietLooks else { return }
    quietLooks = 0
    extraWorkers += 1
  }

  /// A body that computes for long. It counts before it ends, lest others are let in beside it by what bodies of another kind have left.
  private mutating func noteComputing(for time: UInt64) {
    if time >= Self.leastProcessorTime { processorShare.add(ProcessorShare.Use(processorTime: time, time: time)) }
  }

  /// - Returns: whether the worker has begun something since the last look.
  private mutating func look(at worker: ScheduledWorker) -> Bool {
    var sighting = ScheduledWorker.Sighting(serial: worker.serial, position: worker.batch.position)
    let last = worker.lastSeen
    let processorTime = worker.processorTime
    sighting.processorTime = processorTime ?? 0
    worker.lastSeen = sighting
    if worker.isArriving, !worker.batch.hasBegun {
      setBlocked(worker, false)
      return false
    }
    let hasMoved = sighting.serial != last.serial || sighting.position != last.position
    if !hasMoved, sighting.serial != 0 { itemTime = Scheduler.unknownTime }
    let isComputing = processorTime.map { $0 &- last.processorTime >= Self.leastProcessorTime } ?? false
    let isBlocked = !hasMoved && !isComputing && sighting.serial != 0
    setBlocked(worker, isBlocked && !worker.isWaiting)
    guard isBlocked else {
      // Long bodies that compute are no place to wait behind, either.
      if !hasMoved {
        reclaimBatch(from: worker)
        noteComputing(for: sighting.processorTime &- last.processorTime)
        // What it computes may be what an item leaves. Who waits for the item, or for its permit, doesn't wait for that.
        if worker.batch.isCurrentOver || isWithoutItem(worker) {
          if isEndAwaited || limit != .max && hasWork && !maySend { setOutside(worker) }
          settle(worker, includingCurrent: true)
        }
      }
      return hasMoved
    }
    // First of all: from here on the worker begins nothing, so that what is over now is what it began last.
    reclaimBatch(from: worker)
    if worker.batch.isCurrentOver || isWithoutItem(worker) { setOutside(worker) }
    settle(worker, includingCurrent: worker.isOutside)
    return false
  }

  /// The worker has begun nothing yet of what it has in hand, and may be blocked all the same:
  /// - by what it lets go of with an item that was held back, and has been taken out of the queue meanwhile;
  /// - by the resumption of a task that is just being cancelled, before the first item.
  private func isWithoutItem(_ worker: ScheduledWorker) -> Bool {
    !worker.batch.hasBegun && !worker.isArriving && !isBarrierRunning && !Mutation.monitorLooksAtItemsOnly.isOn
  }

  // MARK: Ends that somebody waits for

  /// Whether something may wait for what workers have in hand: somebody, a barrier, a body for its permit, or an owner's next job for its
  /// turn.
  var isEndAwaited: Bool {
    workers.activeCount > 0
      && (firstPhase.address != lastPhase.address || !waits.isEmpty || !returning.isEmpty || ownerLimit != .max)
  }

  /// Whether a worker's item may be over and has not been counted.
  var hasUncountedEnd: Bool { workers.active.contains { !$0.isOutside && ($0.batch.isCurrentOver || isWithoutItem($0)) } }

  /// Counts what is over for those who ask how much is left. Who asks again and again waits, too, without being known.
  mutating func settleForQuestion() {
    settleAll()
    if hasUncountedEnd { monitor() }
  }

  /// Whether `setEndWatch` is to be called.
  var isEndWatchDue: Bool {
    #if OWNED_OPERATIONS_MODEL
      // Only where a scenario is about that: each timer is a thread more.
      if ModelRun.leavesEndsUnwatched { return false }
    #endif
    return endWatch.isDue(isEndAwaited)
  }

  /// - Returns: in how many milliseconds `lookForEnds` is to be called; nil if it is not.
  mutating func setEndWatch() -> Int? { isEndWatchDue ? endWatch.set() : nil }

  mutating func lookForEnds() {
    endWatch.noteLook(isAwaited: isEndAwaited, at: lastSerial)
    if hasUncountedEnd, !Mutation.endIsLeftToItsWorker.isOn { monitor() }
  }
}
