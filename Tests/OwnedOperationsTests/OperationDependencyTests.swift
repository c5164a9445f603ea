import Foundation
import Testing

@testable import OwnedOperations

struct OperationDependencyTests {
  struct Failure: Error {}

  private func block(_ name: String? = nil, _ body: @escaping @Sendable () throws -> Void = {}) -> OwnedBlockOperation {
    let operation = OwnedBlockOperation(lifetime: .forTests, body)
    operation.name = name
    return operation
  }

  @Test func aDependentIsReadyWhenAllItsDependenciesHaveFinished() {
    let (first, second, dependent) = (block(), block(), block())
    dependent.addDependency(first)
    dependent.addDependency(second)
    dependent.addDependency(first)
    #expect(dependent.dependencies.map(ObjectIdentifier.init) == [first, second].map(ObjectIdentifier.init))
    #expect(dependent.state == .pending && !dependent.isReady)
    first.start()
    #expect(!dependent.isReady)
    second.start()
    #expect(dependent.isReady && dependent.state == .ready)
    #expect(dependent.dependencies.count == 2)
    dependent.start()
    #expect(dependent.isFinished && dependent.dependencies.count == 2)
  }

  @Test func removingADependencyMakesReadyAndNeverCountsTwice() {
    let (first, second, dependent) = (block(), block(), block())
    for _ in 0..<100 {
      dependent.addDependency(first)
      dependent.addDependency(second)
      dependent.removeDependency(first)
    }
    #expect(dependent.dependencies.count == 1 && !dependent.isReady)
    dependent.addDependency(first)
    first.start()
    #expect(!dependent.isReady)
    dependent.removeDependency(first)
    #expect(!dependent.isReady)
    dependent.removeDependency(second)
    #expect(dependent.isReady && dependent.dependencies.isEmpty)
    second.start()
    #expect(dependent.isReady && dependent.load().unfinishedDependencyCount == 0)
  }

  @Test func addingAndRemovingLeavesNothingBehindInALongLivedDependency() {
    let dependency = block()
    let dependent = block()
    for _ in 0..<10_000 {
      block().addDependency(dependency)
      dependent.addDependency(dependency)
      block().addDependency(dependency)
      dependent.removeDependency(dependency)
    }
    #expect((dependency.extras?.dependents.capacity ?? 0) < 200)
  }

  @Test func orderIsKeptWhileManyComeAndGo() {
    let dependent = block()
    let operations = (0..<100).map { _ in block() }
    for operation in operations { dependent.addDependency(operation) }
    for (place, operation) in operations.enumerated() where place % 3 != 0 { dependent.removeDependency(operation) }
    let left = operations.enumerated().filter { $0.offset % 3 == 0 }.map(\.element)
    #expect(dependent.dependencies.map(ObjectIdentifier.init) == left.map(ObjectIdentifier.init))
    for operation in left.reversed() {
      #expect(!dependent.isReady)
      operation.start()
    }
    #expect(dependent.isReady)
  }

  @Test func aFinishedDependencyHoldsNothingBack() {
    let (dependency, dependent) = (block(), block())
    dependency.start()
    dependent.addDependency(dependency)
    #expect(dependent.isReady && dependent.dependencies.count == 1)
  }

  @Test func dependenciesNeitherKeepTheirDependentsNorMissThem() {
    let dependency = block()
    weak var released: OwnedBlockOperation?
    do {
      let dependent = block()
      dependent.addDependency(dependency)
      released = dependent
    }
    #expect(released == nil)
    dependency.start()
  }

  @Test func runAlwaysRunsAfterAFailure() {
    let (dependency, dependent) = (block(nil) { throw Failure() }, block())
    dependent.addDependency(dependency)
    dependency.start()
    dependent.start()
    #expect(dependent.outcome?.kind == "succeeded")
  }

  @Test func aFailedDependencyCancelsThoseThatRequireSuccessTransitively() {
    let dependency = block("source") { throw Failure() }
    let (second, third, bystander) = (block("second"), block("third"), block())
    second.addDependency(dependency)
    second.dependencyPolicy = .requireSuccess
    third.addDependency(second)
    third.dependencyPolicy = .requireSuccess
    bystander.addDependency(second)
    dependency.start()
    #expect(second.cancellationReason == .dependencyFailed("source"))
    #expect(third.cancellationReason == .dependencyFailed("second"))
    #expect(!bystander.isCancelled && !bystander.isReady)
    #expect(!second.isFinished && second.isReady)
    second.start()
    #expect(second.outcome?.reason == .dependencyFailed("source"))
    #expect(bystander.isReady)
  }

  @Test func aCancelledDependencyCancelsThoseThatRequireSuccessAtOnce() {
    let (dependency, dependent) = (block("source"), block())
    dependent.dependencyPolicy = .requireSuccess
    dependent.addDependency(dependency)
    dependency.cancel()
    #expect(!dependency.isFinished)
    #expect(dependent.cancellationReason == .dependencyFailed("source"))
  }

  @Test func requiringSuccessLateActsToo() {
    let (failed, cancelled) = (block("failed") { throw Failure() }, block("cancelled"))
    let plain = BlockOperation {}
    plain.name = "plain"
    plain.cancel()
    plain.start()
    failed.start()
    cancelled.cancel()
    for dependency in [failed, cancelled, plain] as [Operation] {
      let late = block()
      late.addDependency(dependency)
      #expect(!late.isCancelled)
      late.dependencyPolicy = .requireSuccess
      #expect(late.cancellationReason == .dependencyFailed(dependency.name!))
      let early = block()
      early.dependencyPolicy = .requireSuccess
      early.addDependency(dependency)
      #expect(early.cancellationReason == .dependencyFailed(dependency.name!))
    }
  }

  @Test func aPlainDependencyThatWasCancelledCancelsThoseThatRequireSuccess() {
    let plain = BlockOperation {}
    plain.name = "plain"
    let dependent = block()
    dependent.dependencyPolicy = .requireSuccess
    dependent.addDependency(plain)
    plain.cancel()
    #expect(!dependent.isCancelled)  // Foundation doesn't tell before it has finished
    plain.start()
    #expect(dependent.cancellationReason == .dependencyFailed("plain"))
  }

  @Test func removingADependencyBeforeItFailsIsEnough() {
    let (dependency, dependent) = (block { throw Failure() }, block())
    dependent.dependencyPolicy = .requireSuccess
    dependent.addDependency(dependency)
    dependent.removeDependency(dependency)
    dependency.start()
    #expect(!dependent.isCancelled)
  }

  @Test func theEndOfAnOwnerCancelsDependentsOfOthersThatRequireSuccess() {
    let lifetime = OwnerLifetime()
    let dependency = OwnedBlockOperation(lifetime: lifetime) {}
    dependency.name = "owned"
    let dependent = block()
    dependent.dependencyPolicy = .requireSuccess
    dependent.addDependency(dependency)
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(dependent.cancellationReason == .dependencyFailed("owned"))
  }

  // MARK: Plain operations

  @Test func oursWaitsForAPlainOneAndAPlainOneForOurs() {
    let plain = BlockOperation {}
    let ours = block()
    ours.addDependency(plain)
    let after = BlockOperation {}
    after.addDependency(ours)
    #expect(!ours.isReady && !after.isReady)
    plain.start()
    #expect(ours.isReady && !after.isReady)
    ours.start()
    #expect(after.isReady)
  }

  @Test func aPlainDependencyMayBeRemovedOrOutliveItsDependent() {
    let plain = BlockOperation {}
    let ours = block()
    ours.addDependency(plain)
    ours.removeDependency(plain)
    #expect(ours.isReady)
    ours.addDependency(plain)
    #expect(!ours.isReady)
    do {
      let short = block()
      short.addDependency(plain)
    }
    plain.start()
    #expect(ours.isReady)
  }

  @Test func sentinelsGoWithWhatTheyWatch() {
    weak var released: BlockOperation?
    do {
      let plain = BlockOperation {}
      released = plain
      let ours = block()
      ours.addDependency(plain)
      plain.start()
      ours.start()
    }
    #expect(released == nil)
    do {
      let plain = BlockOperation {}
      released = plain
      block().addDependency(plain)
    }
    #expect(released == nil)
  }

  @Test func dependenciesCrossFoundationQueuesBothWays() {
    let (first, second) = (OperationQueue(), OperationQueue())
    let journal = Journal<Int>()
    var previous: Operation?
    var operations: [Operation] = []
    for number in 0..<100 {
      let operation: Operation = number % 2 == 0 ? block { journal.write(number) } : BlockOperation { journal.write(number) }
      if let previous { operation.addDependency(previous) }
      operations.append(operation)
      previous = operation
    }
    for (number, operation) in operations.enumerated().reversed() { (number % 3 == 0 ? first : second).addOperation(operation) }
    first.waitUntilAllOperationsAreFinished()
    second.waitUntilAllOperationsAreFinished()
    #expect(journal.entries == Array(0..<100))
  }

  @Test func plainDependenciesMayFinishWhileTheyAreAddedAndRemoved() {
    for _ in 0..<200 {
      let plains = (0..<4).map { _ in BlockOperation {} }
      let ours = block()
      race([
        { for plain in plains { ours.addDependency(plain) } },
        { for plain in plains { plain.start() } },
        { for plain in plains.dropLast() { ours.removeDependency(plain) } },
      ])
      #expect(ours.isReady)
      #expect(ours.load().unfinishedDependencyCount == 0)
    }
  }

  @Test func dependenciesMayFinishFailAndGoWhileTheyAreAdded() {
    for _ in 0..<200 {
      let dependencies = (0..<12).map { number in block { if number == 11 { throw Failure() } } }
      let (ours, strict) = (block(), block())
      strict.dependencyPolicy = .requireSuccess
      race([
        {
          for dependency in dependencies {
            ours.addDependency(dependency)
            strict.addDependency(dependency)
          }
        },
        { for dependency in dependencies { dependency.start() } },
        { for dependency in dependencies.dropLast() { ours.removeDependency(dependency) } },
      ])
      #expect(ours.isReady)
      #expect(ours.load().unfinishedDependencyCount == 0)
      #expect(strict.isCancelled)
    }
  }

  @Test func aPolicySetWhileTheDependencyFailsIsNeverMissed() {
    for round in 0..<300 {
      let (dependency, dependent) = (block { throw Failure() }, block())
      dependent.addDependency(dependency)
      race([{ dependent.dependencyPolicy = .requireSuccess }, { round % 2 == 0 ? dependency.start() : dependency.cancel() }])
      #expect(dependent.isCancelled)
    }
  }

  // MARK: Cycles

  @Test func cyclesAreNamedOperationByOperation() throws {
    let (a, b, c, d) = (block("a"), block("b"), BlockOperation {}, block("d"))
    a.addDependency(b)
    b.addDependency(c)
    c.addDependency(a)
    d.addDependency(a)
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["a", "b", "BlockOperation #3"])) {
      try OwnedOperation.checkForCycles(in: [a, b, c])
    }
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["a", "b", "BlockOperation #4"])) { try OwnedOperation.checkForCycles(in: [d]) }
    c.removeDependency(a)
    try OwnedOperation.checkForCycles(in: [d, c, b, a])
    let alone = block("alone")
    alone.addDependency(alone)
    #expect(throws: OwnerScopedQueueError.dependencyCycle(["alone"])) { try OwnedOperation.checkForCycles(in: [alone]) }
    alone.cancel()
    #expect(alone.isReady)
    alone.removeDependency(alone)
  }

  @Test func aCycleIsBrokenByCancelling() {
    let (a, b) = (block(), block())
    a.addDependency(b)
    b.addDependency(a)
    #expect(!a.isReady && !b.isReady)
    a.cancel()
    a.start()
    #expect(b.isReady)
    a.removeDependency(b)
  }
}
