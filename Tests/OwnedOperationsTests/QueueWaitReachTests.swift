import Foundation
import Testing

@testable import OwnedOperations

/// Waits whose target leads to work that needs what the one who waits holds, a permit or an owner: by way of plain operations, of
/// other queues, and of what is added or begun only later.
@Suite struct QueueWaitReachTests {
  typealias Async = QueueTaskPermitTests.Async

  private final class Owner: Sendable {}

  /// Holds an owner until it is told to let go.
  private final class Box: Sendable {
    private let kept = Mutexed<Owner?>(Owner())
    var owner: Owner { kept.value.unsafelyUnwrapped }  // only before `drop`
    func drop() { kept.value = nil }
  }

  private static func block(_ body: @escaping @Sendable () -> Void = {}) -> OwnedBlockOperation {
    OwnedBlockOperation(lifetime: .forTests, body)
  }

  private static func serialQueue() -> OwnerScopedQueue { OwnerScopedQueue(maxConcurrentOperationCount: 1) }

  // MARK: Tasks are told of what changes later

  @Test func aTurnOnAnotherQueueComesBack() {
    let (queue, other) = (Self.serialQueue(), OwnerScopedQueue())
    queue.addOperation(
      Async {
        try await other.run(lifetime: .forTests) {
          try await queue.run(lifetime: .forTests) {}
        }
      })
    #expect(queue.becomesIdle())
  }

  @Test func aTurnThreeQueuesAwayComesBack() {
    let queue = Self.serialQueue()
    let others = (0..<3).map { _ in OwnerScopedQueue() }
    queue.addOperation(
      Async {
        try await others[0].run(lifetime: .forTests) {
          try await others[1].run(lifetime: .forTests) {
            try await others[2].run(lifetime: .forTests) {
              try await queue.run(lifetime: .forTests) {}
            }
          }
        }
      })
    #expect(queue.becomesIdle())
  }

  @Test func aTaskAwaitsWhatDependsOnWorkThatIsAddedLater() {
    let (queue, other) = (Self.serialQueue(), OwnerScopedQueue())
    let (far, near) = (Self.block(), Self.block())
    far.addDependency(near)
    other.addOperation(far)
    let waiting = Async { await far.finished() }
    queue.addOperation(waiting)
    #expect(eventually { WatchedWaits.contains(waitOf: waiting) })  // has looked once, in vain
    queue.addOperation(near)
    #expect(queue.becomesIdle())
    #expect(!WatchedWaits.contains(waitOf: waiting))
  }

  @Test func theSecondWaitOfATaskIsForWorkThatIsAddedLater() {
    let (queue, other, third) = (Self.serialQueue(), OwnerScopedQueue(), OwnerScopedQueue())
    let (first, far, near) = (Self.block(), Self.block(), Self.block())
    far.addDependency(near)
    third.addOperation(far)
    let isSecond = Event()
    let inner = Async {
      await first.finished()
      isSecond.happen()
      await far.finished()
    }
    let outer = Async { await inner.finished() }
    queue.addOperation(outer)
    other.addOperation(inner)
    #expect(eventually { WatchedWaits.contains(waitOf: outer) && WatchedWaits.contains(waitOf: inner) })
    third.addOperation(first)
    #expect(isSecond.happens())
    #expect(eventually { WatchedWaits.contains(waitOf: inner) })
    queue.addOperation(near)
    #expect(queue.becomesIdle())
  }

  @Test func aTurnOnAnotherQueueAwaitsWorkOfTheOuterOwner() {
    let (queue, other, third) = (OwnerScopedQueue(), OwnerScopedQueue(), OwnerScopedQueue())
    let (box, inner) = (Box(), Owner())
    let (hasBegun, mayGoOn, isOver) = (Event(), Event(), Event())
    third.isSuspended = true
    let work = third.addOperation(owner: box.owner) { _ in }
    Task {
      try await queue.run(owner: box.owner) { _ in
        hasBegun.happen()
        await mayGoOn.awaited()
        try await other.run(owner: inner) { _ in await work.finished() }
      }
      isOver.happen()
    }
    #expect(hasBegun.happens())
    box.drop()  // from now on the body alone holds its owner
    third.isSuspended = false
    #expect(eventually { third.holdsWorkBack })
    mayGoOn.happen()
    #expect(isOver.happens())
    withExtendedLifetime(inner) {}
  }

  // MARK: Plain operations

  @Test func aTaskAwaitsAPlainOperationOfItsQueue() {
    let queue = Self.serialQueue()
    queue.addOperation(
      Async {
        let plain = BlockOperation {}
        queue.addOperation(plain)
        await plain.finished()
      })
    #expect(queue.becomesIdle())
  }

  @Test func aBodyWaitsForWhatDependsOnAPlainOperationOfItsQueue() {
    let (queue, other) = (Self.serialQueue(), OwnerScopedQueue())
    queue.async(lifetime: .forTests) {
      let plain = BlockOperation {}
      let after = Self.block()
      after.addDependency(plain)
      queue.addOperation(plain)
      other.addOperation(after)
      after.waitUntilFinished()
    }
    #expect(queue.becomesIdle())
  }

  @Test func aTaskAwaitsAPlainOperationThatIsAddedToItsQueueLater() {
    let queue = Self.serialQueue()
    let plain = BlockOperation {}
    let waiting = Async { await plain.finished() }
    queue.addOperation(waiting)
    #expect(eventually { WatchedWaits.contains(waitOf: waiting) })
    queue.addOperation(plain)
    #expect(queue.becomesIdle())
  }

  // MARK: Tasks that block their thread

  @Test func aTaskThatBlocksItsThreadWaitsForAllButItself() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    @Sendable func wait() { queue.waitUntilAllOperationsAreFinished() }
    queue.addOperation(Async { wait() })
    #expect(queue.becomesIdle())
  }

  @Test func aTaskThatBlocksItsThreadWaitsForAllOfItsOwnerButItself() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let owner = OwnerLifetime()
    @Sendable func wait() { queue.waitUntilFinished(ownedBy: owner) }
    queue.addOperation(Async(owner) { wait() })
    #expect(queue.becomesIdle())
  }

  // MARK: Owners are held back

  /// A body makes the wait, for work that is in the gate; other work of its owner is held back all the while.
  private func expectOwnersHeldBack(inWait wait: @escaping @Sendable () -> Void, until foreign: Gate) {
    let (queue, third) = (OwnerScopedQueue(), OwnerScopedQueue())
    let box = Box()
    let (body, isPast) = (Gate(), Event())
    #expect(foreign.hasBegun())
    third.isSuspended = true
    third.async(owner: box.owner) { _ in isPast.happen() }
    queue.async(owner: box.owner) { _ in
      body.pass()
      wait()
      #expect(!isPast.isPast)
    }
    #expect(body.hasBegun())
    box.drop()
    third.isSuspended = false
    #expect(eventually { third.holdsWorkBack })
    body.open()
    #expect(eventually { queue.snapshot.waitingWorkers == 1 })
    #expect(third.holdsWorkBack)
    foreign.open()
    #expect(queue.becomesIdle())
    #expect(third.becomesIdle())
  }

  @Test func aWaitForAQueueWithoutTheOwnersWorkHoldsTheOwnersBack() {
    let (other, foreign) = (OwnerScopedQueue(), Gate())
    other.async(lifetime: .forTests) { foreign.pass() }
    expectOwnersHeldBack(inWait: { other.waitUntilAllOperationsAreFinished() }, until: foreign)
  }

  @Test func aWaitForAForeignGraphRunHoldsTheOwnersBack() throws {
    let (other, foreign) = (OwnerScopedQueue(), Gate())
    let graph = OperationGraph(lifetime: .forTests)
    _ = graph.node { foreign.pass() }
    let run = try graph.run(on: other)
    expectOwnersHeldBack(inWait: { run.wait() }, until: foreign)
  }

  /// The queue that a body waits for has no work of the body's owner, but work that waits for such: an operation that depends on it, or a
  /// job that waits.
  @Test(arguments: [true, false]) func aWaitForAQueueThatWaitsForTheOwnersWorkLetsItBegin(byDependency: Bool) {
    let (queue, other, third) = (OwnerScopedQueue(), OwnerScopedQueue(), OwnerScopedQueue())
    let box = Box()
    let body = Gate()
    third.isSuspended = true
    let work = third.addOperation(owner: box.owner) { _ in }
    if byDependency {
      let after = Self.block()
      after.addDependency(work)
      other.addOperation(after)
    } else {
      other.async(lifetime: .forTests) { work.waitUntilFinished() }
      #expect(eventually { other.snapshot.waitingWorkers == 1 })
    }
    queue.async(owner: box.owner) { _ in
      body.pass()
      other.waitUntilAllOperationsAreFinished()
    }
    #expect(body.hasBegun())
    box.drop()
    third.isSuspended = false
    #expect(eventually { third.holdsWorkBack })
    body.open()
    #expect(queue.becomesIdle())
    #expect(third.becomesIdle())
  }

  // MARK: What changes while a thread waits

  @Test func aLimitIsSetWhileABodyWaits() {
    let queue = OwnerScopedQueue()
    let work = Self.block()
    queue.async(lifetime: .forTests) { work.waitUntilFinished() }
    #expect(eventually { queue.snapshot.waitingWorkers == 1 })
    queue.maxConcurrentOperationCount = 1
    queue.addOperation(work)
    #expect(eventually { work.isFinished })
    #expect(queue.becomesIdle())
  }

  @Test func aLimitForOwnersIsSetWhileABodyWaits() {
    let queue = OwnerScopedQueue()
    let work = Self.block()
    queue.async(lifetime: .forTests) { work.waitUntilFinished() }
    #expect(eventually { queue.snapshot.waitingWorkers == 1 })
    queue.maxConcurrentOperationCountPerOwner = 1
    queue.addOperation(work)
    #expect(eventually { work.isFinished })
    #expect(queue.becomesIdle())
  }

  enum WayToWait: CaseIterable {
    case addOperations, plainOperation, wholeQueue, owner
  }

  /// A body waits on another queue for an operation, whose body waits for work of the first.
  @Test(arguments: WayToWait.allCases) func aWaitForAnotherQueueIsFollowedThroughItsOperations(way: WayToWait) {
    let (queue, other) = (Self.serialQueue(), Self.serialQueue())
    let back: @Sendable () -> Void = {
      let work = Self.block()
      queue.addOperation(work)
      work.waitUntilFinished()
    }
    queue.async(lifetime: .forTests) {
      switch way {
      case .addOperations: other.addOperations([BlockOperation(block: back)], waitUntilFinished: true)
      case .plainOperation:
        let plain = BlockOperation(block: back)
        let after = Self.block()
        after.addDependency(plain)
        other.addOperations([plain, after], waitUntilFinished: false)
        after.waitUntilFinished()
      case .wholeQueue:
        other.addOperation(Self.block(back))
        other.waitUntilAllOperationsAreFinished()
      case .owner:
        other.addOperation(Self.block(back))
        other.waitUntilFinished(ownedBy: .forTests)
      }
    }
    #expect(queue.becomesIdle())
    #expect(other.becomesIdle())
  }

  @Test func aWaitForAnOwnerIsFollowedThroughAnotherOwnersWorkOfTheSameQueue() {
    let (queue, other) = (Self.serialQueue(), OwnerScopedQueue())
    let (first, second) = (OwnerLifetime(), OwnerLifetime())
    let (body, between) = (Gate(), Gate())
    queue.async(lifetime: .forTests) {
      body.pass()
      other.waitUntilFinished(ownedBy: first)
    }
    #expect(body.hasBegun())
    let work = Self.block()
    queue.addOperation(work)  // behind the body
    let last = OwnedBlockOperation(lifetime: second) {}
    last.addDependency(work)
    other.addOperation(last)
    other.addOperation(
      OwnedBlockOperation(lifetime: first) {
        between.pass()
        other.waitUntilFinished(ownedBy: second)
      })
    #expect(between.hasBegun())
    between.open()
    #expect(eventually { other.snapshot.waitingWorkers == 1 })
    body.open()
    #expect(queue.becomesIdle())
    #expect(other.becomesIdle())
  }

  @Test func theWaitOfAnOperationThatABodyStartsByHandIsTheBodysToo() {
    let (queue, other) = (Self.serialQueue(), OwnerScopedQueue())
    let work = Self.block()
    let inner = Self.block { work.waitUntilFinished() }
    let outer = Self.block { inner.start() }
    other.addOperation(outer)
    #expect(eventually { inner.lock.withLock { inner.extras?.currentWaits.isEmpty == false } })
    queue.async(lifetime: .forTests) { outer.waitUntilFinished() }
    #expect(eventually { queue.snapshot.waitingWorkers == 1 })
    queue.addOperation(work)
    #expect(eventually { work.isFinished })
    #expect(queue.becomesIdle() && other.becomesIdle())
  }
}
