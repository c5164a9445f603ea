import Foundation
import Testing

@testable import OwnedOperations

/// Sizes at which recursion would overflow the stack, and quadratic work would never end.
struct OperationScaleTests {
  #if DEBUG
    static let length = Sanitizer.many(200_000)
  #else
    static let length = Sanitizer.many(1_000_000)
  #endif

  private func chain(_ length: Int, _ policy: DependencyPolicy = .runAlways, ofLifetime lifetime: OwnerLifetime = .forTests)
    -> [OwnedOperation]
  {
    var operations: [OwnedOperation] = []
    operations.reserveCapacity(length)
    for _ in 0..<length {
      let operation = OwnedOperation(lifetime: lifetime)
      operation.dependencyPolicy = policy
      if let previous = operations.last { operation.addDependency(previous) }
      operations.append(operation)
    }
    return operations
  }

  @Test func aLongChainRunsAndIsReleasedWithoutOverflowingTheStack() {
    weak var first: OwnedOperation?
    autoreleasepoolIfAny {
      var last: OwnedOperation?
      do {
        let operations = chain(Self.length)
        first = operations.first
        for operation in operations { operation.start() }
        #expect(operations.allSatisfy { $0.isFinished })
        last = operations.last
      }
      #expect(first != nil)  // dependencies are kept
      last = nil
      withExtendedLifetime(last) {}
    }
    #expect(first == nil)
  }

  @Test func cancellingTravelsDownALongChain() {
    let operations = chain(Self.length, .requireSuccess)
    operations[0].cancel()
    #expect(operations.allSatisfy { $0.isCancelled })
  }

  @Test func aLongChainIsSearchedForCycles() {
    let operations = chain(Self.length)
    #expect(OwnedOperation.firstCycle(among: operations.reversed()) == nil)
    operations[0].addDependency(operations[Self.length - 1])
    #expect(OwnedOperation.firstCycle(among: operations)?.count == Self.length)
    operations[0].removeDependency(operations[Self.length - 1])
  }

  @Test func fanInOfAHundredThousandIsBuiltAndRunInLinearTime() {
    let count = Sanitizer.many(100_000)
    let sources = (0..<count).map { _ in OwnedOperation(lifetime: .forTests) }
    let sink = OwnedOperation(lifetime: .forTests)
    let began = clock()
    for source in sources { sink.addDependency(source) }
    let built = clock()
    for source in sources { source.start() }
    let (building, running) = (Double(built - began) / 1e6, Double(clock() - built) / 1e6)  // of processor time
    #expect(sink.isReady && sink.dependencies.count == count)
    print("fan-in of \(count): built in \(building) s, run in \(running) s")
    #if !DEBUG
      #expect(building < 1 && running < 1)
    #endif
  }

  @Test func fanOutOfAHundredThousandIsCancelledInLinearTime() {
    let source = OwnedOperation(lifetime: .forTests)
    let dependents = (0..<Sanitizer.many(100_000)).map { _ in OwnedOperation(lifetime: .forTests) }
    for dependent in dependents {
      dependent.dependencyPolicy = .requireSuccess
      dependent.addDependency(source)
    }
    source.cancel()
    #expect(dependents.allSatisfy { $0.isCancelled })
    let clones = dependents.map { _ in OwnedOperation(lifetime: .forTests) }
    let second = OwnedOperation(lifetime: .forTests)
    for clone in clones { clone.addDependency(second) }
    second.start()
    #expect(clones.allSatisfy { $0.isReady })
  }

  @Test func aHundredThousandOperationsOfOneOwnerAreCancelledAsSoonAsItEnds() {
    let lifetime = OwnerLifetime()
    let operations = chain(Sanitizer.many(100_000), ofLifetime: lifetime)
    lifetime.end()
    #expect(operations.allSatisfy { $0.isCancelled })
    LifetimeReaper.waitUntilIdle()
    #expect(operations.allSatisfy { $0.isFinished && $0.outcome?.reason == .ownerEnded(lifetime.id) })
  }

  private func autoreleasepoolIfAny(_ body: () -> Void) {
    #if canImport(ObjectiveC)
      autoreleasepool(invoking: body)
    #else
      body()
    #endif
  }
}
