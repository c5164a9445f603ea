import Dispatch
import Testing

@testable import OwnedOperations

/// Stands for what a body captures: says whether it is still held.
private final class Captured: Sendable {}

/// A serial queue that runs nothing until it is opened.
private final class GatedQueue: Sendable {
  let queue = DispatchQueue(label: "gated")

  init() { queue.suspend() }

  /// Returns when everything submitted before has had its turn.
  func open() {
    queue.resume()
    queue.sync {}
  }
}

private let anHour = DispatchTimeInterval.seconds(3_600)

@Suite struct OwnerAwareDispatchTests {
  // MARK: What the body gets

  @Test func bodiesGetTheirOwner() {
    let owner = TokenOwner()
    let journal = Journal<ObjectIdentifier>()
    let done = DispatchGroup()
    DispatchQueue.global().async(owner: owner, group: done) { journal.write(ObjectIdentifier($0)) }
    done.wait()
    #expect(journal.entries == [ObjectIdentifier(owner)])
  }

  @Test func delayedBodiesGetTheirOwnerAfterTheDeadline() {
    let owner = TokenOwner()
    let journal = Journal<ObjectIdentifier>()
    let done = DispatchSemaphore(value: 0)
    let deadline = DispatchTime.now() + .milliseconds(20)
    DispatchQueue.global().asyncAfter(deadline: deadline, owner: owner) {
      journal.write(ObjectIdentifier($0))
      done.signal()
    }
    done.wait()
    #expect(DispatchTime.now() >= deadline)
    #expect(journal.entries == [ObjectIdentifier(owner)])
  }

  @Test func delayedBodiesWhoseDeadlineHasPassedRunAtOnce() {
    let owner = TokenOwner()
    let done = DispatchSemaphore(value: 0)
    DispatchQueue.global().asyncAfter(deadline: .now() - anHour, owner: owner) { _ in done.signal() }
    DispatchQueue.global().asyncAfter(deadline: .now(), lifetime: owner.lifetime) { done.signal() }
    done.wait()
    done.wait()
  }

  @Test func bodiesOfAliveLifetimesRun() {
    let lifetime = OwnerLifetime()
    let counter = Counter()
    let gated = GatedQueue()
    gated.queue.async(lifetime: lifetime) { counter.add() }
    gated.open()
    #expect(counter.value == 1)
    let done = DispatchSemaphore(value: 0)
    gated.queue.asyncAfter(deadline: .now() + .milliseconds(5), lifetime: lifetime) { done.signal() }
    done.wait()
  }

  @Test func objectsThatShareATokenGetTheirOwnBodies() {
    let token = OwnerLifetime.Token()
    let first = TokenSharer(token)
    let second = TokenSharer(token)
    let journal = Journal<ObjectIdentifier>()
    let gated = GatedQueue()
    gated.queue.async(owner: first) { journal.write(ObjectIdentifier($0)) }
    gated.queue.async(owner: second) { journal.write(ObjectIdentifier($0)) }
    gated.queue.async(owner: first) { journal.write(ObjectIdentifier($0)) }
    gated.open()
    #expect(journal.entries == [ObjectIdentifier(first), ObjectIdentifier(second), ObjectIdentifier(first)])
  }

  @Test func bodiesAreSkippedWhenTheirObjectWentBeforeTheTokenItShares() {
    let token = OwnerLifetime.Token()
    let first = TokenSharer(token)
    var second: TokenSharer? = TokenSharer(token)
    let counter = Counter()
    let gated = GatedQueue()
    gated.queue.async(owner: first) { _ in counter.add() }
    gated.queue.async(owner: second!) { _ in counter.add(100) }
    second = nil
    #expect(token.lifetime.isAlive)
    gated.open()
    #expect(counter.value == 1)
  }

  // MARK: What is held

  @Test func pendingBodiesDoNotKeepTheirOwner() {
    var owner: TokenOwner? = TokenOwner()
    weak let observed = owner
    let gated = GatedQueue()
    gated.queue.async(owner: owner!) { _ in }
    gated.queue.asyncAfter(deadline: .now() + anHour, owner: owner!) { _ in }
    #expect(observed != nil)
    owner = nil
    #expect(observed == nil)
    gated.open()
  }

  @Test func ownersAreHeldWhileTheirBodyRuns() {
    let owner = Mutexed<TokenOwner?>(TokenOwner())
    weak let observed = owner.value
    let lifetime = owner.value!.lifetime
    let queue = DispatchQueue(label: "held")
    let started = DispatchSemaphore(value: 0)
    let mayFinish = DispatchSemaphore(value: 0)
    queue.async(owner: owner.value!) { _ in
      started.signal()
      mayFinish.wait()
    }
    started.wait()
    owner.value = nil
    #expect(observed != nil)
    #expect(lifetime.isAlive)
    mayFinish.signal()
    queue.sync {}
    #expect(observed == nil)
    #expect(!lifetime.isAlive)
  }

  @Test func capturesGoWhenTheBodyHasRun() {
    let owner = TokenOwner()
    weak var captured: Captured?
    let done = DispatchGroup()
    do {
      let object = Captured()
      captured = object
      DispatchQueue.global().async(owner: owner, group: done) { _ in withExtendedLifetime(object) {} }
    }
    done.wait()
    #expect(captured == nil)
  }

  @Test func capturesGoWhenTheDelayedBodyHasRun() {
    let owner = TokenOwner()
    weak var captured: Captured?
    let queue = DispatchQueue(label: "delayed")
    let done = DispatchSemaphore(value: 0)
    do {
      let object = Captured()
      captured = object
      queue.asyncAfter(deadline: .now() + .milliseconds(1), owner: owner) { _ in
        withExtendedLifetime(object) {}
        done.signal()
      }
    }
    done.wait()
    queue.sync {}  // the body has returned
    #expect(captured == nil)
  }

  @Test func capturesGoAtTheEndThoughTheQueueIsSuspended() {
    let lifetime = OwnerLifetime()
    var owner: TokenOwner? = TokenOwner()
    weak var ofOwner: Captured?
    weak var ofLifetime: Captured?
    let gated = GatedQueue()
    do {
      let objects = [Captured(), Captured()]
      (ofOwner, ofLifetime) = (objects[0], objects[1])
      gated.queue.async(owner: owner!) { [object = objects[0]] _ in withExtendedLifetime(object) {} }
      gated.queue.async(lifetime: lifetime) { [object = objects[1]] in withExtendedLifetime(object) {} }
    }
    #expect(ofOwner != nil && ofLifetime != nil)
    owner = nil
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(ofOwner == nil)
    #expect(ofLifetime == nil)
    gated.open()
  }

  @Test func capturesGoAtTheEndAndNotAtTheDeadline() {
    let lifetime = OwnerLifetime()
    var owner: TokenOwner? = TokenOwner()
    weak var ofOwner: Captured?
    weak var ofLifetime: Captured?
    do {
      let objects = [Captured(), Captured()]
      (ofOwner, ofLifetime) = (objects[0], objects[1])
      let deadline = DispatchTime.now() + anHour
      DispatchQueue.global().asyncAfter(deadline: deadline, owner: owner!) { [object = objects[0]] _ in withExtendedLifetime(object) {} }
      DispatchQueue.global().asyncAfter(deadline: deadline, lifetime: lifetime) { [object = objects[1]] in withExtendedLifetime(object) {} }
    }
    #expect(ofOwner != nil && ofLifetime != nil)
    owner = nil
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(ofOwner == nil)
    #expect(ofLifetime == nil)
  }

  @Test func capturesGoAtOnceWhenTheOwnerHadEnded() {
    let owner = TokenOwner()
    owner.lifetime.end()
    weak var captured: Captured?
    let gated = GatedQueue()
    do {
      let object = Captured()
      captured = object
      gated.queue.async(owner: owner) { _ in withExtendedLifetime(object) {} }
      gated.queue.async(lifetime: owner.lifetime) { withExtendedLifetime(object) {} }
      gated.queue.asyncAfter(deadline: .now() + anHour, owner: owner) { _ in withExtendedLifetime(object) {} }
      gated.queue.asyncAfter(deadline: .now() + anHour, lifetime: owner.lifetime) { withExtendedLifetime(object) {} }
    }
    #expect(captured == nil, "and not only when the reaper or the queue gets there")
    gated.open()
  }

  // MARK: What is skipped

  @Test func bodiesNeverStartAfterTheirOwnerHasGone() {
    var owner: TokenOwner? = TokenOwner()
    let counter = Counter()
    let gated = GatedQueue()
    gated.queue.async(owner: owner!) { _ in counter.add() }
    gated.queue.asyncAfter(deadline: .now(), owner: owner!) { _ in counter.add() }
    owner = nil
    gated.open()
    #expect(counter.value == 0)
  }

  @Test func bodiesNeverStartAfterTheirLifetimeWasEndedByHand() {
    let owner = TokenOwner()
    let lifetime = OwnerLifetime()
    let counter = Counter()
    let gated = GatedQueue()
    gated.queue.async(owner: owner) { _ in counter.add() }
    gated.queue.async(lifetime: lifetime) { counter.add() }
    owner.lifetime.end()
    lifetime.end()
    gated.open()
    #expect(counter.value == 0)
  }

  @Test func bodiesNeverStartAfterTheParentOfTheirOwnerEnded() {
    let parent = OwnerLifetime()
    let owner = TokenOwner(parent: parent)
    let child = OwnerLifetime(parent: parent)
    let counter = Counter()
    let gated = GatedQueue()
    gated.queue.async(owner: owner) { _ in counter.add() }
    gated.queue.async(lifetime: child) { counter.add() }
    parent.end()
    gated.open()
    #expect(counter.value == 0)
  }

  /// The lifetime itself is the decision, not the reaper: with the reaper held up, an ended owner's block still doesn't run.
  @Test func bodiesNeverStartAfterTheEndThoughTheReaperIsBusy() {
    let owner = TokenOwner()
    let counter = Counter()
    let gated = GatedQueue()
    LifetimeReaper.hold(owner.lifetime)
    gated.queue.async(owner: owner) { _ in counter.add() }
    owner.lifetime.end()
    gated.open()
    #expect(counter.value == 0)
    LifetimeReaper.resume(owner.lifetime)
  }

  @Test func bodiesRunAtMostOnceAndNeverAfterTheEndWhenEndsRaceWithStarts() {
    let queue = DispatchQueue(label: "racing", attributes: .concurrent)
    let wrong = Counter()
    let runs = (0..<400).map { _ in Counter() }
    let released = Counter()
    DispatchQueue.concurrentPerform(iterations: runs.count) { index in
      let lifetime = OwnerLifetime()
      let hasEnded = Mutexed(false)
      let all = DispatchGroup()
      for _ in 0..<20 {
        let endedBeforeSubmission = hasEnded.value
        queue.async(lifetime: lifetime, group: all) {
          if endedBeforeSubmission { wrong.add() }
          runs[index].add()
        }
      }
      lifetime.end()
      hasEnded.value = true
      let before = runs[index].value
      queue.async(lifetime: lifetime, group: all) { wrong.add() }
      all.wait()
      if runs[index].value < before || runs[index].value > 20 { wrong.add() }
      released.add()
    }
    #expect(wrong.value == 0)
    #expect(released.value == runs.count, "no group waited for ever")
  }

  @Test func objectsWithoutATokenAreOwnersToo() {
    final class Plain: Sendable {}
    var owner: Plain? = Plain()
    weak let observed = owner
    weak var captured: Captured?
    let journal = Journal<String>()
    let gated = GatedQueue()
    gated.queue.async(owner: owner!) { _ in journal.write("first") }
    gated.open()
    gated.queue.suspend()
    do {
      let object = Captured()
      captured = object
      gated.queue.async(owner: owner!) { _ in withExtendedLifetime(object) { journal.write("second") } }
      gated.queue.asyncAfter(deadline: .now() + anHour, owner: owner!) { _ in withExtendedLifetime(object) {} }
    }
    owner = nil
    #expect(observed == nil)
    LifetimeReaper.waitUntilIdle()
    if DeinitHook.mechanism != .weakReference { #expect(captured == nil) }
    gated.open()
    #expect(journal.entries == ["first"])
  }

  // MARK: Groups and flags

  @Test func groupsAreLeftWhenBodiesHaveRun() {
    let owner = TokenOwner()
    let group = DispatchGroup()
    let gated = GatedQueue()
    gated.queue.async(owner: owner, group: group) { _ in }
    gated.queue.async(lifetime: owner.lifetime, group: group) {}
    #expect(group.wait(timeout: .now()) == .timedOut)
    gated.open()
    #expect(group.wait(timeout: .now()) == .success)
  }

  @Test func groupsAreLeftAtTheEndThoughTheQueueIsSuspended() {
    let owner = TokenOwner()
    let group = DispatchGroup()
    let gated = GatedQueue()
    gated.queue.async(owner: owner, group: group) { _ in }
    gated.queue.async(lifetime: owner.lifetime, group: group) {}
    owner.lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(group.wait(timeout: .now()) == .success)
    gated.open()
    #expect(group.wait(timeout: .now()) == .success, "and not twice")
  }

  @Test func groupsAreNotEnteredForOwnersThatHaveEnded() {
    let owner = TokenOwner()
    owner.lifetime.end()
    let group = DispatchGroup()
    let gated = GatedQueue()
    gated.queue.async(owner: owner, group: group) { _ in }
    gated.queue.async(lifetime: owner.lifetime, group: group) {}
    #expect(group.wait(timeout: .now()) == .success)
    gated.open()
  }

  @Test func barriersWaitForTheBodiesBefore() {
    let owner = TokenOwner()
    let queue = DispatchQueue(label: "barrier", attributes: .concurrent)
    let journal = Journal<Int>()
    let mayFinish = DispatchSemaphore(value: 0)
    queue.async(owner: owner) { _ in
      mayFinish.wait()
      journal.write(1)
    }
    // ThreadSanitizer's `dispatch_async` forgets that a block with a quality of service is a barrier, also without this library.
    queue.async(owner: owner, qos: Sanitizer.isThread ? .unspecified : .userInitiated, flags: .barrier) { _ in journal.write(2) }
    queue.async(owner: owner) { _ in journal.write(3) }
    mayFinish.signal()
    queue.sync(flags: .barrier) {}
    #expect(journal.entries == [1, 2, 3])
  }

  // MARK: Many blocks of one owner

  @Test func blocksOfOneOwnerFromManyThreadsEachRunOnce() {
    let owner = TokenOwner()
    let counter = Counter()
    let queue = DispatchQueue(label: "many", attributes: .concurrent)
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<50_000 { queue.async(owner: owner) { _ in counter.add() } }
    }
    queue.sync(flags: .barrier) {}
    #expect(counter.value == 200_000)
  }
}

private final class TokenSharer: OperationOwner, Sendable {
  let lifetimeToken: OwnerLifetime.Token

  init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
}
