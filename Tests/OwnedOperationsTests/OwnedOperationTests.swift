import Foundation
import Testing

@testable import OwnedOperations

struct OwnedOperationTests {
  struct Failure: Error, Equatable { var number = 1 }

  final class Recorder: OwnedOperation, @unchecked Sendable {
    let performs = Counter()
    let cancels = Journal<CancellationReason>()
    let cancelled = DispatchSemaphore(value: 0)
    override func perform() { performs.add() }
    override func didCancel(_ reason: CancellationReason) {
      cancels.write(reason)
      cancelled.signal()
    }
  }

  /// Stays executing until somebody calls `finish`.
  final class Manual: OwnedOperation, @unchecked Sendable {
    let cancels = Journal<CancellationReason>()
    let cancelled = DispatchSemaphore(value: 0)
    override var isAsynchronous: Bool { true }
    override func didCancel(_ reason: CancellationReason) {
      cancels.write(reason)
      cancelled.signal()
    }
  }

  @Test func anOperationRunsOnceAndSucceeds() {
    let owner = TokenOwner()
    let second = Recorder(owner: owner)
    #expect(second.state == .ready && second.isReady && !second.isExecuting && !second.isFinished && second.outcome == nil)
    second.start()
    #expect(second.performs.value == 1)
    #expect(second.state == .finished && second.isFinished && !second.isExecuting && !second.isCancelled)
    guard case .succeeded? = second.outcome else {
      Issue.record("\(String(describing: second.outcome))")
      return
    }
    #expect(second.ownerID == owner.ownerID)
  }

  @Test func whatTheWorkThrowsIsTheOutcome() {
    let lifetime = OwnerLifetime()
    let operation = OwnedBlockOperation(lifetime: lifetime) { throw Failure(number: 7) }
    operation.start()
    guard case .failed(let error)? = operation.outcome else {
      Issue.record("\(String(describing: operation.outcome))")
      return
    }
    #expect(error as? Failure == Failure(number: 7))
  }

  @Test func endOfTheOwnerCancelsWhatHasNotStartedAndFinishesIt() {
    let lifetime = OwnerLifetime()
    let operation = Recorder(lifetime: lifetime)
    let dependent = OwnedBlockOperation(lifetime: OwnerLifetime.forTests) {}
    dependent.addDependency(operation)
    #expect(!dependent.isReady)
    let completed = DispatchSemaphore(value: 0)
    operation.completionBlock = { completed.signal() }
    lifetime.end()
    #expect(operation.isCancelled)
    #expect(operation.cancellationReason == .ownerEnded(lifetime.id))
    operation.waitUntilFinished()
    completed.wait()
    operation.cancelled.wait()
    LifetimeReaper.waitUntilIdle()
    #expect(operation.performs.value == 0)
    #expect(operation.cancels.entries == [.ownerEnded(lifetime.id)])
    #expect(dependent.isReady)
    operation.start()
    #expect(operation.performs.value == 0)
    #expect(operation.outcome?.reason == .ownerEnded(lifetime.id))
  }

  @Test func anOperationMadeForAnEndedOwnerIsFinishedAndNeverRuns() {
    let lifetime = OwnerLifetime()
    lifetime.end()
    let operation = Recorder(lifetime: lifetime)
    #expect(operation.isFinished && operation.isCancelled && operation.isReady && !operation.isExecuting)
    operation.start()
    #expect(operation.performs.value == 0)
    #expect(operation.outcome?.reason == .ownerEnded(lifetime.id))
  }

  @Test func completionBlockSetAfterTheOwnersEndStillRunsOnce() {
    let lifetime = OwnerLifetime()
    lifetime.end()
    let operation = Recorder(lifetime: lifetime)
    let runs = Counter()
    let completed = DispatchSemaphore(value: 0)
    let block: @Sendable () -> Void = {
      runs.add()
      completed.signal()
    }
    operation.completionBlock = block
    completed.wait()
    operation.completionBlock = block
    operation.start()
    DispatchQueue.global().sync {}
    #expect(runs.value == 1)
  }

  /// Whatever else was asked of the operation meanwhile.
  @Test func completionBlockSetAfterTheFinishDoesNotRun() {
    let operation = Recorder(lifetime: OwnerLifetime())
    operation.start()
    operation.timeout = .seconds(1)
    let (kept, mayEnd) = (Weakly<Counter>(), DispatchSemaphore(value: 0))
    do {
      let counter = Counter()
      kept.object = counter
      operation.completionBlock = {
        counter.add()
        mayEnd.wait()
      }
    }
    #expect(kept.object == nil, "the block is kept, or runs")
    mayEnd.signal()
  }

  @Test func runningWorkIsCancelledCooperativelyByTheEndOfItsOwner() {
    let lifetime = OwnerLifetime()
    let operation = Manual(lifetime: lifetime)
    operation.start()
    #expect(operation.isExecuting)
    lifetime.end()
    #expect(operation.isCancelled && operation.isExecuting && !operation.isFinished)
    operation.cancelled.wait()
    #expect(operation.isExecuting)
    #expect(operation.finish())
    #expect(!operation.finish(throwing: Failure()))
    #expect(operation.outcome?.reason == .ownerEnded(lifetime.id))
    #expect(operation.cancels.entries == [.ownerEnded(lifetime.id)])
  }

  @Test func cancellingHandsTheReasonOverOnceAndReleasesTheWork() {
    let owner = TokenOwner()
    weak var captured: TokenOwner?
    let operation = OwnedBlockOperation(owner: owner) { [capture = keep(&captured)] in _ = capture }
    #expect(captured != nil)
    operation.cancel()
    DeferredReleases.waitUntilIdle()
    #expect(captured == nil)
    #expect(operation.isCancelled && operation.isReady && !operation.isFinished)
    let recorder = Recorder(owner: owner)
    recorder.cancel()
    recorder.cancel()
    #expect(recorder.cancels.entries == [.requested])
    recorder.start()
    #expect(recorder.performs.value == 0 && recorder.isFinished)
    #expect(recorder.outcome?.reason == .requested)
  }

  @Test func theEndOfTheOwnerFinishesWhatWasCancelledByHandAndNeverStarted() {
    let lifetime = OwnerLifetime()
    let operation = Recorder(lifetime: lifetime)
    operation.cancel()
    #expect(!operation.isFinished)
    lifetime.end()
    operation.waitUntilFinished()
    #expect(operation.outcome?.reason == .requested)
    #expect(operation.cancels.entries == [.requested])
  }

  @Test func startingTwiceOrTooEarlyIsReportedAndIgnored() throws {
    let lifetime = OwnerLifetime()
    let operation = Manual(lifetime: lifetime)
    operation.name = "manual"
    operation.start()
    #expect(throws: OwnedOperationError.alreadyExecuting("Manual \"manual\"")) { try operation.startOrThrow() }
    operation.finish()
    try operation.startOrThrow()  // finished: nothing, as in Foundation
    let early = Recorder(lifetime: lifetime)
    early.name = "early"
    let blocker = Recorder(lifetime: lifetime)
    early.addDependency(blocker)
    #expect(throws: OwnedOperationError.notReady("Recorder \"early\"")) { try early.startOrThrow() }
    let reports = Reports(about: "early")
    early.start()
    #expect(reports.errors == [.notReady("Recorder \"early\"")])
    #expect(early.performs.value == 0)
    blocker.start()
    early.start()
    #expect(early.performs.value == 1)
  }

  @Test func waitingForItselfIsReportedAndReturns() {
    let operation = Waiter(lifetime: .forTests)
    operation.name = "waits for itself"
    let reports = Reports(about: "waits for itself")
    operation.start()
    #expect(operation.isFinished)
    #expect(reports.errors == [.waitingForItself("Waiter \"waits for itself\"")])
  }

  final class Waiter: OwnedOperation, @unchecked Sendable {
    override func perform() { waitUntilFinished() }
  }

  @Test func oneWordAnswersForPriorityAndQuality() {
    let operation = Recorder(lifetime: .forTests)
    #expect(operation.queuePriority == .normal && operation.qualityOfService == .default)
    for priority in [Operation.QueuePriority.veryLow, .low, .normal, .high, .veryHigh] {
      operation.queuePriority = priority
      #expect(operation.queuePriority == priority)
    }
    for quality in [QualityOfService.background, .utility, .default, .userInitiated, .userInteractive] {
      operation.qualityOfService = quality
      #expect(operation.qualityOfService == quality)
    }
    #expect(operation.queuePriority == .veryHigh && operation.state == .ready)
  }

  @Test func descriptionNamesTheOperationItsStateAndItsOwner() {
    let lifetime = OwnerLifetime()
    let operation = Recorder(lifetime: lifetime)
    operation.name = "job"
    #expect(operation.description == "Recorder \"job\" (ready, \(lifetime.id))")
    // And nothing that may change, or go, on another thread while it is looked at.
    let mirror = Mirror(reflecting: operation)
    #expect(mirror.children.map(\.label) == ["description"] && mirror.superclassMirror == nil)
  }

  final class Plain {}

  @Test func anyObjectCanBeTheOwner() {
    var object: Plain? = Plain()
    let operation = Recorder(owner: object!)
    let block = OwnedBlockOperation(owner: object!) {}
    #expect(operation.ownerID == block.ownerID && operation.lifetime.isAlive)
    block.start()
    #expect(block.outcome?.kind == "succeeded")
    object = nil
    #expect(operation.isCancelled)
    operation.start()
    #expect(operation.performs.value == 0 && operation.outcome?.reason == .ownerEnded(operation.ownerID))
  }
}
