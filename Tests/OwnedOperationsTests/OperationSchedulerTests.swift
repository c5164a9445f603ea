import Foundation
import Testing

@testable import OwnedOperations

/// The interface that a queue of ours uses.
struct OperationSchedulerTests {
  final class Scheduler: OperationScheduler {
    var hasBarriers: Bool { false }
    func mayHaveWorkToBegin(ofOwnerIn hold: OwnerHold) -> Bool { false }
    func unfinishedOperations(ownedBy lifetime: OwnerLifetime?, atMost limit: Int) -> [OwnedOperation]? { [] }
    let journal = Journal<String>()
    func operationDidBecomeReady(_ operation: OwnedOperation) { journal.write("ready") }
    func operationMayHaveBecomeReady(_ operation: OwnedOperation) { journal.write("may be ready") }
    func operationDidBegin() {}
    func operationDidFinish(_ operation: OwnedOperation) -> Bool {
      journal.write("finished \(operation.isFinished)")
      return false
    }
    func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority) {
      journal.write("from \(old.rawValue)")
    }
    func taskWasCancelled(of operation: OwnedOperation) {}
    func beginTaskWait(of operation: OwnedOperation) {}
    func didBeginTaskWait() {}
    func endTaskWait(of operation: OwnedOperation) async {}
    func endBlockingTaskWait(of operation: OwnedOperation) {}
  }

  private func name(_ result: OwnedOperation.AttachResult) -> String {
    switch result {
    case .ready: "ready"
    case .blocked: "blocked"
    case .refused(let refusal): "\(refusal)"
    }
  }

  @Test func aBlockedOperationIsAnnouncedOnceAndItsFinishOnce() {
    let scheduler = Scheduler()
    let (first, second, operation) = (
      OwnedOperation(lifetime: .forTests), OwnedOperation(lifetime: .forTests), OwnedOperation(lifetime: .forTests)
    )
    operation.addDependency(first)
    operation.addDependency(second)
    #expect(name(operation.attach(to: scheduler)) == "blocked")
    first.start()
    #expect(scheduler.journal.entries.isEmpty)
    second.start()
    operation.queuePriority = .high
    #expect(operation.startIfReady())
    #expect(scheduler.journal.entries == ["ready", "from 0", "finished true"])
    #expect(operation.scheduler == nil)
  }

  @Test func oneThatIsBlockedAgainIsNotStartedAndAnnouncedAgain() {
    let scheduler = Scheduler()
    let (dependency, operation) = (OwnedOperation(lifetime: .forTests), OwnedOperation(lifetime: .forTests))
    #expect(name(operation.attach(to: scheduler)) == "ready")
    operation.addDependency(dependency)
    #expect(!operation.startIfReady())
    dependency.start()
    #expect(scheduler.journal.entries == ["ready"])
    #expect(operation.startIfReady())
    #expect(scheduler.journal.entries == ["ready", "finished true"])
  }

  @Test func cancellingOrEndingFinishesAnAttachedOperationAtOnce() {
    let lifetime = OwnerLifetime()
    let (first, second) = (Scheduler(), Scheduler())
    let (cancelled, ended) = (OwnedOperation(lifetime: lifetime), OwnedOperation(lifetime: lifetime))
    ended.addDependency(Operation())
    _ = cancelled.attach(to: first)
    _ = ended.attach(to: second)
    cancelled.cancel()
    #expect(cancelled.isFinished && first.journal.entries == ["finished true"])
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(ended.isFinished && second.journal.entries == ["finished true"])
  }

  @Test func refusalsNameTheOperation() {
    let scheduler = Scheduler()
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    operation.name = "job"
    _ = operation.attach(to: scheduler)
    #expect(name(operation.attach(to: scheduler)).contains("\"job\" is in a queue already"))
    #expect(!operation.detach())
    #expect(operation.scheduler == nil)
    operation.start()
    #expect(name(operation.attach(to: scheduler)).contains("\"job\" has finished already"))
    #expect(scheduler.journal.entries.isEmpty)
    let lifetime = OwnerLifetime()
    lifetime.end()
    let late = OwnedBlockOperation(lifetime: lifetime) {}
    #expect(name(late.attach(to: scheduler)).contains("\(lifetime.id) has ended"))
    let blocked = OwnedOperation(lifetime: .forTests)
    blocked.cancel()
    #expect(name(blocked.attach(to: scheduler)) == "ready")
    #expect(blocked.startIfReady() && blocked.isFinished)
  }

  @Test func attachingCancellingAndEndingMayRace() {
    for _ in 0..<300 {
      let lifetime = OwnerLifetime()
      let scheduler = Scheduler()
      let operation = OwnedBlockOperation(lifetime: lifetime) {}
      let attached = Mutexed("")
      race([
        {
          attached.value = name(operation.attach(to: scheduler))
          _ = operation.startIfReady()
        }, { operation.cancel() }, { lifetime.end() },
      ])
      operation.waitUntilFinished()
      LifetimeReaper.waitUntilIdle()
      #expect(scheduler.journal.entries == (attached.value == "ready" ? ["finished true"] : []))
    }
  }
}
