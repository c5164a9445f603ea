import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// The counts add up at every instant, and never go back.
@Suite struct QueueStatisticsTests {
  private func counts(_ statistics: OwnerScopedQueue.Statistics) -> [Int] {
    [statistics.enqueued, statistics.started, statistics.executing, statistics.succeeded, statistics.cancelled, statistics.pending]
  }

  /// The worker has taken the job and finds that its owner has ended; the job never was started, not for a moment.
  @Test func jobThatIsFoundToBeSkippedHasNotStarted() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let (first, release) = (Gate(), Gate())
    LifetimeReaper.hold(lifetime)  // it would take the job away from the worker
    queue.addOperation { first.pass() }
    do {
      let deinitProbe = DeinitProbe { release.pass() }
      queue.async(lifetime: lifetime) { deinitProbe.mustNotRun() }
    }
    // Not ready, or a look at the queue might find that the worker is blocked, and run it.
    let held = OwnerLifetime()
    queue.setSuspended(true, ownedBy: held)
    queue.addOperation(lifetime: held) {}
    #expect(first.hasBegun())
    lifetime.end()
    first.open()
    #expect(release.hasBegun())
    // A look at the queue may have found that the worker is blocked, and counted it as cancelled.
    let statistics = queue.statistics
    #expect(statistics.enqueued == 3 && statistics.started == 1 && statistics.executing == 0 && statistics.succeeded == 1)
    #expect(statistics.cancelled + statistics.pending == 2)
    release.open()
    queue.setSuspended(false, ownedBy: held)
    LifetimeReaper.resume(lifetime)
    #expect(queue.becomesIdle())
    #expect(counts(queue.statistics) == [3, 2, 0, 2, 1, 0])
  }

  /// The operation has finished, and its worker is still busy with it.
  @Test func operationThatHasFinishedDoesNotExecute() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let observation = operation.observe(\.isFinished) { _, _ in gate.pass() }
    let held = OwnerLifetime()  // see above
    queue.setSuspended(true, ownedBy: held)
    queue.addOperation(lifetime: held) {}
    queue.addOperation(operation)
    #expect(gate.hasBegun())
    #expect(counts(queue.statistics) == [2, 1, 0, 1, 0, 1])
    gate.open()
    queue.setSuspended(false, ownedBy: held)
    #expect(queue.becomesIdle())
    #expect(counts(queue.statistics) == [2, 2, 0, 2, 0, 0])
    observation.invalidate()
  }

  /// Executing goes by the work, whatever it is and whichever thread it is on.
  @Test func executingCountsOperationsJobsNodesAndBarriers() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 8)
    let (job, operation, node, failing, barrier) = (Gate(), Gate(), Gate(), Gate(), Gate())
    struct Failure: Error {}
    let open = OpenOperation(lifetime: .forTests)
    queue.addOperation(open)
    #expect(open.begun.waitUntilSignalled())
    queue.async(lifetime: .forTests) { job.pass() }
    queue.addOperation { operation.pass() }
    let graph = OperationGraph(lifetime: .forTests)
    let first = graph.node {}
    let second = graph.node { node.pass() }
    let third = graph.node {
      failing.pass()
      throw Failure()
    }
    first.precedes(second)
    second.precedes(third)
    try graph.run(on: queue)
    queue.addBarrierBlock { barrier.pass() }
    for gate in [job, operation, node] { #expect(gate.hasBegun()) }
    #expect(counts(queue.statistics) == [7, 5, 4, 1, 0, 2])
    node.open()
    #expect(failing.hasBegun())
    #expect(counts(queue.statistics) == [7, 6, 4, 2, 0, 1])
    open.finish()
    #expect(counts(queue.statistics) == [7, 6, 3, 3, 0, 1])
    for gate in [job, operation, failing] { gate.open() }
    #expect(barrier.hasBegun())
    #expect(counts(queue.statistics) == [7, 7, 1, 5, 0, 0])
    #expect(queue.statistics.failed == 1)
    barrier.open()
    #expect(queue.becomesIdle())
    #expect(counts(queue.statistics) == [7, 7, 0, 6, 0, 0])
  }

  private final class OpenOperation: OwnedOperation, @unchecked Sendable {  // constants
    let begun = DispatchSemaphore(value: 0)
    override var isAsynchronous: Bool { true }
    override func perform() { begun.signal() }
  }

  /// No gate reaches every instant: a reader looks as often as it can while everything goes on.
  @Test func noSnapshotContradictsAnother() {
    let queue = OwnerScopedQueue()
    let isOver = Atomic<Bool>(false)
    let problems = Journal<String>()
    race([
      {
        var last = OwnerScopedQueue.Statistics()
        while !isOver.load(ordering: .acquiring) {
          let now = queue.statistics
          let ended = now.succeeded + now.failed + now.cancelled
          if now.enqueued != ended + now.pending + now.executing { problems.write("\(now) doesn't add up") }
          if min(now.pending, now.executing) < 0 { problems.write("\(now) can't be") }
          if now.started < now.succeeded + now.failed + now.executing || now.started > now.enqueued - now.pending {
            problems.write("\(now) is wrong about what has started")
          }
          let goesBack = zip(counters(now), counters(last)).contains { $0 < $1 }
          if goesBack { problems.write("\(now) after \(last)") }
          last = now
        }
      },
      {
        for round in 0..<200 {
          let lifetime = OwnerLifetime()
          let graph = OperationGraph(lifetime: lifetime)
          for _ in 0..<20 {
            queue.async(lifetime: lifetime) {}
            queue.addOperation(lifetime: lifetime) { if round % 3 == 0 { throw CancellationError() } }
            _ = graph.node { if round % 5 == 0 { throw CancellationError() } }
          }
          _ = try? graph.run(on: queue)
          if round % 4 == 0 { queue.addBarrierBlock {} }
          if round % 2 == 0 { lifetime.end() } else { queue.cancelOperations(ownedBy: lifetime) }
        }
        queue.waitUntilAllOperationsAreFinished()
        isOver.store(true, ordering: .releasing)
      },
    ])
    #expect(problems.entries.isEmpty, "\(problems.entries.prefix(3))")
  }

  private func counters(_ statistics: OwnerScopedQueue.Statistics) -> [Int] {
    [
      statistics.enqueued, statistics.started, statistics.succeeded, statistics.failed, statistics.cancelled,
      statistics.skippedForEndedOwners,
    ]
  }
}
