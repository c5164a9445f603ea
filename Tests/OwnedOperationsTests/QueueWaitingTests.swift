import Foundation
import Testing

@testable import OwnedOperations

/// Work may wait for other work of its own queue.
@Suite struct QueueWaitingTests {
  @Test func workMayWaitForMoreOfItsOwnerUnderALimitOfOneForEachOwner() {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCountPerOwner = 1
    let lifetime = OwnerLifetime()
    let ran = Counter()
    queue.addOperation(lifetime: lifetime) {
      queue.async(lifetime: lifetime) { ran.add() }
      queue.addOperation(lifetime: lifetime) { ran.add() }.waitUntilFinished()
      queue.waitUntilFinished(ownedBy: lifetime)
      ran.add()
    }
    #expect(queue.becomesIdle())
    #expect(ran.value == 3)
  }

  @Test func workMayAddPlainOperationsAndWaitForThemUnderALimitOfOne() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let ran = Counter()
    queue.addOperation {
      queue.addOperations([BlockOperation { ran.add() }, BlockOperation { ran.add() }], waitUntilFinished: true)
      ran.add()
    }
    #expect(queue.becomesIdle())
    #expect(ran.value == 3)
  }

  @Test func jobsThatWaitForEachOtherThroughTheQueueAndTheOwnerComeFree() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let (first, second) = (Gate(), Gate())
    queue.async(lifetime: lifetime) {
      first.pass()
      queue.waitUntilAllOperationsAreFinished()
    }
    queue.async(lifetime: lifetime) {
      second.pass()
      queue.waitUntilFinished(ownedBy: lifetime)
    }
    #expect(first.hasBegun() && second.hasBegun())
    first.open()
    second.open()
    #expect(queue.becomesIdle())
  }

  @Test func ownersWaitersAreWokenWhileWorkOfOthersGoesOn() async {
    let queue = OwnerScopedQueue()
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let gate = Gate()
    queue.async(lifetime: other) { gate.pass() }
    #expect(gate.hasBegun())
    for _ in 0..<100 { queue.async(lifetime: lifetime) {} }
    #expect(returns { queue.waitUntilFinished(ownedBy: lifetime) })
    await queue.finished(ownedBy: lifetime)
    #expect(queue.operationCount == 1)
    gate.open()
    await queue.finished()
    #expect(queue.operationCount == 0)
  }

  @Test func waitersOfAnOwnerAreWokenByItsEndWhileEveryWorkerIsBlocked() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let gates = [Gate(), Gate()]
    for gate in gates { queue.async(lifetime: other) { gate.pass() } }
    for gate in gates { #expect(gate.hasBegun()) }
    for _ in 0..<100 { queue.async(lifetime: lifetime) { Issue.record("an ended owner's job has run") } }
    let operation = queue.addOperation(lifetime: lifetime) { Issue.record("an ended owner's operation has run") }
    let dependent = OwnedBlockOperation(lifetime: other) {}
    dependent.addDependency(operation)
    queue.addOperation(dependent)
    let waited = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      queue.waitUntilFinished(ownedBy: lifetime)
      waited.signal()
    }
    lifetime.end()
    #expect(waited.waitUntilSignalled())
    #expect(returns { operation.waitUntilFinished() })
    #expect(dependent.isReady)
    for gate in gates { gate.open() }
    #expect(queue.becomesIdle())
    #expect(dependent.outcome?.kind == "succeeded")
    #expect(queue.statistics.skippedForEndedOwners == 101)
  }

  @Test func serialQueueStaysSerialWhenWorkThatWaitedGoesOn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let inside = Counter()
    let most = Counter()
    let body: @Sendable () -> Void = {
      inside.add()
      if inside.value > 1 { most.add() }
      for _ in 0..<1_000 { Pause.spin(1) }
      if inside.value > 1 { most.add() }
      inside.add(-1)
    }
    for _ in 0..<40 {
      queue.addOperation {
        let inner = OwnedBlockOperation(lifetime: .forTests, body)
        queue.addOperation(inner)
        inner.waitUntilFinished()
        body()
      }
      queue.addOperation(body)
    }
    #expect(queue.becomesIdle())
    #expect(most.value == 0)
  }

  @Test(arguments: [OwnerScopedQueue.defaultMaxConcurrentOperationCount, 1, 3])
  func thousandOperationsMayWaitAtOnceForOthersOfTheirQueue(limit: Int) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
    let ran = Counter()
    let count = Sanitizer.many(1_000)
    queue.isSuspended = true
    let last = OwnedBlockOperation(lifetime: .forTests) { ran.add() }
    for number in 0..<count {
      queue.addOperation {
        if number % 2 == 0 {
          last.waitUntilFinished()
        } else {
          let own = OwnedBlockOperation(lifetime: .forTests) {}
          own.addDependency(last)
          queue.addOperations([own], waitUntilFinished: true)
        }
        ran.add()
      }
    }
    queue.addOperation(last)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == count + 1)
  }

  @Test(arguments: [OwnerScopedQueue.defaultMaxConcurrentOperationCount, 1])
  func waitsMayBeNestedAThousandDeep(limit: Int) {
    let (queue, other) = (OwnerScopedQueue(maxConcurrentOperationCount: limit), OwnerScopedQueue(maxConcurrentOperationCount: limit))
    let depth = Counter()
    let deepest = Sanitizer.many(1_000)
    @Sendable func descend() {
      depth.add()
      guard depth.value < deepest else { return }
      let next = OwnedBlockOperation(lifetime: .forTests) { descend() }
      (depth.value % 2 == 0 ? queue : other).addOperation(next)
      next.waitUntilFinished()
    }
    queue.addOperation { descend() }
    #expect(queue.becomesIdle())
    #expect(other.becomesIdle())
    #expect(depth.value == deepest)
    #expect(queue.statistics.succeeded + other.statistics.succeeded == deepest)
  }

  @Test func workMayWaitForItsOwnEnd() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let name = "waits for itself \(OwnerLifetime().id)"
    let reports = Reports(about: name)
    let operation = OwnedOperationThatWaitsForItself(lifetime: lifetime)
    operation.name = name
    queue.addOperation(operation)
    #expect(queue.becomesIdle())
    #expect(reports.errors.count == 1)
    queue.async(lifetime: lifetime) {
      queue.waitUntilFinished(ownedBy: lifetime)
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(queue.becomesIdle())
  }
}

private final class OwnedOperationThatWaitsForItself: OwnedOperation, @unchecked Sendable {
  override func perform() { waitUntilFinished() }
}
