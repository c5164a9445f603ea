import Foundation

@testable import OwnedOperations

/// What a queue's scheduler had at one moment. Tests look behind a queue's face here and nowhere else; those of the model, too, whose
/// folder has a link to this file.
struct QueueSnapshot {
  let activeWorkers, restingWorkers: Int
  /// Of the active ones: on their way; in a wait that the queue knows of; found to be blocked.
  let arrivingWorkers, waitingWorkers, blockedWorkers: Int
  let hasHandoff, isMonitored: Bool
  /// Whether the batch of the first worker has items that have not begun.
  let batchHasItems: Bool
  /// Whether one of the batches has items that have begun.
  let batchHasBegun: Bool
  /// In nanoseconds.
  let itemTime: UInt64
  let processorShare: ProcessorShare
  /// Permits that are yielded, and those of operations without a worker.
  let yielded, detached: Int
  let taskPermits: Int
  /// Whether a wait is over whose permit has not been regained; and whether somebody waits for one.
  let somebodyReturns, somebodyWaitsToReturn: Bool
  /// Those who wait for work of the queue.
  let waits: Int
  let hasDueWaiters: Bool
  let unfinished: Int
  /// Items of the first phase whose turn may come.
  let readyCount: Int
  /// Entries of the first phase's run queues, void ones included.
  let turns: Int
  /// Of the first phase.
  let ownerQueues: Int
  let suspendedOwners: Int
  /// Operations whose own `isReady` holds them back, and those that wait for dependencies that nobody announces.
  let watched, blockedWatched: Int

  fileprivate init(_ scheduler: inout Scheduler) {
    (activeWorkers, restingWorkers) = (scheduler.workers.activeCount, scheduler.workers.restingCount)
    (arrivingWorkers, waitingWorkers, blockedWorkers) = (scheduler.arriving, scheduler.waiting, scheduler.blockedWorkers)
    (hasHandoff, isMonitored) = (scheduler.handoff != nil, scheduler.isMonitored)
    batchHasItems = scheduler.workers.active.first?.batch.hasItems ?? false
    batchHasBegun = scheduler.workers.active.contains { $0.batch.hasBegun }
    (itemTime, processorShare) = (scheduler.itemTime, scheduler.processorShare)
    (yielded, detached, taskPermits) = (scheduler.yielded, scheduler.detached, scheduler.taskPermits.count)
    (somebodyReturns, somebodyWaitsToReturn) = (!scheduler.returning.isEmpty, scheduler.returning.contains { _ in true })
    (waits, hasDueWaiters) = (scheduler.waits.count, scheduler.hasDueWaiters)
    unfinished = scheduler.unfinished
    (readyCount, ownerQueues) = scheduler.firstPhase.with { ($0.readyCount, $0.ownerQueueCount) }
    turns = scheduler.firstPhase.with { phase in (0..<PriorityLevel.count).reduce(0) { $0 + phase.runQueues[$1].entryCount } }
    suspendedOwners = scheduler.suspendedOwners.count
    (watched, blockedWatched) = (scheduler.watched.count(.held) + scheduler.watched.count(.blocked), scheduler.watched.count(.blocked))
  }
}

/// What a queue's scheduler knew of one owner, in one phase.
struct OwnerSnapshot {
  let lifetime: OwnerLifetime?
  let isHeldBack, hasEnded: Bool
  /// As who has not the queue's lock sees it.
  let pending: PendingAmount
  /// Those that lie in its flows.
  let items: Int
  let lines: Int

  fileprivate init(_ ownerQueue: OwnerQueue) {
    lifetime = ownerQueue.lifetime
    (isHeldBack, hasEnded, pending) = (ownerQueue.isHeldBack, ownerQueue.hasEnded, ownerQueue.pending)
    var (items, lines) = (0, 0)
    for level in 0..<PriorityLevel.count {
      items += ownerQueue.flow(at: level)?.work.count ?? 0
      ownerQueue.forEachFlow(at: level) { if $0.line != nil { lines += 1 } }
    }
    (self.items, self.lines) = (items, lines)
  }
}

// MARK: Looking

extension OwnerScopedQueue {
  var snapshot: QueueSnapshot { core.note { QueueSnapshot(&$0) } }

  /// Whether all of it holds at one moment.
  func shows(_ condition: (QueueSnapshot) -> Bool) -> Bool { condition(snapshot) }

  /// Of all phases.
  var owners: [OwnerSnapshot] {
    core.note { scheduler in
      var owners: [OwnerSnapshot] = []
      for phase in scheduler.phases { phase.forEachOwnerQueue { owners.append(OwnerSnapshot($0)) } }
      return owners
    }
  }

  /// In the first phase.
  func snapshot(of lifetime: OwnerLifetime) -> OwnerSnapshot? {
    core.note { $0.phases[0].existingOwnerQueue(for: lifetime).map { OwnerSnapshot($0) } }
  }

  /// Whether there is work that waits because only bodies hold its owner.
  var holdsWorkBack: Bool { owners.contains { $0.isHeldBack } }
}

// MARK: What is otherwise done by timers, workers and threads in a race

extension OwnerScopedQueue {
  func lookAtWorkers(times: Int) {
    for _ in 0..<times { core.lookAtWorkers() }
  }

  /// The two halves of `addTurn`. False if the turn has to wait.
  func claimsPermit(for turn: OwnedOperation) -> Bool {
    if case .begins = core.mutate({ scheduler, _ in scheduler.addTurn(turn, to: self) }) { true } else { false }
  }

  func begin(_ turn: OwnedOperation) { core.begin(turn) }

  func tidyUp() { core.tidyUp() }

  func askWatched() { core.askWatched() }

  func setItemTime(_ nanoseconds: UInt64) { core.note { $0.itemTime = nanoseconds } }

  func noteUse(_ use: ProcessorShare.Use) { core.note { $0.processorShare.add(use) } }

  /// Runs the body under the queue's lock. It is given a question: whether somebody else waits for that.
  func whileLocked(_ body: (_ isAwaited: @escaping @Sendable () -> Bool) -> Void) {
    core.note { [core] _ in body { core.isAwaited } }
  }

  /// Takes all pending work out, in the same hold of the lock as the body runs in, as `whileLocked`.
  /// - Returns: of how many owners there was any.
  func takeAllWhileLocked(_ body: (_ isAwaited: @escaping @Sendable () -> Bool) -> Void) -> Int {
    core.mutate { [core] scheduler, _ in
      body { core.isAwaited }
      return scheduler.takeAll().taken.count
    }
  }

  /// Attaches the operation, runs the body and takes the operation back, in one hold of the lock.
  /// - Returns: whether it was attached.
  func attach(_ operation: OwnedOperation, andTakeBackAfter body: () -> Void) -> Bool {
    core.note { scheduler in
      guard case .ready = scheduler.insert(operation, to: self) else { return false }
      body()
      scheduler.withdraw(operation)
      return true
    }
  }

  /// What the reaper does when these have ended. It is to be held meanwhile.
  func tellOfEnds(of lifetimes: [OwnerLifetime]) {
    let ownerQueues = core.note { scheduler in lifetimes.compactMap { scheduler.phases[0].existingOwnerQueue(for: $0) } }
    core.ownersDidEnd(ownerQueues)
  }

  /// The first half of what the reaper does when the owner has ended.
  func takePending(ofEnded lifetime: OwnerLifetime) -> EndedOwnersWork? {
    core.note { scheduler in
      guard let ownerQueue = scheduler.phases[0].existingOwnerQueue(for: lifetime) else { return nil }
      ownerQueue.hasEnded = true
      return EndedOwnersWork(ownerQueue: ownerQueue, taken: scheduler.takePending(of: ownerQueue))
    }
  }

  /// The second half.
  func finishCancelling(_ work: EndedOwnersWork) {
    core.finishCancelling(work.taken, of: work.ownerQueue, forEndedOwner: true)
  }

  struct EndedOwnersWork {
    fileprivate let ownerQueue: OwnerQueue
    fileprivate let taken: [TakenWork]
    var isPhaseOver: Bool { ownerQueue.isRemoved }
  }
}

// MARK: Workers that the test plays

extension OwnerScopedQueue {
  /// They take so many items, one worker after the other, and give them back. The queue must be suspended, so that no others take anything.
  /// - Parameter isReversed: whether the first to take is the last to come.
  /// - Returns: how many each has got.
  @discardableResult
  func takeAndGiveBack(_ counts: [Int], isReversed: Bool = false) -> [Int] {
    core.note { scheduler in
      var workers = counts.map { _ in makeWorker(&scheduler) }
      if isReversed { workers.reverse() }
      for (worker, count) in zip(workers, counts) { Self.take(count, for: worker, &scheduler) }
      let taken = workers.map { $0.batch.count }
      scheduler.reclaimBatches()
      for worker in workers {
        scheduler.settleBatch(of: worker)
        scheduler.leave(worker)
      }
      return taken
    }
  }

  /// A worker that has taken so many items, if there are, and begins none.
  func take(_ count: Int) -> PlayedWorker {
    core.note { scheduler in
      let worker = makeWorker(&scheduler)
      Self.take(count, for: worker, &scheduler)
      return PlayedWorker(worker: worker, count: worker.batch.count)
    }
  }

  func giveBack(_ played: PlayedWorker) {
    core.note { scheduler in
      scheduler.reclaimBatch(from: played.worker)
      scheduler.settleBatch(of: played.worker)
      scheduler.leave(played.worker)
    }
  }

  struct PlayedWorker: @unchecked Sendable {  // whose worker is handed on
    fileprivate let worker: ScheduledWorker
    /// Of the items that it has taken.
    let count: Int
  }

  private func makeWorker(_ scheduler: inout Scheduler) -> ScheduledWorker {
    let generation = scheduler.workerGeneration
    return scheduler.workers.activate {
      Worker(core, generation: generation, qualityOfService: .default, underlyingQueue: nil)
    }
  }

  private static func take(_ count: Int, for worker: ScheduledWorker, _ scheduler: inout Scheduler) {
    let level = scheduler.phases[0].take(count, into: worker.batch, pool: &scheduler.pool, ownerLimit: scheduler.ownerLimit)
    worker.batch.publish(level: level ?? 0)
    worker.serial = scheduler.nextSerial()
  }
}
