import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// A limit holds from the start of a body to its end, asynchronous bodies and waits included.
@Suite struct QueuePermitTests {
  /// Counts how many are inside at once, and in which order they came.
  final class Room: Sendable {
    private let lock = Lock()
    // Guarded by `lock`.
    nonisolated(unsafe) private var inside = 0
    nonisolated(unsafe) private var most = 0
    nonisolated(unsafe) private var order: [Int] = []

    func enter(_ number: Int = 0) {
      lock.withLock {
        inside += 1
        most = max(most, inside)
        order.append(number)
      }
    }

    func leave() { lock.withLock { inside -= 1 } }
    var mostInside: Int { lock.withLock { most } }
    var arrivals: [Int] { lock.withLock { order } }
  }

  final class Async: OwnedAsyncOperation, @unchecked Sendable {
    let room: Room, number: Int
    init(_ lifetime: OwnerLifetime, _ room: Room, _ number: Int) {
      (self.room, self.number) = (room, number)
      super.init(lifetime: lifetime)
    }
    override func run() async throws {
      room.enter(number)
      for _ in 0..<5 { await Task.yield() }
      room.leave()
    }
  }

  /// Foundation's classic: `start` returns, `finish` comes from another thread.
  final class Classic: OwnedOperation, @unchecked Sendable {
    let room: Room, number: Int
    init(_ lifetime: OwnerLifetime, _ room: Room, _ number: Int) {
      (self.room, self.number) = (room, number)
      super.init(lifetime: lifetime)
    }
    override var isAsynchronous: Bool { true }
    override func perform() throws {
      room.enter(number)
      DispatchQueue.global().async { [self] in
        room.leave()
        finish()
      }
    }
  }

  private static func addMixture(_ count: Int, to queue: OwnerScopedQueue, _ room: Room, _ lifetime: (Int) -> OwnerLifetime) {
    for number in 0..<count {
      let lifetime = lifetime(number)
      switch number % 5 {
      case 0: queue.addOperation(Async(lifetime, room, number))
      case 1: queue.addOperation(Classic(lifetime, room, number))
      case 2:
        queue.async(lifetime: lifetime) {
          room.enter(number)
          room.leave()
        }
      case 3:
        queue.addOperation(lifetime: lifetime) {
          room.enter(number)
          room.leave()
        }
      default:
        queue.addOperation(
          OwnedResultOperation(lifetime: lifetime) { () async throws -> Int in
            room.enter(number)
            await Task.yield()
            room.leave()
            return number
          })
      }
    }
  }

  @Test(arguments: [false, true]) func aSerialQueueRunsAsynchronousWorkOneByOneAndInOrder(onUnderlyingQueue: Bool) {
    for _ in 0..<20 {
      let underlying = onUnderlyingQueue ? DispatchQueue(label: "underlying") : nil
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1, underlyingQueue: underlying)
      let room = Room()
      let lifetime = OwnerLifetime()
      Self.addMixture(100, to: queue, room) { _ in lifetime }
      #expect(queue.becomesIdle())
      #expect(room.mostInside == 1)
      #expect(room.arrivals == Array(0..<100))
    }
  }

  @Test(arguments: [2, 3, 8]) func limitsHoldForEveryMixture(limit: Int) {
    for _ in 0..<10 {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
      let room = Room()
      let lifetime = OwnerLifetime()
      Self.addMixture(200, to: queue, room) { _ in lifetime }
      #expect(queue.becomesIdle())
      #expect(room.mostInside <= limit)
    }
  }

  @Test func limitsOfOwnersHoldForEveryMixture() {
    for _ in 0..<10 {
      let queue = OwnerScopedQueue()
      queue.maxConcurrentOperationCountPerOwner = 1
      let owners = (0..<4).map { _ in OwnerLifetime() }
      let rooms = (0..<4).map { _ in Room() }
      for (owner, room) in zip(owners, rooms) { Self.addMixture(50, to: queue, room) { _ in owner } }
      #expect(queue.becomesIdle())
      for room in rooms {
        #expect(room.mostInside == 1)
        #expect(room.arrivals == Array(0..<50))
      }
    }
  }

  @Test func tasksOfASerialQueueTakeTurns() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let room = Room()
    let lifetime = OwnerLifetime()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<100 {
        group.addTask {
          try? await queue.run(lifetime: lifetime) {
            room.enter()
            await Task.yield()
            room.leave()
          }
        }
      }
    }
    #expect(room.mostInside == 1)
    #expect(room.arrivals.count == 100)
  }

  @Test func aWaitForAnotherQueueKeepsThePermit() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let other = OwnerScopedQueue()
    let room = Room()
    let lifetime = OwnerLifetime()
    let gate = Gate()
    queue.async(lifetime: lifetime) {
      room.enter()
      other.addOperation(lifetime: lifetime) { gate.pass() }.waitUntilFinished()
      room.leave()
    }
    #expect(gate.hasBegun())
    queue.async(lifetime: lifetime) {
      room.enter()
      room.leave()
    }
    // Long enough for a second worker to come, if one were let in.
    let probe = OwnerScopedQueue()
    probe.async(lifetime: lifetime) {}
    #expect(probe.becomesIdle())
    #expect(queue.operationCount == 2)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(room.mostInside == 1)
  }

  @Test func aWaitForWorkOfTheSameQueueLetsItRun() {
    for limit in [1, 2] {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
      let lifetime = OwnerLifetime()
      let depth = 5
      @Sendable func nest(_ level: Int) {
        guard level < depth else { return }
        queue.addOperation(lifetime: lifetime) { nest(level + 1) }.waitUntilFinished()
      }
      for _ in 0..<4 { queue.async(lifetime: lifetime) { nest(0) } }
      #expect(queue.becomesIdle())
    }
  }

  @Test func aWaitForAnOperationThatIsAddedToTheSameQueueLaterLetsItRun() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let lifetime = OwnerLifetime()
    let later = OwnedBlockOperation(lifetime: lifetime) {}
    let gate = Gate()
    queue.async(lifetime: lifetime) {
      gate.pass()
      later.waitUntilFinished()
    }
    #expect(gate.hasBegun())
    gate.open()
    queue.addOperation(later)
    #expect(queue.becomesIdle())
  }

  @Test func aWaitForAnOperationThatDependsOnWorkOfTheSameQueueLetsItRun() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let other = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let here = OwnedBlockOperation(lifetime: lifetime) {}
    let plain = BlockOperation {}
    let there = OwnedBlockOperation(lifetime: lifetime) {}
    plain.addDependency(here)
    there.addDependency(plain)
    queue.async(lifetime: lifetime) {
      queue.addOperation(here)
      other.addOperation(plain)
      other.addOperation(there)
      there.waitUntilFinished()
    }
    #expect(queue.becomesIdle() && other.becomesIdle())
  }

  @Test func whoComesBackFromAWaitNeedsItsOwnersPermit() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 8)
    queue.maxConcurrentOperationCountPerOwner = 1
    let one = OwnerLifetime(name: "one")
    let two = OwnerLifetime(name: "two")
    let room = Room()
    let other = Gate()
    let second = Gate()
    queue.async(lifetime: one) {
      queue.addOperation(lifetime: two) { other.pass() }.waitUntilFinished()
      room.enter()
      room.leave()
    }
    #expect(other.hasBegun())
    queue.async(lifetime: one) {
      room.enter()
      second.pass()
      room.leave()
    }
    #expect(second.hasBegun())  // the first has left its permit to it
    other.open()
    while !queue.snapshot.somebodyReturns { sched_yield() }
    second.open()
    #expect(queue.becomesIdle())
    #expect(room.mostInside == 1)
  }

  @Test func whoComesBackFromAWaitDoesNotWaitForAWorkerBehindItOnTheSameThread() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1, underlyingQueue: DispatchQueue(label: "one thread"))
    let lifetime = OwnerLifetime()
    let other = OwnerScopedQueue()
    let gate = Gate()
    queue.async(lifetime: lifetime) {
      let operation = other.addOperation(lifetime: lifetime) { gate.pass() }
      queue.addOperation {}
      operation.waitUntilFinished()
    }
    #expect(gate.hasBegun())
    queue.addOperation {}
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func nothingRunsOnTheFormerUnderlyingQueue() {
    let key = DispatchSpecificKey<Int>()
    let queues = (0..<2).map { number in
      let queue = DispatchQueue(label: "underlying \(number)")
      queue.setSpecific(key: key, value: number)
      return queue
    }
    let queue = OwnerScopedQueue(underlyingQueue: queues[0])
    let lifetime = OwnerLifetime()
    final class Place: Sendable { let value = Atomic<Int>(-1) }
    for round in 0..<2000 {
      let wanted = (round + 1) % 2
      let first = OwnedBlockOperation(lifetime: lifetime) {}
      queue.addOperation(first)
      first.waitUntilFinished()
      while queue.operationCount > 0 { sched_yield() }
      queue.underlyingQueue = queues[wanted]
      let place = Place()
      let done = DispatchSemaphore(value: 0)
      queue.async(lifetime: lifetime) {
        place.value.store(DispatchQueue.getSpecific(key: key) ?? -2, ordering: .relaxed)
        done.signal()
      }
      #expect(done.waitUntilSignalled())
      #expect(place.value.load(ordering: .relaxed) == wanted)
      #expect(queue.becomesIdle())
    }
  }

  @Test func oneMoreWorkerComesWhenNothingFinishesForLong() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    final class Flag: Sendable { let isSet = Atomic<Bool>(false) }
    let flag = Flag()
    // Each keeps its processor busy until the last job has run.
    for _ in 0..<Processors.count {
      queue.async(lifetime: lifetime) { while !flag.isSet.load(ordering: .acquiring) { Pause.spin(100) } }
    }
    queue.async(lifetime: lifetime) { flag.isSet.store(true, ordering: .releasing) }
    #expect(queue.becomesIdle())
    flag.isSet.store(true, ordering: .releasing)
  }
}
