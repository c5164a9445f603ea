import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// Starts, cancellations, ends and finishes at the same time.
struct OperationRaceTests {
  /// Notes whether the work ran, and how often it was told of a cancellation.
  final class Probe: OwnedOperation, @unchecked Sendable {
    let performs = Counter()
    let cancels = Counter()
    let completions = DispatchSemaphore(value: 0)
    override func perform() { performs.add() }
    override func didCancel(_ reason: CancellationReason) { cancels.add() }
  }

  @Test func noWorkStartsAfterTheEndHasReturned() {
    for _ in 0..<300 {
      let lifetime = OwnerLifetime()
      let operations = (0..<8).map { _ in Probe(lifetime: lifetime) }
      let performedBeforeEnd = Mutexed<[Int]>([])
      race([
        { for operation in operations { operation.start() } },
        {
          lifetime.end()
          // Work that is under way may still be counted; what comes after it must be cancelled.
          performedBeforeEnd.value = operations.map { $0.isCancelled || $0.isFinished ? 1 : 0 }
        },
      ])
      #expect(performedBeforeEnd.value.allSatisfy { $0 == 1 })
      for operation in operations {
        #expect(operation.isFinished)
        #expect(operation.performs.value == 1 || operation.outcome?.reason == .ownerEnded(lifetime.id))
      }
    }
  }

  @Test func workThatBeginsAfterTheEndHasReturnedNeverRuns() {
    let lifetime = OwnerLifetime()
    let operations = (0..<100).map { _ in Probe(lifetime: lifetime) }
    let ended = DispatchSemaphore(value: 0)
    race([
      {
        lifetime.end()
        ended.signal()
      },
      {
        ended.wait()
        for operation in operations { operation.start() }
      },
    ])
    #expect(operations.allSatisfy { $0.performs.value == 0 && $0.isFinished })
  }

  @Test func everyOperationFinishesOnceWhoeverWins() {
    for round in 0..<300 {
      let lifetime = OwnerLifetime()
      let operation = Probe(lifetime: lifetime)
      let dependent = OwnedBlockOperation(lifetime: .forTests) {}
      dependent.addDependency(operation)
      let completions = Counter()
      operation.completionBlock = {
        completions.add()
        operation.completions.signal()
      }
      let bodies: [@Sendable () -> Void] = [{ operation.start() }, { operation.cancel() }, { lifetime.end() }]
      race(round % 3 == 0 ? bodies : round % 3 == 1 ? [bodies[0], bodies[2]] : [bodies[0], bodies[1]])
      operation.waitUntilFinished()
      operation.completions.wait()
      LifetimeReaper.waitUntilIdle()
      if operation.isCancelled { operation.waitForAnnouncement { operation.cancels.value > 0 } }
      #expect(completions.value == 1)
      #expect(operation.cancels.value == (operation.isCancelled ? 1 : 0))
      #expect(operation.performs.value <= 1)
      #expect(operation.outcome?.kind == (operation.isCancelled ? "cancelled" : "succeeded"))
      #expect(dependent.isReady)
    }
  }

  final class Open: OwnedOperation, @unchecked Sendable {
    override var isAsynchronous: Bool { true }
  }

  @Test func theFirstOfManyFinishesWins() {
    struct Failure: Error { let number: Int }
    for _ in 0..<300 {
      let operation = Open(lifetime: .forTests)
      operation.start()
      let winner = Atomic<Int>(-1)
      race(
        (0..<3).map { number in
          { if operation.finish(throwing: Failure(number: number)) { winner.store(number, ordering: .releasing) } }
        })
      guard case .failed(let error as Failure)? = operation.outcome else {
        Issue.record("\(String(describing: operation.outcome))")
        return
      }
      #expect(error.number == winner.load(ordering: .acquiring))
    }
  }

  @Test func flagsNeverContradictEachOther() {
    let stop = Atomic<Bool>(false)
    let current = Mutexed<OwnedOperation>(OwnedOperation(lifetime: .forTests))
    race([
      {
        for round in 0..<2000 {
          let lifetime = OwnerLifetime()
          let operation = OwnedOperation(lifetime: lifetime)
          current.value = operation
          if round % 4 == 0 { operation.cancel() }
          if round % 4 == 1 { lifetime.end() }
          operation.start()
        }
        stop.store(true, ordering: .releasing)
      },
      {
        while !stop.load(ordering: .acquiring) {
          let operation = current.value
          let word = operation.settled()
          #expect([word.phase == .executing, word.isFinished].filter { $0 }.count <= 1)
          #expect(!word.isFinished || word.isReady)
          let (wasCancelled, wasFinished) = (operation.isCancelled, operation.isFinished)
          #expect(!wasCancelled || operation.isCancelled)
          #expect(!wasFinished || operation.isFinished && !operation.isExecuting && operation.outcome != nil)
        }
      },
    ])
  }

  @Test func aStartRacingWithTheHandlerOfACancellationReturnsAfterTheFinish() {
    for round in 0..<500 {
      let lifetime = OwnerLifetime()
      let operation = OwnedBlockOperation(lifetime: lifetime) {}
      race([
        { round % 2 == 0 ? operation.cancel() : lifetime.end() },
        {
          operation.start()
          #expect(operation.isFinished)
        },
      ])
    }
  }

  @Test func aDependentWithoutHoldersMayGoWhileItsDependencyFinishes() {
    for _ in 0..<300 {
      let dependency = OwnedBlockOperation(lifetime: .forTests) {}
      let dependents = Mutexed<[OwnedOperation]>((0..<4).map { _ in OwnedBlockOperation(lifetime: .forTests) {} })
      for dependent in dependents.value { dependent.addDependency(dependency) }
      race([{ dependency.start() }, { dependents.value = [] }])
      #expect(dependency.isFinished)
    }
  }

  @Test func aCancellationMayWaitForAnyOtherOfTheSameChain() {
    final class Nosy: OwnedOperation, @unchecked Sendable {
      let other = Mutexed<OwnedOperation?>(nil)
      override func didCancel(_ reason: CancellationReason) {
        other.value?.start()
        other.value?.waitUntilFinished()
      }
    }
    let first = Nosy(lifetime: .forTests)
    let second = OwnedOperation(lifetime: .forTests)
    second.dependencyPolicy = .requireSuccess
    second.addDependency(first)
    first.other.value = second
    first.cancel()
    #expect(second.isFinished && second.isCancelled)
  }
}
