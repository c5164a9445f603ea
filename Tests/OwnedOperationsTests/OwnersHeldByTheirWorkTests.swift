import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// Once nothing but running bodies of its own work holds an owner, no further body of it begins, whatever form the work has.
@Suite struct OwnersHeldByTheirWorkTests {
  final class Screen: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token(name: "screen")
  }

  final class Plain: Sendable {}

  private static func lifetime(of object: Plain) -> OwnerLifetime { OwnerLifetime.of(object) }

  /// Bodies that overlap, one after the other, so that always one of them holds the owner.
  final class Relay: Sendable {
    let begun = DispatchSemaphore(value: 0)
    let go = DispatchSemaphore(value: 0)
    let count = Atomic<Int>(0)

    func body() {
      count.add(1, ordering: .relaxed)
      begun.signal()
      go.wait()
    }
  }

  /// Adds work, drops the owner while two bodies run, and lets one after the other end.
  /// Expects that no third body begins.
  private func expectTwoBodies<Owner: AnyObject & Sendable>(
    _ make: () -> Owner, lifetime: (Owner) -> OwnerLifetime, _ add: (Owner, Relay) -> Void
  ) {
    let relay = Relay()
    let gone = DispatchSemaphore(value: 0)
    do {
      let owner = make()
      lifetime(owner).onEnd { _ in gone.signal() }
      add(owner, relay)
      #expect(relay.begun.waitUntilSignalled() && relay.begun.waitUntilSignalled())
    }
    // One ends while the other holds the owner: nothing else may begin.
    relay.go.signal()
    #expect(relay.begun.wait(timeout: .now() + .milliseconds(30)) == .timedOut)
    relay.go.signal()
    let isGone = gone.waitUntilSignalled()
    #expect(isGone)
    if !isGone { for _ in 0..<100 { relay.go.signal() } }
    #expect(relay.count.load(ordering: .relaxed) == 2)
  }

  @Test(arguments: [-1, 2, 4]) func jobs(limit: Int) {
    for _ in 0..<20 {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
      let most = limit == 4 ? 4 : 2
      let relay = Relay()
      let gone = DispatchSemaphore(value: 0)
      do {
        let owner = Screen()
        owner.lifetime.onEnd { _ in gone.signal() }
        for _ in 0..<40 { queue.async(owner: owner) { _ in relay.body() } }
        for _ in 0..<2 { #expect(relay.begun.waitUntilSignalled()) }
        // Blocked bodies let more begin without a limit, or up to it: all begin that may, before the owner is dropped.
        if limit != 2 { for _ in 2..<max(4, most) { #expect(relay.begun.waitUntilSignalled()) } }
      }
      let begun = limit == -1 ? 40 : most
      if limit != -1 {
        for _ in 0..<begun { relay.go.signal() }
        #expect(gone.waitUntilSignalled())
        #expect(relay.count.load(ordering: .relaxed) == begun)
      } else {
        for _ in 0..<begun { relay.go.signal() }
        #expect(gone.waitUntilSignalled())
      }
      #expect(queue.becomesIdle())
    }
  }

  @Test func jobsOfTokensAndOfAnyObject() {
    for _ in 0..<50 {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
      expectTwoBodies(Screen.init, lifetime: \.lifetime) { owner, relay in
        for _ in 0..<20 { queue.async(owner: owner) { _ in relay.body() } }
      }
      expectTwoBodies(Plain.init, lifetime: Self.lifetime) { owner, relay in
        for _ in 0..<20 { queue.async(owner: owner) { _ in relay.body() } }
      }
    }
  }

  @Test func operations() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    expectTwoBodies(Screen.init, lifetime: \.lifetime) { owner, relay in
      for _ in 0..<20 { queue.addOperation(owner: owner) { _ in relay.body() } }
    }
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 18)
  }

  @Test func delayedJobs() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    expectTwoBodies(Screen.init, lifetime: \.lifetime) { owner, relay in
      for _ in 0..<20 { queue.asyncAfter(.milliseconds(1), owner: owner) { _ in relay.body() } }
    }
  }

  @Test func graphNodes() throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let graph = OperationGraph(lifetime: OwnerLifetime())
    let runs = Journal<GraphRun>()
    expectTwoBodies(Screen.init, lifetime: \.lifetime) { owner, relay in
      for _ in 0..<20 { graph.node(owner: owner) { _ in relay.body() } }
      if let run = try? graph.run(on: queue) { runs.write(run) }
    }
    let run = try #require(runs.entries.first)
    #expect(returns { run.wait() })
    #expect(run.nodeCounts.cancelled == 18)
  }

  @Test func blocksOfDispatchQueues() {
    let queues = (0..<2).map { DispatchQueue(label: "serial \($0)") }
    expectTwoBodies(Screen.init, lifetime: \.lifetime) { owner, relay in
      for number in 0..<20 { queues[number % 2].async(owner: owner) { _ in relay.body() } }
    }
    expectTwoBodies(Plain.init, lifetime: Self.lifetime) { owner, relay in
      for number in 0..<20 { queues[number % 2].asyncAfter(deadline: .now(), owner: owner) { _ in relay.body() } }
    }
  }

  @Test func severalObjectsWithOneTokenAreCountedEach() {
    final class Sharer: OperationOwner, Sendable {
      let lifetimeToken: OwnerLifetime.Token
      init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
    }
    let token = OwnerLifetime.Token()
    let first = Sharer(token)
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    queue.async(owner: first) { _ in }
    #expect(queue.becomesIdle())
    let relay = Relay()
    let gone: DispatchSemaphore
    do {
      let second = Sharer(token)
      gone = goodbye(of: second)
      for _ in 0..<20 { queue.async(owner: second) { _ in relay.body() } }
      #expect(relay.begun.waitUntilSignalled() && relay.begun.waitUntilSignalled())
    }
    relay.go.signal()
    relay.go.signal()
    #expect(gone.waitUntilSignalled())
    #expect(queue.becomesIdle())
    #expect(relay.count.load(ordering: .relaxed) == 2)
    withExtendedLifetime(first) {}
  }

  @Test func whoeverAsksGetsTheSameHold() {
    final class Sharer: OperationOwner, Sendable {
      let lifetimeToken: OwnerLifetime.Token
      init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
    }
    let token = OwnerLifetime.Token()
    let (first, second) = (Sharer(token), Sharer(token))
    let ofObject = OwnerLifetime()  // of another's making, before the token's has been asked
    #expect(ofObject.bind(first))
    let hold = OwnerHold.of(first)
    #expect(ofObject.ownerHold === hold && token.lifetime.ownerHold === hold)
    #expect(token.lifetime.bindOwn(first) && token.lifetime.bind(first) && !token.lifetime.bindOwn(second))
    #expect(OwnerHold.of(first as AnyObject, OwnerLifetime()) === hold)

    let other = OwnerHold.of(second)
    #expect(other !== hold && OwnerHold.of(second, token.lifetime) === other)
    #expect(hold.refers(to: first) && other.refers(to: second))

    let plain = Plain()
    #expect(OwnerHold.of(plain) !== hold)
    let kept = OwnerHold.of(plain, OwnerLifetime.of(plain))
    #expect(OwnerHold.of(plain) === kept)
  }

  @Test func anOwnerThatIsHandedOnLivesOnAndNothingIsLost() {
    final class Keeper: Sendable {
      let lock = Lock()
      nonisolated(unsafe) var kept: Screen?  // guarded by `lock`
    }
    let keeper = Keeper()
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let first = Gate()
    let second = Gate()
    final class Count: Sendable { let value = Atomic<Int>(0) }
    let count = Count()
    do {
      let owner = Screen()
      queue.async(owner: owner) { owner in
        first.pass()
        keeper.lock.withLock { keeper.kept = owner }
      }
      queue.async(owner: owner) { _ in second.pass() }
      for _ in 0..<10 { queue.async(owner: owner) { _ in count.value.add(1, ordering: .relaxed) } }
      #expect(first.hasBegun() && second.hasBegun())
    }
    second.open()
    first.open()
    #expect(queue.becomesIdle())
    #expect(count.value.load(ordering: .relaxed) == 10)
    #expect(keeper.lock.withLock { keeper.kept?.lifetime.isAlive } == true)
  }

  @Test func aBodyThatWaitsForItsOwnersWorkLetsItBegin() {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let gone: DispatchSemaphore
    final class Count: Sendable { let value = Atomic<Int>(0) }
    let count = Count()
    do {
      let owner = Screen()
      gone = goodbye(of: owner)
      let lifetime = owner.lifetime
      queue.async(owner: owner) { _ in
        gate.pass()
        queue.waitUntilFinished(ownedBy: lifetime)
      }
      #expect(gate.hasBegun())
      for _ in 0..<10 { queue.async(owner: owner) { _ in count.value.add(1, ordering: .relaxed) } }
    }
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(count.value.load(ordering: .relaxed) <= 10)
    #expect(queue.becomesIdle())
  }

  @Test func theDeinitMayWaitForTheOwnersWork() {
    final class Waiting: OperationOwner, Sendable {
      let lifetimeToken = OwnerLifetime.Token()
      let queue: OwnerScopedQueue
      let over: DispatchSemaphore
      init(_ queue: OwnerScopedQueue, _ over: DispatchSemaphore) { (self.queue, self.over) = (queue, over) }
      deinit {
        queue.waitUntilFinished(ownedBy: lifetimeToken.lifetime)
        queue.waitUntilAllOperationsAreFinished()
        over.signal()
      }
    }
    for limit in [-1, 1, 2] {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: limit)
      let over = DispatchSemaphore(value: 0)
      let gate = Gate()
      do {
        let owner = Waiting(queue, over)
        queue.async(owner: owner) { _ in gate.pass() }
        for _ in 0..<5 { queue.async(owner: owner) { _ in } }
        #expect(gate.hasBegun())
      }
      gate.open()
      #expect(over.waitUntilSignalled())
      #expect(queue.becomesIdle())
    }
  }

  @Test func aHookMayWaitForTheOwnersWork() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let over = DispatchSemaphore(value: 0)
    let gate = Gate()
    do {
      let owner = Screen()
      let lifetime = owner.lifetime
      lifetime.onEnd { [unowned lifetime] _ in
        queue.waitUntilFinished(ownedBy: lifetime)
        over.signal()
      }
      queue.async(owner: owner) { _ in gate.pass() }
      #expect(gate.hasBegun())
    }
    gate.open()
    #expect(over.waitUntilSignalled())
    #expect(queue.becomesIdle())
  }

  @Test func aDeinitThatBlocksHoldsNoPermit() {
    final class Blocking: OperationOwner, Sendable {
      let lifetimeToken = OwnerLifetime.Token()
      let gate: Gate
      init(_ gate: Gate) { self.gate = gate }
      deinit { gate.pass() }
    }
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    let body = Gate()
    do {
      let owner = Blocking(gate)
      queue.async(owner: owner) { _ in body.pass() }
      #expect(body.hasBegun())
    }
    body.open()
    #expect(gate.hasBegun())
    // The deinit waits for the job that comes behind it, in a way that nobody can see.
    let ran = DispatchSemaphore(value: 0)
    queue.addOperation { ran.signal() }
    #expect(ran.waitUntilSignalled())
    gate.open()
    #expect(queue.becomesIdle())
  }
}
