import Foundation
import Testing

@testable import OwnedOperations

@Suite struct OwnerScopedQueueTests {
  @Test func jobsRunWithTheirOwner() {
    let queue = OwnerScopedQueue()
    let owner = TokenOwner()
    let journal = Journal<ObjectIdentifier>()
    for _ in 0..<1_000 { queue.async(owner: owner) { journal.write(ObjectIdentifier($0)) } }
    queue.waitUntilAllOperationsAreFinished()
    #expect(withExtendedLifetime(owner) { journal.entries == Array(repeating: ObjectIdentifier(owner), count: 1_000) })
    #expect(queue.statistics.succeeded == 1_000)
  }

  @Test func serialQueueIsFirstInFirstOutWithinAPriority() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owners = (0..<7).map { _ in TokenOwner() }
    let journal = Journal<Int>()
    queue.isSuspended = true
    for number in 0..<5_000 { queue.async(owner: owners[number % 7]) { _ in journal.write(number) } }
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    let isInOrder = journal.entries == Array(0..<5_000)
    #expect(isInOrder)
    withExtendedLifetime(owners) {}
  }

  @Test func prioritiesAreStrict() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let journal = Journal<Int>()
    queue.isSuspended = true
    let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
    for round in 0..<100 {
      for (index, priority) in priorities.enumerated() {
        if round % 2 == 0 {
          queue.async(lifetime: lifetime, priority: priority) { journal.write(index) }
        } else {
          queue.addOperation(lifetime: lifetime, priority: priority) { journal.write(index) }
        }
      }
    }
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(journal.entries == journal.entries.sorted(by: >))
    #expect(journal.entries.count == 500)
  }

  @Test func noJobStartsAfterItsOwnerEnds() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    var owner: TokenOwner? = TokenOwner()
    let ran = Counter()
    for _ in 0..<1_000 { queue.async(owner: owner!) { _ in ran.add() } }
    owner = nil
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 0)
    let statistics = queue.statistics
    #expect(statistics.cancelled == 1_000)
    #expect(statistics.skippedForEndedOwners == 1_000)
    #expect(statistics.started == 0)
  }

  @Test func capturesGoAtTheEndEvenIfTheQueueIsSuspended() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    var captured: TokenOwner? = TokenOwner()
    weak let seen = captured
    queue.async(lifetime: lifetime) { [captured] in _ = captured }
    let operation = queue.addOperation(lifetime: lifetime) { [captured] in _ = captured }
    captured = nil
    #expect(seen != nil)
    lifetime.end()
    #expect(operation.isCancelled)
    LifetimeReaper.waitUntilIdle()
    #expect(seen == nil)
    #expect(operation.isFinished)
    queue.waitUntilAllOperationsAreFinished()
  }

  @Test func operationsRunAfterTheirDependencies() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let journal = Journal<Int>()
    let operations = (0..<10_000).map { number in OwnedBlockOperation(lifetime: lifetime) { journal.write(number) } }
    for (first, second) in zip(operations, operations.dropFirst()) { second.addDependency(first) }
    queue.addOperations(operations.reversed(), waitUntilFinished: true)
    let isInOrder = journal.entries == Array(0..<10_000)
    #expect(isInOrder)
    // An operation has finished a moment before its queue has counted it, as in Foundation.
    queue.waitUntilAllOperationsAreFinished()
    #expect(queue.operationCount == 0)
  }

  @Test func plainOperationsAndOursDependOnEachOther() {
    let queue = OwnerScopedQueue()
    let journal = Journal<String>()
    let first = BlockOperation { journal.write("plain") }
    let second = OwnedBlockOperation(lifetime: OwnerLifetime()) { journal.write("ours") }
    let third = BlockOperation { journal.write("plain again") }
    second.addDependency(first)
    third.addDependency(second)
    queue.addOperations([third, second, first], waitUntilFinished: true)
    #expect(journal.entries == ["plain", "ours", "plain again"])
  }

  @Test func barrierRunsAloneBetweenWhatCameBeforeAndAfter() {
    let queue = OwnerScopedQueue()
    let journal = Journal<String>()
    let lifetime = OwnerLifetime()
    for _ in 0..<100 { queue.async(lifetime: lifetime) { journal.write("a") } }
    queue.addBarrierBlock { journal.write("|") }
    for _ in 0..<100 { queue.async(lifetime: lifetime, priority: .veryHigh) { journal.write("b") } }
    queue.addBarrierBlock { journal.write("|") }
    queue.addOperation { journal.write("c") }
    queue.waitUntilAllOperationsAreFinished()
    let expected = Array(repeating: "a", count: 100) + ["|"] + Array(repeating: "b", count: 100) + ["|", "c"]
    #expect(journal.entries == expected)
  }

  @Test func blockedWorkersDoNotStallTheQueue() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let gate = DispatchSemaphore(value: 0)
    let arrived = DispatchSemaphore(value: 0)
    for _ in 0..<64 {
      queue.async(lifetime: lifetime) {
        arrived.signal()
        gate.wait()
      }
    }
    for _ in 0..<64 { #expect(arrived.wait(timeout: .now() + 60) == .success) }
    for _ in 0..<64 { gate.signal() }
    queue.waitUntilAllOperationsAreFinished()
  }

  @Test func workMayWaitForItsOwnQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let done = Counter()
    queue.addOperation {
      let inner = OwnedBlockOperation(lifetime: OwnerLifetime()) { done.add() }
      queue.addOperation(inner)
      inner.waitUntilFinished()
      queue.addOperation { done.add() }
      queue.waitUntilAllOperationsAreFinished()
      done.add()
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(done.value == 3)
  }

  @Test func limitAndOrderAreKept() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 3)
    let lifetime = OwnerLifetime()
    // Workers have come to know the work as quick, and all of what follows is there at once: they could take some in advance, but must not.
    for _ in 0..<2000 { queue.async(lifetime: lifetime) {} }
    #expect(queue.becomesIdle())
    queue.isSuspended = true
    let gates = (0..<30).map { _ in Gate() }
    for gate in gates { queue.async(lifetime: lifetime) { gate.pass() } }
    queue.isSuspended = false
    for (number, gate) in gates.enumerated() {
      #expect(gate.hasBegun(), "number \(number) has its turn while no more than two others are under way")
      guard number >= 2 else { continue }
      #expect(queue.statistics.executing == 3)
      gates[number - 2].open()
    }
    for gate in gates.suffix(2) { gate.open() }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.succeeded == 2030)
  }

  @Test func currentQueueIsKnownInside() {
    let queue = OwnerScopedQueue()
    let journal = Journal<OwnerScopedQueue?>()
    queue.addOperation { journal.write(OwnerScopedQueue.current) }
    queue.waitUntilAllOperationsAreFinished()
    #expect(journal.entries == [queue])
  }

  @Test func runReturnsAndThrowsAndIsCancelledWithTheOwner() async throws {
    enum Local { @TaskLocal static var value = 0 }
    struct Failure: Error {}
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = TokenOwner()
    let value = try await Local.$value.withValue(7) {
      try await queue.run(owner: owner) { _ in
        await Task.yield()
        return Local.value
      }
    }
    #expect(value == 7)
    await #expect(throws: Failure.self) { try await queue.run(owner: owner) { _ in throw Failure() } }
    await #expect(throws: CancellationError.self) {
      try await queue.run(owner: owner) { owner in
        owner.lifetime.end()
        while !Task.isCancelled { await Task.yield() }
      }
    }
    await #expect(throws: CancellationError.self) { try await queue.run(owner: owner) { _ in 1 } }
  }

  @Test func tasksPreferTheQueue() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let seen = await Task(executorPreference: queue) { OwnerScopedQueue.current }.value
    #expect(seen == queue)
  }

  @Test func droppedQueueFinishesItsWork() {
    let ran = DispatchSemaphore(value: 0)
    let lifetime = OwnerLifetime()
    weak var seen: OwnerScopedQueue?
    do {
      let queue = OwnerScopedQueue()
      seen = queue
      for _ in 0..<100 { queue.async(lifetime: lifetime) { ran.signal() } }
    }
    for _ in 0..<100 { #expect(ran.wait(timeout: .now() + 60) == .success) }
    _ = seen
  }

  /// Places of finished operations are given up while others are being added: the ones added just before move.
  @Test func operationsAddedWhilePlacesAreGivenUpAllRun() throws {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    let first = (0..<63).map { _ in queue.addOperation(lifetime: lifetime) {} }
    for operation in first.dropLast(10) { operation.cancel() }
    let ran = Counter()
    try queue.enqueue((0..<10).map { _ in OwnedBlockOperation(lifetime: lifetime) { ran.add() } })
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 10)
    #expect(queue.statistics.succeeded == 20)
  }

  /// Owner queues without work are given up while others are being made.
  @Test func operationsOfManyOwnersAddedAtOnceAllRun() throws {
    let queue = OwnerScopedQueue()
    let ran = Counter()
    let owners = (0..<500).map { _ in OwnerLifetime() }
    try queue.enqueue(owners.map { OwnedBlockOperation(lifetime: $0) { ran.add() } })
    queue.waitUntilAllOperationsAreFinished()
    #expect(withExtendedLifetime(owners) { ran.value } == 500)
  }
}
