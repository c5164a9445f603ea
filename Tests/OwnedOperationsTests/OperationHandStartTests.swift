import Foundation
import Testing

@testable import OwnedOperations

/// Starts by hand of what a queue has too, and what comes between the start that is accepted and the work.
@Suite struct OperationHandStartTests {
  private let queue = OwnerScopedQueue()

  @Test(arguments: [false, true]) func aSecondStartLeavesTheOwnerToTheBodyThatRuns(isThrowing: Bool) {
    let (gate, isGone) = (Gate(), Event())
    let operation: OwnedOperation
    do {
      let owner = DeinitProbe { isGone.happen() }
      operation = queue.addOperation(owner: owner) { _ in gate.pass() }
      #expect(gate.hasBegun())
    }
    if isThrowing {
      #expect(throws: OwnerScopedQueueError.self) { try operation.startOrThrow() }
    } else {
      operation.start()
    }
    #expect(!isGone.isPast)
    gate.open()
    #expect(isGone.happens())
    #expect(queue.becomesIdle())
    #expect(operation.outcome?.kind == "succeeded")
  }

  /// When its body is over, not when it goes itself; nor does a queue take the owner up again that comes to the item later.
  @Test(arguments: [(false, false), (true, false), (false, true)])
  func aStartByHandLetsGoOfTheOwner(isThrowing: Bool, isBeforeTheQueue: Bool) throws {
    let queue = queue
    queue.isSuspended = true
    let reference = Weakly<TokenOwner>()
    let operation: OwnedOperation
    do {
      let owner = TokenOwner()
      reference.object = owner
      operation = queue.addOperation(owner: owner) { _ in }
      if isThrowing { try operation.startOrThrow() } else { operation.start() }
      #expect(operation.isFinished)
      if isBeforeTheQueue {
        queue.async(lifetime: .forTests) {}
        queue.isSuspended = false
        #expect(queue.becomesIdle())
        #expect(eventually { queue.snapshot.activeWorkers == 0 })
      }
    }
    #expect(reference.object == nil)
    #expect(operation.outcome?.kind == "succeeded")
  }

  private final class Classic: OwnedOperation, @unchecked Sendable {  // constants
    let runs = Counter()
    let hasTask: Bool
    init(hasTask: Bool) {
      self.hasTask = hasTask
      super.init(lifetime: .forTests)
    }
    override var isAsynchronous: Bool { hasTask }
    override func perform() { runs.add() }
  }

  @Test(arguments: [false, true], [false, true]) func whatIsFinishedBeforeItsWorkBeginsDoesNotRun(isAsynchronous: Bool, isInQueue: Bool) {
    let operation = Classic(hasTask: isAsynchronous)
    let observation = operation.observe(\.isExecuting) { operation, change in
      if change.newValue == true { #expect(operation.finish()) }
    }
    if isInQueue { queue.addOperation(operation) } else { operation.start() }
    #expect(returns { operation.waitUntilFinished() })
    #expect(queue.becomesIdle())
    #expect(operation.runs.value == 0)
    withExtendedLifetime(observation) {}
  }

  /// The caller waits for its turn, which nobody else tells it of.
  @Test func aTurnThatIsFinishedBeforeItsWorkBeginsLeavesNobodyWaiting() async throws {
    let queue = queue
    queue.isSuspended = true
    let runs = Counter()
    let task = Task { try await queue.run(lifetime: .forTests) { runs.add() } }
    #expect(eventually { queue.operationCount == 1 })
    let turn = try #require(queue.operations.first as? OwnedOperation)
    let observation = turn.observe(\.isExecuting) { turn, change in
      if change.newValue == true { turn.finish() }
    }
    queue.isSuspended = false
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(runs.value == 0)
    withExtendedLifetime(observation) {}
  }

  /// The caller is cancelled, and while that is on its way the turn comes.
  @Test func aCallerThatIsCancelledBeforeItsTurnIsToldSo() async throws {
    let queue = queue
    queue.isSuspended = true
    let task = Task { try await queue.run(lifetime: .forTests) { Issue.record("its caller was cancelled before its turn") } }
    #expect(eventually { queue.operationCount == 1 })
    let turn = try #require(queue.operations.first as? OwnedOperation)
    let observation = turn.observe(\.isCancelled, options: [.prior]) { turn, change in
      guard change.isPrior else { return }
      queue.isSuspended = false
      // It may be over soon.
      #expect(eventually { turn.didRun })
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    withExtendedLifetime(observation) {}
  }
}
