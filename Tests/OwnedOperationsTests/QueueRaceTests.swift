import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// Two things at once, each way round: whoever wins, the counts are right and nothing is left.
///
/// Where code of the user's runs between the two, `QueueGatedRaceTests` holds it up there. The decisions themselves are single exchanges,
/// or made in one hold of the queue's lock, with no place for a gate: they are repeated here.
@Suite struct QueueRaceTests {
  private static let rounds = 300

  /// The worker has taken many jobs in advance when the owner ends in the middle of one of them.
  @Test func endAgainstStartOfWhatAWorkerHasTaken() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let ran = Counter()
    for _ in 0..<2_000 { queue.async(lifetime: lifetime) { ran.add() } }  // the worker learns that jobs are short
    let gate = Gate()
    queue.async(lifetime: lifetime) { gate.pass() }
    for _ in 0..<2_000 { queue.async(lifetime: lifetime) { Issue.record("has run after the end") } }
    #expect(gate.hasBegun())
    lifetime.end()
    gate.open()
    #expect(queue.becomesIdle())
    #expect(ran.value == 2_000)
    #expect(queue.statistics.skippedForEndedOwners == 2_000)
  }

  @Test func endAgainstStart() {
    let queue = OwnerScopedQueue()
    for _ in 0..<Self.rounds {
      let lifetime = OwnerLifetime()
      let ran = Counter()
      queue.isSuspended = true
      queue.async(lifetime: lifetime) { ran.add() }
      let operation = queue.addOperation(lifetime: lifetime) { ran.add() }
      let before = queue.statistics
      race([{ queue.isSuspended = false }, { lifetime.end() }])
      #expect(queue.becomesIdle())
      let after = queue.statistics
      #expect(operation.isFinished)
      #expect(after.started - before.started == ran.value)
      #expect(after.enqueued == after.succeeded + after.cancelled)
    }
  }

  @Test func endAgainstEnqueue() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    for _ in 0..<Self.rounds {
      let lifetime = OwnerLifetime()
      let live = LiveCount()
      race([
        {
          for _ in 0..<10 {
            let (first, second) = (live.makeMember(), live.makeMember())
            queue.async(lifetime: lifetime) { first.mustNotRun() }
            queue.addOperation(lifetime: lifetime) { second.mustNotRun() }
          }
        },
        { lifetime.end() },
      ])
      #expect(live.becomesZero())
    }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == Self.rounds * 20)
  }

  @Test func cancelAgainstFinish() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    for round in 0..<Self.rounds {
      let completed = DispatchSemaphore(value: 0)
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      operation.completionBlock = { completed.signal() }
      race([{ queue.addOperation(operation) }, { if round % 2 == 0 { operation.cancel() } else { queue.cancelAllOperations() } }])
      #expect(queue.becomesIdle())
      #expect(operation.isFinished)
      #expect(completed.waitUntilSignalled())
    }
    let statistics = queue.statistics
    #expect(statistics.enqueued == Self.rounds)
    #expect(statistics.succeeded + statistics.cancelled == Self.rounds)
  }

  @Test func lastDependencyAgainstCancel() {
    let queue = OwnerScopedQueue()
    for round in 0..<Self.rounds {
      let gate = Gate()
      let ran = Counter()
      let first: Operation = round % 2 == 0 ? BlockOperation { gate.pass() } : OwnedBlockOperation(lifetime: .forTests) { gate.pass() }
      let second: Operation = round % 3 == 0 ? BlockOperation { ran.add() } : OwnedBlockOperation(lifetime: .forTests) { ran.add() }
      second.addDependency(first)
      queue.addOperations([first, second], waitUntilFinished: false)
      #expect(gate.hasBegun())
      race([{ gate.open() }, { second.cancel() }])
      #expect(queue.becomesIdle())
      #expect(second.isFinished)
      #expect(ran.value <= 1)
    }
  }

  @Test func barrierAgainstLateArrivals() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 4)
    for _ in 0..<Self.rounds {
      let running = Counter()
      let disturbed = Counter()
      let body: @Sendable () -> Void = {
        running.add()
        Pause.spin(2)
        running.add(-1)
      }
      let arrivals: @Sendable () -> Void = {
        for number in 0..<10 { queue.async(lifetime: .forTests, priority: number % 2 == 0 ? .veryHigh : .low, execute: body) }
      }
      race([
        arrivals, arrivals,
        {
          queue.addBarrierBlock {
            if running.value != 0 { disturbed.add() }
            Pause.spin(20)
            if running.value != 0 { disturbed.add() }
          }
        },
      ])
      #expect(queue.becomesIdle())
      #expect(disturbed.value == 0)
    }
  }

  @Test func limitRaisedAgainstTheLastWorkerLeaving() {
    let queue = OwnerScopedQueue()
    for _ in 0..<Self.rounds {
      queue.maxConcurrentOperationCount = 1
      queue.addOperation {}
      race([{ queue.maxConcurrentOperationCount = 0 }, { for _ in 0..<3 { queue.addOperation {} } }])
      race([{ queue.maxConcurrentOperationCount = 2 }, { queue.async(lifetime: .forTests) {} }])
      #expect(queue.becomesIdle())
    }
  }

  @Test func dropOfTheQueueAgainstFinish() {
    for _ in 0..<Self.rounds {
      let ran = Counter()
      let queue = OwnerScopedQueue()
      let gone = goodbye(of: queue)
      let holder = Mutexed<OwnerScopedQueue?>(consume queue)
      let gate = Gate()
      holder.value?.addOperation {
        gate.pass()
        ran.add()
      }
      #expect(gate.hasBegun())
      race([{ gate.open() }, { holder.value = nil }])
      #expect(gone.waitUntilSignalled())
      #expect(ran.value == 1)
    }
  }

  @Test func suspensionOfAnOwnerAgainstItsEnd() {
    let queue = OwnerScopedQueue()
    for _ in 0..<Self.rounds {
      let lifetime = OwnerLifetime()
      for _ in 0..<5 { queue.async(lifetime: lifetime) {} }
      race([{ queue.setSuspended(true, ownedBy: lifetime) }, { lifetime.end() }, { queue.async(lifetime: lifetime) {} }])
      #expect(queue.becomesIdle())
    }
  }

  /// The timer may come while another thread is asking.
  @Test func examinationGoesOnThoughTheTimerCameWhileAnotherThreadWasAsking() {
    let queue = OwnerScopedQueue()
    let operation = Reluctant()
    queue.addOperation(operation)
    operation.blocksNext()
    Thread.detachNewThread { queue.askWatched() }
    #expect(operation.gate.hasBegun())  // some thread is asking
    queue.askWatched()
    operation.gate.open()
    operation.isWilling.value = true
    #expect(queue.becomesIdle())
  }

  @Test func cancelledPlainOperationDoesNotWaitForItsDependencies() {
    let queue = OwnerScopedQueue()
    let never = BlockOperation {}
    let operation = BlockOperation {}
    operation.addDependency(never)
    queue.addOperation(operation)
    operation.cancel()
    #expect(queue.becomesIdle())
    #expect(operation.isFinished && operation.isCancelled)
  }
}

/// Not ready until it is willing; one question can be held up.
private final class Reluctant: Operation, @unchecked Sendable {  // constants
  let isWilling = Mutexed(false)
  /// Whoever asks: a worker, the readiness timer, or the test.
  private let isToBlock = Atomic(false)
  let gate = Gate()
  func blocksNext() { isToBlock.store(true, ordering: .releasing) }
  override var isReady: Bool {
    if isToBlock.exchange(false, ordering: .acquiringAndReleasing) { gate.pass() }
    return isWilling.value
  }
}
