import Foundation
import Testing

@testable import OwnedOperations

/// Who comes back from a wait, and who else may go on then.
@Suite struct QueueReturningTests {
  private typealias Async = QueueTaskPermitTests.Async

  private static func block(_ lifetime: OwnerLifetime = .forTests) -> OwnedBlockOperation { OwnedBlockOperation(lifetime: lifetime) {} }

  @Test func waitsForEachOtherAreOverThoughAnotherWaitIsOverAtTheSameTime() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 8)
    let (a, b, c) = (OwnerLifetime(), OwnerLifetime(), OwnerLifetime())
    let gate = Gate()
    let (firstIsOver, secondIsOver, outsideIsOver) = (Event(), Event(), Event())
    queue.async(lifetime: c) { gate.pass() }
    #expect(gate.hasBegun())
    let (first, second) = (Gate(), Gate())
    queue.async(lifetime: a) {
      first.pass()
      queue.waitUntilFinished(ownedBy: b)
      firstIsOver.happen()
    }
    queue.async(lifetime: b) {
      second.pass()
      queue.waitUntilFinished(ownedBy: a)
      secondIsOver.happen()
    }
    #expect(first.hasBegun() && second.hasBegun())
    first.open()
    second.open()
    Thread.detachNewThread {
      queue.waitUntilFinished(ownedBy: c)
      outsideIsOver.happen()
    }
    #expect(eventually { queue.shows { $0.waits == 3 && $0.waitingWorkers == 2 } })
    gate.open()
    #expect(outsideIsOver.happens())
    #expect(firstIsOver.happens() && secondIsOver.happens())
  }

  @Test func aPartOfATaskThatWaitsAgainLetsItsOwnersWorkGoOn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.maxConcurrentOperationCountPerOwner = 1
    let (owner, another) = (OwnerLifetime(), OwnerLifetime())
    let never = Self.block()
    let first = Self.block(another)
    first.addDependency(never)
    queue.addOperation(first)
    let second = Self.block(owner)
    let (gate, secondMayWait) = (Gate(), Event())
    queue.addOperation(
      Async(owner) {
        async let part: Void = first.finished()
        await secondMayWait.awaited()
        await second.finished()
        await part
      })
    #expect(eventually { queue.snapshot.yielded == 1 })
    queue.async(lifetime: another) { gate.pass() }
    #expect(gate.hasBegun())
    first.cancel()
    #expect(eventually { queue.snapshot.somebodyWaitsToReturn })
    queue.addOperation(second)
    secondMayWait.happen()
    #expect(eventually { !queue.snapshot.somebodyReturns })
    gate.open()
    #expect(eventually { second.isFinished })
    #expect(queue.becomesIdle())
    withExtendedLifetime(never) {}
  }

  @Test func anOperationThatWasStartedByHandHasNoPermitToYield() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (never, late) = (Self.block(), Self.block())
    late.addDependency(never)
    queue.isSuspended = true
    queue.addOperation(late)
    let operation = Async { await late.finished() }
    queue.addOperation(operation)
    operation.start()
    #expect(eventually { queue.snapshot.taskPermits > 0 })
    #expect(queue.snapshot.yielded == 0)
    late.cancel()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    withExtendedLifetime(never) {}
  }

  /// Whose start has not returned when the task waits yields when it gets its permit.
  @Test func anOperationWhoseTaskWaitsBeforeItsStartReturnsYieldsThen() {
    final class Slow: OwnedAsyncOperation, @unchecked Sendable {  // constants
      let gate = Gate()
      let late: OwnedOperation

      init(_ late: OwnedOperation) {
        self.late = late
        super.init(lifetime: .forTests)
      }

      override func start() {
        super.start()
        gate.pass()
      }

      override func run() async throws { await late.finished() }
    }
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let late = Self.block()
    let never = Self.block()
    late.addDependency(never)
    queue.addOperation(late)
    let operation = Slow(late)
    queue.addOperation(operation)
    #expect(operation.gate.hasBegun())
    #expect(eventually { queue.snapshot.taskPermits > 0 })
    #expect(queue.snapshot.yielded == 0)
    operation.gate.open()
    #expect(eventually { queue.shows { $0.yielded == 1 && $0.detached == 1 } })
    late.removeDependency(never)
    #expect(queue.becomesIdle())
    // Whoever waits for the queue hears of the operation's end before the permit of its task is back.
    #expect(eventually { queue.shows { $0.yielded == 0 && $0.detached == 0 } })
  }
}
