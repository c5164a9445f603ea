import Foundation
import Testing

@testable import OwnedOperations

/// Foundation keeps the dependents of an operation unretained, and goes to them when it announces the finish: a moment after `isFinished`
/// has become true.
@Suite struct PlainDependencyTests {
  private func start(_ operation: Operation) -> DispatchSemaphore {
    let hasReturned = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      operation.start()
      hasReturned.signal()
    }
    return hasReturned
  }

  /// Adds a plain operation that depends on the other, cancels it when that is about to announce its finish, and returns when it has gone.
  private func letADependentGo(before operation: Operation, announces gate: Gate) -> DispatchSemaphore {
    let queue = OwnerScopedQueue()
    let gone = DispatchSemaphore(value: 0)
    var hasReturned = DispatchSemaphore(value: 0)
    do {
      let deinitProbe = DeinitProbe { gone.signal() }
      let dependent = BlockOperation { deinitProbe.mustNotRun() }
      dependent.addDependency(operation)
      queue.addOperation(dependent)
      hasReturned = start(operation)
      #expect(gate.hasBegun())
      dependent.cancel()
      #expect(queue.becomesIdle())
      #expect(dependent.isFinished && dependent.isCancelled)
    }
    #expect(gone.waitUntilSignalled())
    return hasReturned
  }

  @Test func cancelledPlainOperationMayGoBeforeAPlainDependencyAnnouncesItsFinish() {
    for _ in 0..<20 {
      let dependency = SlowToAnnounce()
      let hasReturned = letADependentGo(before: dependency, announces: dependency.gate)
      dependency.gate.open()
      #expect(hasReturned.waitUntilSignalled())
    }
  }

  @Test func cancelledPlainOperationMayGoBeforeADependencyOfOursAnnouncesItsFinish() {
    for _ in 0..<20 {
      let dependency = SlowToAnnounceOurs(lifetime: .forTests)
      let hasReturned = letADependentGo(before: dependency, announces: dependency.gate)
      dependency.gate.open()
      #expect(hasReturned.waitUntilSignalled())
    }
  }

  @Test func sentinelMayGoBeforeThePlainDependencyAnnouncesItsFinish() {
    for isRemoved in [true, false] {
      let dependency = SlowToAnnounce()
      let gone = DispatchSemaphore(value: 0)
      var hasReturned = DispatchSemaphore(value: 0)
      do {
        let deinitProbe = DeinitProbe { gone.signal() }
        let dependent = OwnedBlockOperation(lifetime: .forTests) { withExtendedLifetime(deinitProbe) {} }
        dependent.addDependency(dependency)
        hasReturned = start(dependency)
        #expect(dependency.gate.hasBegun())
        if isRemoved { dependent.removeDependency(dependency) }
      }
      #expect(gone.waitUntilSignalled())
      dependency.gate.open()
      #expect(hasReturned.waitUntilSignalled())
    }
  }

  @Test func plainDependencyThatIsFinishedAndHasNotAnnouncedItIsNotWaitedFor() {
    let dependency = SlowToAnnounce()
    let hasReturned = start(dependency)
    #expect(dependency.gate.hasBegun())
    let dependent = OwnedBlockOperation(lifetime: .forTests) {}
    dependent.addDependency(dependency)
    #expect(dependent.isReady)
    dependency.gate.open()
    #expect(hasReturned.waitUntilSignalled())
  }

  /// A sentinel that is taken back while it is being set up must not stay behind in the operation that it was to watch. No code of ours or
  /// of the user's runs between the two steps of Foundation's `addDependency`, so there is no place for a gate.
  @Test func sentinelThatIsTakenBackWhileItIsSetUpLeavesNothingBehind() {
    for _ in 0..<2_000 {
      let dependency = BlockOperation {}
      do {
        let dependent = OwnedBlockOperation(lifetime: .forTests) {}
        race([
          { dependent.addDependency(dependency) },
          { for _ in 0..<50 { dependent.removeDependency(dependency) } },
        ])
      }
      dependency.start()
    }
  }

  @Test func newsIsToldOnceAndNotAfterItWasCalledOff() {
    let operation = BlockOperation {}
    let told = Counter()
    let sentinels = (0..<4).map { _ in FinishSentinel(of: operation) { told.add() } }
    sentinels[0].arm()
    sentinels[1].arm()
    sentinels[1].disarm()
    sentinels[2].disarm()
    sentinels[2].arm()
    operation.start()
    #expect(told.value == 1)
    sentinels[3].arm()
    #expect(told.value == 2)
    sentinels[0].disarm()
  }
}

/// Waits at its gate when it has finished and is about to let Foundation go to its dependents.
private final class SlowToAnnounceOurs: OwnedOperation, @unchecked Sendable {  // constants
  let gate = Gate()
  private let hasWaited = Mutexed(false)

  override var isFinished: Bool {
    if load().contains(.foundationWasTold), !hasWaited.value {
      hasWaited.value = true
      gate.pass()
    }
    return super.isFinished
  }
}

/// Waits at its gate when it is finished and has not announced it.
private final class SlowToAnnounce: Operation, @unchecked Sendable {  // constants
  let gate = Gate()
  private let hasWaited = Mutexed(false)

  override var isExecuting: Bool {
    if super.isFinished, !hasWaited.value {
      hasWaited.value = true
      gate.pass()
    }
    return super.isExecuting
  }
}
