import Foundation
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
    #expect(eventually { seen.value > 0 })
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

  private final class Departing: OwnedOperation, @unchecked Sendable {  // a constant
    let hasGone: @Sendable () -> Void
    init(_ lifetime: OwnerLifetime, _ hasGone: @escaping @Sendable () -> Void) {
      self.hasGone = hasGone
      super.init(lifetime: lifetime)
    }
    deinit { hasGone() }

    /// So that nobody but the canceller is left.
    override func cancel() {
      super.cancel()
      DeferredCalls.waitUntilIdle()
      DeferredReleases.waitUntilIdle()
    }
  }

  /// The queue alone keeps them. Their deinits, which may want the canceller's locks, run somewhere else.
  @Test(arguments: [false, true]) func operationsThatAreCancelledAwayGoInTheBackground(ofOwner: Bool) {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let (gone, goneHere) = (DispatchSemaphore(value: 0), Counter())
    let here = pthread_self()
    queue.isSuspended = true
    for _ in 0..<20 {
      queue.addOperation(
        Departing(lifetime) {
          if pthread_equal(here, pthread_self()) != 0 { goneHere.add() }
          gone.signal()
        })
    }
    if ofOwner { queue.cancelOperations(ownedBy: lifetime) } else { queue.cancelAllOperations() }
    for _ in 0..<20 { #expect(gone.waitUntilSignalled()) }
    #expect(goneHere.value == 0)
  }

  @Test func whatIsCancelledAlongWithItsDependencyGoesInTheBackground() {
    let queue = OwnerScopedQueue()
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let gone = DispatchSemaphore(value: 0)
    let isGoneHere = Mutexed(false)
    let here = pthread_self()
    queue.isSuspended = true
    let first = queue.addOperation(lifetime: lifetime) {}
    do {
      let dependent = Departing(other) {
        isGoneHere.value = pthread_equal(here, pthread_self()) != 0
        gone.signal()
      }
      dependent.dependencyPolicy = .requireSuccess
      dependent.addDependency(first)
      queue.addOperation(dependent)
    }
    queue.cancelOperations(ownedBy: lifetime)
    #expect(gone.waitUntilSignalled())
    #expect(!isGoneHere.value)
  }

  /// Its dependent, which is told last, has removed it by then.
  @Test func whatFailedADependentGoesInTheBackground() {
    let queue = OwnerScopedQueue()
    let (gone, isGoneHere) = (DispatchSemaphore(value: 0), Mutexed(false))
    let here = pthread_self()
    let first = OwnedBlockOperation(lifetime: .process) {}
    let dependent = OwnedBlockOperation(lifetime: .process) {}
    var observation: OperationObservation?
    do {
      let middle = Departing(.process) {
        isGoneHere.value = pthread_equal(here, pthread_self()) != 0
        gone.signal()
      }
      middle.dependencyPolicy = .requireSuccess
      middle.addDependency(first)
      dependent.addDependency(middle)
      observation = dependent.observe(\.isReady, options: [.prior]) { operation, change in
        if change.isPrior { for each in operation.dependencies { operation.removeDependency(each) } }
      }
      queue.addOperations([middle, dependent], waitUntilFinished: false)
    }
    first.cancel()
    #expect(gone.waitUntilSignalled())
    #expect(!isGoneHere.value)
    #expect(queue.becomesIdle())
    withExtendedLifetime(observation) {}
  }

  /// By the time its dependency's canceller has told it, it has run, and the canceller alone keeps it.
  @Test func whatHasRunSinceItsDependencyWasCancelledGoesInTheBackground() {
    let queue = OwnerScopedQueue()
    let (gone, isGoneHere) = (DispatchSemaphore(value: 0), Mutexed(false))
    let here = pthread_self()
    let never = BlockOperation()
    let blocked = OwnedBlockOperation(lifetime: .process) {}
    blocked.addDependency(never)
    // On no queue, so that nobody but the canceller tells of it, and ahead of the dependent.
    let ahead = OwnedBlockOperation(lifetime: .process) {}
    ahead.addDependency(blocked)
    let wasToldHere = Mutexed(false)
    let toldAhead = ahead.observe(\.isReady) { _, _ in
      wasToldHere.value = pthread_equal(here, pthread_self()) != 0
      #expect(queue.becomesIdle())
      DeferredCalls.waitUntilIdle()
      DeferredReleases.waitUntilIdle()
    }
    var observation: OperationObservation?
    do {
      let dependent = Departing(.process) {
        isGoneHere.value = pthread_equal(here, pthread_self()) != 0
        gone.signal()
      }
      dependent.addDependency(blocked)
      // For the canceller to keep it until its turn to be told.
      observation = dependent.observe(\.isReady) { _, _ in }
      queue.addOperations([blocked, dependent], waitUntilFinished: false)
    }
    blocked.cancel()
    #expect(gone.waitUntilSignalled())
    #expect(!isGoneHere.value)
    #expect(wasToldHere.value)
    withExtendedLifetime((observation, toldAhead, never)) {}
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
}
