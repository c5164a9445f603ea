import Foundation
import Testing

@testable import OwnedOperations

/// Looks until the condition holds; false if it doesn't after a time that is long beyond doubt. For states that no signal tells of.
private func comesTrue(_ condition: () -> Bool) -> Bool {
  let end = ContinuousClock.now + .seconds(60)
  while !condition() {
    guard ContinuousClock.now < end else { return false }
    sched_yield()
  }
  return true
}

@Suite struct ProtectedTests {
  private struct Failure: Error, Equatable { let number: Int }

  /// Says when it goes.
  private final class Value: Sendable {
    let number: Int
    private let deinitProbe: @Sendable () -> Void
    init(_ number: Int, _ deinitProbe: @escaping @Sendable () -> Void = {}) {
      self.number = number
      self.deinitProbe = deinitProbe
    }
    deinit { deinitProbe() }
  }

  // MARK: What bodies get and give

  @Test func bodiesReturnAndThrowWhatTheyLike() throws {
    let protected = Protected([1, 2])
    #expect(protected.read { $0.count } == 2)
    #expect(
      protected.write {
        $0.append(3)
        return $0.count
      } == 3)
    #expect(protected.withState { $0.removeFirst() } == 1)
    #expect(protected.replace(with: [9]) == [2, 3])
    // Typed errors stay typed.
    do throws(Failure) {
      try protected.read { (state) throws(Failure) in throw Failure(number: state[0]) }
    } catch {
      #expect(error.number == 9)
    }
    do throws(Failure) {
      try protected.write { (state) throws(Failure) in
        state = []
        throw Failure(number: 1)
      }
    } catch {
      #expect(error.number == 1)
    }
    #expect(throws: Failure.self) { try protected.withState { _ in throw Failure(number: 2) } }
    // The hold was left each time.
    #expect(protected.read { $0.isEmpty })
  }

  @Test func whatIsNotSendableIsReachedByWritersOnly() {
    final class Node { var next: Node? }
    let protected = Protected(Node())
    let hasNext = protected.write { node in
      node.next = Node()
      return node.next != nil
    }
    #expect(hasNext)
  }

  @Test func theSecondFormOfWithStateWritesOnlyIfThereIsSomethingToWrite() {
    let protected = Protected<[Int: Int]>([:])
    let looks = Counter()
    let changes = Counter()
    func square(of number: Int) -> Int {
      protected.withState(
        read: {
          looks.add()
          return $0[number]
        },
        orWrite: {
          changes.add()
          $0[number] = number * number
          return number * number
        })
    }
    #expect(square(of: 7) == 49)
    #expect(looks.value == 2 && changes.value == 1)
    #expect(square(of: 7) == 49)
    #expect(looks.value == 3 && changes.value == 1)
  }

  @Test func anObjectOfAnyClassIsReleasedOutside() {
    let writers = Journal<Int>()
    let (object, optional) = (Protected<AnyObject>(Tokenless()), Protected<AnyObject?>(nil))
    object.write { $0 = Value(1) { writers.write(object.lock.unfinishedWriters) } }
    object.write { $0 = Tokenless() }
    optional.write { $0 = Value(2) { writers.write(optional.lock.unfinishedWriters) } }
    optional.write { $0 = nil }
    #expect(writers.entries == [0, 0])
  }

  // MARK: Who waits for whom

  @Test func readersRunAtTheSameTime() {
    let protected = Protected(0)
    let both = (0..<2).map { _ in DispatchSemaphore(value: 0) }
    let done = DispatchSemaphore(value: 0)
    for index in 0..<2 {
      Thread.detachNewThread {
        // Neither ends before the other has begun.
        let isMet = protected.read { _ in
          both[1 - index].signal()
          return both[index].waitUntilSignalled()
        }
        if isMet { done.signal() }
      }
    }
    #expect(done.waitUntilSignalled() && done.waitUntilSignalled())
  }

  @Test func aWriterRunsAlone() {
    let protected = Protected(0)
    let reader = Gate()
    let journal = Journal<String>()
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      protected.read { _ in
        reader.pass()
        journal.write("reader ends")
      }
      done.signal()
    }
    #expect(reader.hasBegun())
    Thread.detachNewThread {
      protected.write { _ in journal.write("writer") }
      done.signal()
    }
    #expect(comesTrue { protected.lock.unfinishedWriters == 1 })
    reader.open()
    #expect(done.waitUntilSignalled() && done.waitUntilSignalled())
    #expect(journal.entries == ["reader ends", "writer"])
  }

  @Test func writersThatWaitGoBeforeLaterReaders() {
    let protected = Protected(0)
    let reader = Gate()
    let journal = Journal<String>()
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      protected.read { _ in reader.pass() }
      done.signal()
    }
    #expect(reader.hasBegun())
    Thread.detachNewThread {
      protected.write { _ in journal.write("writer") }
      done.signal()
    }
    #expect(comesTrue { protected.lock.unfinishedWriters == 1 })
    Thread.detachNewThread {
      protected.read { _ in journal.write("later reader") }
      done.signal()
    }
    #expect(comesTrue { protected.lock.waitingReaders == 1 })
    reader.open()
    for _ in 0..<3 { #expect(done.waitUntilSignalled()) }
    #expect(journal.entries == ["writer", "later reader"])
  }

  @Test func readersThatWaitGoBeforeLaterWriters() {
    let protected = Protected(0)
    let writer = Gate()
    let reader = Gate()
    let journal = Journal<String>()
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      protected.write { _ in writer.pass() }
      done.signal()
    }
    #expect(writer.hasBegun())
    Thread.detachNewThread {
      protected.read { _ in
        reader.pass()
        journal.write("reader")
      }
      done.signal()
    }
    #expect(comesTrue { protected.lock.waitingReaders == 1 })
    for count in 2...3 {
      Thread.detachNewThread {
        protected.write { _ in journal.write("later writer") }
        done.signal()
      }
      #expect(comesTrue { protected.lock.unfinishedWriters == count })
    }
    writer.open()
    // It is inside while two writers wait.
    #expect(reader.hasBegun())
    #expect(protected.lock.unfinishedWriters == 2)
    reader.open()
    for _ in 0..<4 { #expect(done.waitUntilSignalled()) }
    #expect(journal.entries == ["reader", "later writer", "later writer"])
  }

  @Test func nothingIsLostOrTornAmongManyThreads() {
    struct Pair: Sendable {
      var left = 0
      var right = 0
    }
    let protected = Protected(Pair())
    let torn = Counter()
    let rounds = Sanitizer.isThread ? 2_000 : 20_000
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      for round in 0..<rounds {
        if (round + thread).isMultiple(of: 4) {
          protected.write {
            $0.left += 1
            $0.right += 1
          }
        } else {
          protected.read { if $0.left != $0.right { torn.add() } }
        }
      }
    }
    #expect(torn.value == 0)
    #expect(protected.read { $0.left } == 8 * rounds / 4)
    #expect(protected.lock.waitingReaders == 0 && protected.lock.unfinishedWriters == 0)
  }

  @Test func writersAloneDoNotLoseEachOther() {
    let protected = Protected(0)
    let rounds = Sanitizer.isThread ? 2_000 : 20_000
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      for _ in 0..<rounds { protected.write { $0 += 1 } }
    }
    #expect(protected.read { $0 } == 8 * rounds)
  }

  // MARK: Nested use

  @Test func differentObjectsMayBeNested() {
    let outer = Protected(1)
    let inner = Protected(2)
    #expect(outer.read { first in inner.write { second in first + second } } == 3)
    #expect(outer.write { first in inner.read { second in first + second } } == 3)
  }

  @Test func aReadInsideAReadStopsTheProcessAndNamesBoth() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let protected = Protected(0)
      _ = protected.read { _ in protected.read { $0 } }
    }
    expectMessage(child, "Protected<Int>.read", "inside the body of read")
  }

  @Test func aWriteInsideAReadStopsTheProcessAndNamesBoth() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let protected = Protected(0)
      protected.read { _ in protected.write { $0 += 1 } }
    }
    expectMessage(child, "Protected<Int>.write", "inside the body of read")
  }

  @Test func aReadInsideAWriteStopsTheProcessAndNamesBoth() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let protected = Protected(0)
      protected.write { $0 = protected.read { $0 } }
    }
    expectMessage(child, "Protected<Int>.read", "inside the body of write")
  }

  @Test func aReplaceInsideWithStateBehindAnotherObjectStopsTheProcess() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let protected = Protected(0)
      let other = Protected(0)
      protected.withState { _ in other.read { _ in _ = protected.replace(with: 1) } }
    }
    expectMessage(child, "Protected<Int>.replace", "inside the body of withState")
  }

  /// What a body throws away is released inside of it.
  @Test func aDeinitInsideAWriteThatReadsStopsTheProcess() async {
    await #expect(processExitsWith: .failure) {
      let protected = Protected<[Value]>([])
      protected.replace(with: [Value(1) { _ = protected.read { $0.count } }])
      protected.write { $0.removeAll() }
    }
  }

  private func expectMessage(_ child: ExitTest.Result?, _ parts: String...) {
    #if DEBUG  // optimised builds leave messages out
      let text = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self)
      for part in parts { #expect(text.contains(part)) }
      #expect(text.contains("ProtectedTests.swift"))
    #endif
  }

  // MARK: What goes outside

  @Test func whatIsReplacedIsReleasedOutside() {
    let seen = Mutexed(0)
    let protected = Protected<Value?>(nil)
    protected.replace(with: Value(1) { seen.value = protected.read { $0?.number ?? -1 } })
    protected.replace(with: Value(2))
    #expect(seen.value == 2)
    protected.replace(with: nil)
  }

  @Test func anObjectThatAWriteAssignsAwayIsReleasedOutside() {
    let seen = Journal<Int>()
    let protected = Protected<Value?>(nil)
    protected.write { $0 = Value(1) { seen.write(protected.read { $0?.number ?? -1 }) } }
    protected.write { $0 = Value(2) { seen.write(protected.read { $0?.number ?? -1 }) } }
    protected.withState { $0 = nil }
    #expect(seen.entries == [2, -1])
  }

  @Test func theStateGoesWithTheObject() {
    let gone = Counter()
    var protected: Protected<Value>? = Protected(Value(1) { gone.add() })
    #expect(protected?.read { $0.number } == 1)
    protected = nil
    #expect(gone.value == 1)
  }

  // MARK: Later

  @Test func lateWritesRunInOrderAndAreSeenByLaterReads() async {
    let owner = TokenOwner()
    let protected = Protected([Int]())
    for number in 0..<100 { protected.writeLater(owner: owner) { _, numbers in numbers.append(number) } }
    protected.writeLater(lifetime: owner.lifetime) { $0.append(100) }
    await protected.lateWritesFinished()
    #expect(protected.read { $0 } == Array(0...100))
    withExtendedLifetime(owner) {}
  }

  @Test func lateWritesAreBarriersOfTheirQueue() {
    let owner = TokenOwner()
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 4)
    let protected = Protected([String]())
    let gate = Gate()
    queue.async(owner: owner) { _ in
      gate.pass()
      protected.write { $0.append("before") }
    }
    protected.writeLater(owner: owner, on: queue) { _, state in state.append("late") }
    queue.async(owner: owner) { _ in protected.write { $0.append("after") } }
    #expect(gate.hasBegun())
    gate.open()
    #expect(queue.becomesIdle())
    #expect(protected.read { $0 } == ["before", "late", "after"])
    withExtendedLifetime(owner) {}
  }

  @Test func lateWritesOfOwnersThatEndedNeverRunAndLetGoOfTheirCaptures() {
    let queue = OwnerScopedQueue()
    let protected = Protected(0)
    let live = LiveCount()
    weak let observed: TokenOwner?
    do {
      let owner = TokenOwner()
      observed = owner
      queue.isSuspended = true
      let captured = live.makeMember()
      protected.writeLater(owner: owner, on: queue) { _, state in
        captured.mustNotRun()
        state = 1
      }
      withExtendedLifetime(owner) {}
    }
    #expect(observed == nil)
    #expect(live.becomesZero())
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(protected.read { $0 } == 0)
    #expect(queue.statistics.skippedForEndedOwners == 1)
  }

  /// A body elsewhere holds the owner alone. In the end it hands the owner on, or lets it go.
  @Test(arguments: [false, true]) func lateWritesOfAnOwnerThatOnlyItsBodiesHoldStepAside(isHandedOn: Bool) {
    let protected = Protected([String]())
    let (body, first) = (Gate(), Gate())
    let keeper = Mutexed<TokenOwner?>(nil)
    let other = TokenOwner()
    let done = DispatchSemaphore(value: 0)
    do {
      let owner = TokenOwner()
      DispatchQueue.global().async(owner: owner) { owner in
        body.pass()
        if isHandedOn { keeper.value = owner }
      }
      #expect(body.hasBegun())
      protected.writeLater(lifetime: .process) { _ in first.pass() }
      #expect(first.hasBegun())
      protected.writeLater(owner: owner) { _, state in state.append("held back 1") }
      protected.writeLater(owner: other) { _, state in state.append("other 1") }
      protected.writeLater(owner: owner) { _, state in state.append("held back 2") }
      protected.writeLater(lifetime: owner.lifetime) { state in state.append("held back 3") }
      protected.writeLater(owner: other) { _, state in
        state.append("other 2")
        done.signal()
      }
    }
    first.open()
    #expect(done.waitUntilSignalled())
    #expect(protected.read { $0 } == ["other 1", "other 2"])

    let finished = Event()
    Task {
      await protected.lateWritesFinished()
      finished.happen()
    }
    #expect(!finished.isPast)
    body.open()
    #expect(finished.happens())
    let heldBack = isHandedOn ? ["held back 1", "held back 2", "held back 3"] : []
    #expect(protected.read { $0 } == ["other 1", "other 2"] + heldBack)
    withExtendedLifetime((other, keeper)) {}
  }

  @Test func lateWritesTakeTheSameHold() {
    let owner = TokenOwner()
    let protected = Protected(0)
    let reader = Gate()
    let done = DispatchSemaphore(value: 0)
    let seen = Mutexed(-1)
    Thread.detachNewThread {
      protected.read { state in
        reader.pass()
        seen.value = state
      }
      done.signal()
    }
    #expect(reader.hasBegun())
    protected.writeLater(owner: owner) { _, state in state = 1 }
    #expect(comesTrue { protected.lock.unfinishedWriters == 1 })
    reader.open()
    #expect(done.waitUntilSignalled())
    #expect(seen.value == 0)
    #expect(comesTrue { protected.read { $0 } == 1 })
    withExtendedLifetime(owner) {}
  }
}
