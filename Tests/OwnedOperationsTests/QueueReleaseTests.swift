import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// What a queue lets go of may have a deinit or a hook that uses the queue; it runs outside the queue's lock.
@Suite struct QueueReleaseTests {
  /// The lifetimes are held by nobody but the queue, which lets go of them when it makes room for others.
  @Test func hooksOfLifetimesThatTheQueueLetsGoOfMayUseTheQueue() {
    let queue = OwnerScopedQueue()
    let seen = Counter()
    let isDone = returns {
      for _ in 0..<1_000 {
        let lifetime = OwnerLifetime()
        lifetime.onEnd { [weak queue] _ in  // the queue keeps some of the last lifetimes
          _ = queue?.operationCount
          seen.add()
        }
        queue.async(lifetime: lifetime) {}
        queue.waitUntilAllOperationsAreFinished()
      }
    }
    #expect(isDone)
    #expect(seen.value > 0)
  }

  @Test func hooksOfLifetimesThatEndWithAStageMayUseTheQueue() {
    let queue = OwnerScopedQueue()
    let ended = DispatchSemaphore(value: 0)
    do {
      let lifetime = OwnerLifetime()
      lifetime.onEnd { _ in
        _ = queue.operationCount
        ended.signal()
      }
      queue.async(lifetime: lifetime) {}
    }
    queue.addBarrierBlock {}
    #expect(queue.becomesIdle())
    #expect(ended.waitUntilSignalled())
  }

  @Test func jobForAnEndedOwnerIsReleasedBeforeTheCallReturnsAndOutsideTheLock() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    lifetime.end()
    let released = Counter()
    let isDone = returns {
      let deinitProbe = DeinitProbe {
        _ = queue.operationCount
        released.add()
      }
      queue.async(lifetime: lifetime) { withExtendedLifetime(deinitProbe) {} }
    }
    #expect(isDone)
    #expect(released.value == 1)
    #expect(queue.statistics.skippedForEndedOwners == 1)
  }

  @Test(arguments: ["cancelAll", "cancelOwner", "end", "run", "dropQueue"])
  func capturesAreReleasedOutsideTheLock(way: String) {
    let released = DispatchSemaphore(value: 0)
    let isDone = returns {
      let lifetime = OwnerLifetime()
      do {
        let queue = OwnerScopedQueue()
        queue.isSuspended = true
        weak let seen = queue
        for kind in 0..<3 {
          let deinitProbe = DeinitProbe {
            _ = seen?.operationCount
            released.signal()
          }
          switch kind {
          case 0: queue.async(lifetime: lifetime) { withExtendedLifetime(deinitProbe) {} }
          case 1 where way != "dropQueue": queue.addOperation(lifetime: lifetime) { withExtendedLifetime(deinitProbe) {} }
          default: queue.addBarrierBlock { withExtendedLifetime(deinitProbe) {} }
          }
        }
        switch way {
        case "cancelAll": queue.cancelAllOperations()
        case "cancelOwner": queue.cancelOperations(ownedBy: lifetime)
        case "end": lifetime.end()
        case "run": break
        default: return
        }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
      }
    }
    #expect(isDone)
    for _ in 0..<3 { #expect(released.waitUntilSignalled()) }
  }

  /// The end of an owner finds its owner queue, and counts what it took out after the phase with the owner queue has gone.
  @Test func phaseMayGoBeforeTheEndOfAnOwnerIsCounted() {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCountPerOwner = 1
    let lifetime = OwnerLifetime()
    queue.isSuspended = true
    let operation = queue.addOperation(lifetime: lifetime) {}
    queue.addBarrierBlock {}
    let taken = queue.takePending(ofEnded: lifetime)
    operation.cancel()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    guard let taken else {
      Issue.record("no owner queue")
      return
    }
    queue.finishCancelling(taken)
    #expect(taken.isPhaseOver)
    #expect(queue.operationCount == 0)
  }

  @Test func queueGoesWithTheLastOfItsWork() {
    let lifetime = OwnerLifetime()
    let gone: DispatchSemaphore
    let gate = Gate()
    let ran = Counter()
    do {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      gone = goodbye(of: queue)
      queue.addOperation { gate.pass() }
      for _ in 0..<100 {
        queue.async(lifetime: lifetime) { ran.add() }
        queue.addOperation(lifetime: lifetime) { ran.add() }
      }
      queue.addBarrierBlock { ran.add() }
      #expect(gate.hasBegun())
    }
    #expect(gone.wait(timeout: .now()) == .timedOut)
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(ran.value == 201)
  }

  /// Where a task goes on is for its executor to say, which may block. By then what was captured is on its way, and other waits are over.
  @Test(arguments: [false, true]) func anExecutorThatBlocksHoldsUpNobodyWhoWaits(forAGraph: Bool) throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    let executor = BlockingExecutor()
    let released = DispatchSemaphore(value: 0)
    let run: GraphRun?
    if forAGraph {
      let graph = OperationGraph(lifetime: one)
      graph.node {}
      run = try graph.run(on: queue)
    } else {
      run = nil
      queue.async(lifetime: one) {}
    }
    do {
      let probe = DeinitProbe { released.signal() }
      queue.async(lifetime: other) { probe.mustNotRun() }
    }
    let isOver = DispatchSemaphore(value: 0)
    Task(executorPreference: executor) {
      if let run { await run.finished() } else { await queue.finished(ownedBy: one) }
      isOver.signal()
    }
    let waits = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      queue.waitUntilFinished(ownedBy: other)
      waits.signal()
    }
    #expect(eventually { queue.snapshot.waits == (forAGraph ? 1 : 2) })
    executor.blocks()
    for lifetime in [one, other] {
      LifetimeReaper.hold(lifetime)
      lifetime.end()
    }
    Thread.detachNewThread { queue.tellOfEnds(of: [one, other]) }
    #expect(executor.isBlocked.waitUntilSignalled())
    #expect(released.waitUntilSignalled())
    if forAGraph { #expect(waits.waitUntilSignalled()) }
    executor.goesOn.signal()
    #expect(isOver.waitUntilSignalled())
    if !forAGraph { #expect(waits.waitUntilSignalled()) }
    for lifetime in [one, other] { LifetimeReaper.resume(lifetime) }
    LifetimeReaper.waitUntilIdle()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
  }

  private final class BlockingExecutor: TaskExecutor {
    let (isBlocked, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    private let isToBlock = Atomic(false)
    private let threads = DispatchQueue(label: "executor", attributes: .concurrent)

    /// The next job is held up where it comes from.
    func blocks() { isToBlock.store(true, ordering: .releasing) }

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      if isToBlock.exchange(false, ordering: .acquiringAndReleasing) {
        isBlocked.signal()
        goesOn.wait()
      }
      threads.async { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
  }
}
