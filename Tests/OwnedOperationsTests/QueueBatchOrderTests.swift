import Foundation
import Testing

@testable import OwnedOperations

@Suite struct QueueBatchOrderTests {
  /// Two workers have taken jobs in advance. When a setter takes them back, the oldest come first again, whoever of the two has which place
  /// among the workers.
  @Test(arguments: [false, true]) func whatIsTakenBackFromSeveralWorkersIsInItsOldOrder(isReversed: Bool) {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let order = Journal<Int>()
    let lifetime = OwnerLifetime()
    for number in 0..<6 { queue.async(lifetime: lifetime) { order.write(number) } }
    #expect(queue.takeAndGiveBack([3, 3], isReversed: isReversed) == [3, 3])
    queue.maxConcurrentOperationCount = 1
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(order.entries == Array(0..<6))
  }

  /// Whoever was first comes first, also before work that had to wait for its owner's turn.
  @Test(arguments: [false, true]) func workOfAnOwnerAtItsLimitKeepsItsPlace(isSuspended: Bool) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (first, second) = (OwnerLifetime(), OwnerLifetime())
    let (gate, order) = (Gate(), Journal<Int>())
    if !isSuspended { queue.maxConcurrentOperationCountPerOwner = 1 }
    queue.async(lifetime: first) { gate.pass() }
    #expect(gate.hasBegun())
    if isSuspended { queue.setSuspended(true, ownedBy: first) }
    queue.async(lifetime: second) { order.write(0) }
    queue.async(lifetime: first) { order.write(1) }
    queue.async(lifetime: second) { order.write(2) }
    queue.async(lifetime: first) { order.write(3) }
    if isSuspended { queue.setSuspended(false, ownedBy: first) }
    gate.open()
    #expect(queue.becomesIdle())
    #expect(order.entries == [0, 1, 2, 3])
  }

  /// It may compute for what stands behind it. As long as its thread uses the processor it is not taken for a blocked one.
  @Test func whatWasTakenWithAJobThatComputesGoesToOthers() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    // The worker takes more and more as long as jobs are quick.
    for _ in 0..<2_000 { queue.async(lifetime: lifetime) {} }
    let isSet = Counter()
    queue.async(lifetime: lifetime) { while isSet.value == 0 {} }
    queue.async(lifetime: lifetime) { isSet.add() }
    for _ in 0..<2_000 { queue.async(lifetime: lifetime) {} }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    isSet.add()
  }
}
