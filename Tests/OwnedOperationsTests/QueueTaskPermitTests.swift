import Foundation
import Testing

@testable import OwnedOperations

/// Asynchronous bodies that await work of their own queue: others have their place meanwhile, and no more run at once than the limit
/// allows.
@Suite struct QueueTaskPermitTests {
  typealias Room = QueuePermitTests.Room

  /// Runs a closure.
  final class Async: OwnedAsyncOperation, @unchecked Sendable {
    let body: @Sendable () async throws -> Void
    init(_ lifetime: OwnerLifetime = .forTests, _ body: @escaping @Sendable () async throws -> Void) {
      self.body = body
      super.init(lifetime: lifetime)
    }
    override func run() async throws { try await body() }
  }

  private static func block(_ body: @escaping @Sendable () -> Void) -> OwnedBlockOperation {
    OwnedBlockOperation(lifetime: .forTests, body)
  }

  /// All permits are where they belong when nothing runs. A worker may still come back from the start of an operation that has finished.
  private static func expectNoPermitIsHeld(_ queue: OwnerScopedQueue, _ location: SourceLocation = #_sourceLocation) {
    let isFree = eventually {
      queue.shows {
        $0.yielded == 0 && $0.detached == 0 && $0.taskPermits == 0 && !$0.somebodyReturns && $0.waits == 0
      }
    }
    #expect(isFree, sourceLocation: location)
  }

  @Test func aTaskAwaitsAnOperationOfItsOwnSerialQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let room = Room()
    let operation = Async {
      room.enter(1)
      room.leave()
      let other = Self.block {
        room.enter(2)
        room.leave()
      }
      queue.addOperation(other)
      queue.async(lifetime: .forTests) {
        room.enter(3)
        room.leave()
      }
      await other.finished()
      room.enter(4)
      for _ in 0..<5 { await Task.yield() }
      room.leave()
    }
    queue.addOperation(operation)
    #expect(queue.becomesIdle())
    #expect(operation.outcome?.kind == "succeeded")
    #expect(room.mostInside == 1)
    #expect(room.arrivals.sorted() == [1, 2, 3, 4])
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func turnsNestOnASerialQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let outer = OwnedResultOperation<Int>(lifetime: .forTests) {
      try await queue.run(lifetime: .forTests) {
        try await queue.run(lifetime: .forTests) {
          let inner = OwnedResultOperation<Int>(lifetime: .forTests) { 7 }
          queue.addOperation(inner)
          return try await inner.value
        } + 1
      } + 1
    }
    queue.addOperation(outer)
    #expect(queue.becomesIdle())
    #expect(outer.output == 9)
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func partsOfATaskAwaitSeveralThingsAtOnce() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let room = Room()
    let sum = OwnedResultOperation<Int>(lifetime: .forTests) {
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 1...20 {
          group.addTask {
            try await queue.run(lifetime: .forTests) {
              room.enter(number)
              await Task.yield()
              room.leave()
              return number
            }
          }
        }
        return try await group.reduce(0, +)
      }
    }
    queue.addOperation(sum)
    #expect(queue.becomesIdle())
    #expect(sum.output == 210)
    #expect(room.mostInside == 1)
    Self.expectNoPermitIsHeld(queue)
  }

  /// The first part asks for the permit when its wait is over. A second part begins to wait just then: the first goes on without.
  @Test func aPartThatAsksForThePermitGoesOnWhenAnotherWaits() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let never = Self.block {}
    let (first, second) = (Self.block {}, Self.block {})
    for operation in [first, second] {
      operation.addDependency(never)  // it finishes when it is cancelled, without a permit
      queue.addOperation(operation)
    }
    let (gate, gateIsReached, firstIsBack, secondMayWait) = (Event(), Event(), Event(), Event())
    let operation = Async {
      async let part: Void = {
        await first.finished()
        firstIsBack.happen()
      }()
      await secondMayWait.awaited()
      await second.finished()
      await part
    }
    queue.addOperation(operation)
    queue.async(lifetime: .forTests) {
      gateIsReached.happen()
      #expect(gate.happens())
    }
    #expect(gateIsReached.happens())
    first.cancel()
    #expect(eventually { queue.snapshot.somebodyReturns })
    #expect(!firstIsBack.isPast)
    secondMayWait.happen()
    #expect(firstIsBack.happens())
    second.cancel()
    gate.happen()
    #expect(queue.becomesIdle())
    #expect(operation.outcome?.kind == "succeeded")
    Self.expectNoPermitIsHeld(queue)
    withExtendedLifetime(never) {}
  }

  @Test func aTaskAwaitsAllWorkOfItsQueueButItself() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let journal = Journal<Int>()
    queue.addOperation(
      Async {
        for number in 0..<10 { queue.async(lifetime: .forTests) { journal.write(number) } }
        await queue.finished()
        journal.write(10)
      })
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0...10))
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aTaskAwaitsAllWorkOfItsOwnerButItself() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = OwnerLifetime()
    let journal = Journal<Int>()
    queue.addOperation(
      Async(owner) {
        for number in 0..<10 { queue.async(lifetime: owner) { journal.write(number) } }
        await queue.finished(ownedBy: owner)
        journal.write(10)
      })
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0...10))
    Self.expectNoPermitIsHeld(queue)
  }

  /// The waits of one operation count once, however many parts of it wait: they don't stand for other work.
  @Test func twoWaitsOfOneTaskAreOnePieceOfWork() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let gate = Event()
    queue.async(lifetime: .forTests) { #expect(gate.happens()) }
    let waiting = Async {
      async let one: Void = queue.finished()
      async let two: Void = queue.finished()
      _ = await (one, two)
      #expect(gate.isPast)
    }
    queue.addOperation(waiting)
    #expect(eventually { queue.snapshot.waits == 2 })
    #expect(!queue.snapshot.hasDueWaiters)
    gate.happen()
    #expect(queue.becomesIdle())
    #expect(waiting.outcome?.kind == "succeeded")
    Self.expectNoPermitIsHeld(queue)
  }

  /// What an operation leaves behind waits like anybody, and has no permit to give or to take.
  @Test func aTaskThatOutlivesItsOperationIsNoWorkOfTheQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let gate = Event()
    let left = Event()
    let mayEnd = Event()
    queue.async(lifetime: .forTests) { #expect(gate.happens()) }
    let operation = Async {
      Task {
        await queue.finished()
        #expect(gate.isPast)
        left.happen()
      }
      await mayEnd.awaited()
    }
    queue.addOperation(operation)
    #expect(eventually { queue.shows { $0.waits == 1 && $0.yielded == 1 } })
    mayEnd.happen()
    operation.waitUntilFinished()
    // The queue hears of the end a moment later than who waits for the operation.
    #expect(eventually { queue.shows { $0.yielded == 0 && $0.taskPermits == 0 } })
    #expect(!queue.snapshot.hasDueWaiters)
    gate.happen()
    #expect(left.happens())
    #expect(queue.becomesIdle())
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aTaskYieldsWhenWhatItAwaitsComesToItsQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let late = Self.block {}
    queue.addOperation(Async { await late.finished() })
    #expect(eventually { late.lock.withLock { late.extras?.waiters.isEmpty == false } })
    queue.addOperation(late)
    #expect(queue.becomesIdle())
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aTaskThatBlocksItsThreadYields() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    @Sendable func wait(for operation: Operation) { operation.waitUntilFinished() }
    queue.addOperation(
      Async {
        let other = Self.block {}
        queue.addOperation(other)
        wait(for: other)
      })
    #expect(queue.becomesIdle())
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aThreadWaitsForATaskThatWaitsForTheThreadsQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let other = OwnerScopedQueue()
    queue.async(lifetime: .forTests) {
      let last = Self.block {}
      let between = Async { await last.finished() }
      other.addOperation(between)
      queue.addOperation(last)
      between.waitUntilFinished()
    }
    #expect(queue.becomesIdle())
    #expect(other.becomesIdle())
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aTaskAwaitsWorkOfItsOwnerUnderTheOwnersLimit() {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCountPerOwner = 1
    let owner = OwnerLifetime()
    let room = Room()
    for number in 0..<10 {
      queue.addOperation(
        Async(owner) {
          room.enter(number)
          room.leave()
          try await queue.run(lifetime: owner) {
            room.enter(number)
            await Task.yield()
            room.leave()
          }
          room.enter(number)
          await Task.yield()
          room.leave()
        })
    }
    #expect(queue.becomesIdle())
    #expect(room.arrivals.count == 30)
    #expect(room.mostInside == 1)
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func aGraphIsAwaitedOnASerialQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let count = Counter()
    queue.addOperation(
      Async {
        let graph = OperationGraph(lifetime: .forTests)
        for _ in 0..<10 { _ = graph.node { count.add() } }
        try await graph.run(on: queue).value
        count.add()
      })
    #expect(queue.becomesIdle())
    #expect(count.value == 11)
    Self.expectNoPermitIsHeld(queue)
  }

  @Test func cancellingATaskThatWaitsGivesThePermitBack() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let owner = OwnerLifetime()
    queue.addOperation(
      Async(owner) {
        try await queue.run(lifetime: owner) { try await Task.sleep(for: .seconds(3600)) }
      })
    #expect(eventually { queue.shows { $0.yielded == 1 && $0.detached == 2 } })
    owner.end()
    #expect(queue.becomesIdle())
    Self.expectNoPermitIsHeld(queue)
  }
}
