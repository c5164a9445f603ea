import OwnedOperations
import OwnedOperationsTesting
import Testing

@Suite struct ShuffledOrderTests {
  private func order(seed: UInt64, limit: Int = OwnerScopedQueue.defaultMaxConcurrentOperationCount, owners: Int) -> [String] {
    let time = VirtualTime(seed: seed)
    let queue = OwnerScopedQueue(virtualTime: time, maxConcurrentOperationCount: limit, order: .shuffled)
    let lifetimes = (0..<owners).map { _ in OwnerLifetime() }
    let log = Log()
    for number in 0..<12 { queue.async(lifetime: lifetimes[number % owners]) { log.add("\(number)") } }
    time.runUntilIdle()
    return log.lines
  }

  @Test(arguments: [1, 4]) func aSeedRepeatsItsOrder(owners: Int) {
    let all = (0..<12).map(String.init)
    var seen: Set<[String]> = []
    for seed in UInt64(0)..<20 {
      let order = order(seed: seed, owners: owners)
      #expect(order.sorted() == all.sorted())
      #expect(order == self.order(seed: seed, owners: owners))
      seen.insert(order)
    }
    #expect(seen.count == 20)
    #expect(!seen.contains(all))
  }

  @Test func everyOrderComesUp() {
    var seen: Set<[String]> = []
    for seed in UInt64(0)..<200 {
      let time = VirtualTime(seed: seed)
      let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
      let log = Log()
      let owner = OwnerLifetime()
      for number in 0..<3 { queue.addOperation(lifetime: owner) { log.add("\(number)") } }
      time.runUntilIdle()
      seen.insert(log.lines)
    }
    #expect(seen.count == 6)
  }

  @Test func whatIsPromisedStays() {
    #expect(order(seed: 3, limit: 1, owners: 4) == (0..<12).map(String.init))
    let time = VirtualTime(seed: 7)
    let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
    let owner = OwnerLifetime()
    let log = Log()
    for _ in 0..<5 { queue.async(lifetime: owner, priority: .low) { log.add("low") } }
    for _ in 0..<5 { queue.async(lifetime: owner) { log.add("normal") } }
    queue.addBarrierBlock { log.add("barrier") }
    for _ in 0..<5 { queue.async(lifetime: owner, priority: .high) { log.add("high") } }
    time.runUntilIdle()
    let expected = [String](repeating: "normal", count: 5) + [String](repeating: "low", count: 5) + ["barrier"]
    #expect(log.lines == expected + [String](repeating: "high", count: 5))
  }

  @Test func rootsOfAGraphAreShuffled() throws {
    var seen: Set<[String]> = []
    for seed in UInt64(0)..<10 {
      let time = VirtualTime(seed: seed)
      let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
      let graph = OperationGraph(lifetime: OwnerLifetime())
      let log = Log()
      for number in 0..<8 { _ = graph.node { log.add("\(number)") } }
      try graph.run(on: queue)
      time.runUntilIdle()
      seen.insert(log.lines)
    }
    #expect(seen.count == 10)
  }

  @Test func tasksOfAShuffledQueueChangePlaces() {
    var seen: Set<[String]> = []
    for seed in UInt64(0)..<20 {
      let time = VirtualTime(seed: seed)
      let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
      let owner = OwnerLifetime()
      let log = Log()
      for number in 0..<4 {
        owner.task(on: queue) {
          log.add("begin \(number)")
          await Task.yield()
          log.add("end \(number)")
        }
      }
      time.runUntilIdle()
      #expect(log.lines.count == 8)
      seen.insert(log.lines)
    }
    #expect(seen.count > 10)
  }

  @Test func barriersInARowKeepTheirOrder() {
    let time = VirtualTime(seed: 7)
    let log = Log()
    let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
    let owners = [OwnerLifetime(), OwnerLifetime()]
    queue.setSuspended(true, ownedBy: owners[1])
    for number in 0..<20 { queue.addBarrier(lifetime: owners[number % 2]) { log.add("\(number)") } }
    time.runUntilIdle()
    #expect(log.lines == ["0"])
    let reasons = time.pending.map(\.reason)
    #expect(reasons.count { $0 == .ownerSuspended } == 10 && reasons.count { $0 == .barrier } == 9)
    queue.setSuspended(false, ownedBy: owners[1])
    #expect(time.pending.count { $0.reason == .ready } == 1)
    time.runUntilIdle()
    #expect(log.lines == (0..<20).map(String.init))
  }
}
