import Testing

@testable import OwnedOperations

/// A batch on one thread, without a queue.
@Suite struct WorkBatchTests {
  /// The first item lies in the room for one that each batch has at first, and moves along.
  @Test func moreItemsThanOneComeOutInTheirOrder() {
    let batch = WorkBatch()
    var pool = ChunkPool()
    let level = PriorityLevel.of(.normal)
    let ownerQueues = (0..<2).map { _ in OwnerQueue(lifetime: nil, home: Counter(), listener: nil, isSuspended: false) }
    let flows = ownerQueues.map { $0.makeFlow(at: level) }
    defer { withExtendedLifetime((ownerQueues, flows)) {} }
    let order = Locked<[Int]>([])
    for (number, flow) in [0, 1, 1, 1].map({ flows[$0] }).enumerated() {
      flow.work.append(.block { order.withLock { $0.append(number) } }, pool: &pool)
    }
    #expect(batch.fill(from: flows[0], limit: 1, age: 1, pool: &pool) == 1)
    #expect(batch.fill(from: flows[1], limit: 5, age: 2, pool: &pool) == 3)
    batch.publish(level: level)
    var ran: [Borrowed<OwnerQueue>] = []
    while let (_, work, ownerQueue, _) = batch.begin() {
      if case .block(let body) = work { body() }
      ran.append(ownerQueue)
    }
    #expect(order.withLock { $0 } == [0, 1, 2, 3])
    #expect(ran.map(\.address) == [0, 1, 1, 1].map { Borrowed(ownerQueues[$0]).address })
    batch.settle(includingCurrent: true) { _, _ in }
    batch.empty()
  }
}
