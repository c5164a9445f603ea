import Foundation
import Testing

@testable import OwnedOperations

/// Handlers that run on a queue.
@Suite struct ObserverDeliveryTests {
  private let center = NotificationCenter()
  private let queue = OwnerScopedQueue()
  private let lifetime = OwnerLifetime()
  private let journal = Journal<Int>()

  private func post(_ number: Int) { center.post(name: .first, object: nil, userInfo: ["number": number]) }

  private static func number(_ notification: Notification) -> Int { notification.userInfo?["number"] as? Int ?? -1 }

  private func observe(_ body: @escaping @Sendable (Int) -> Void = { _ in }) -> OwnedObservation {
    center.observe(.first, lifetime: lifetime, on: queue) { [journal] notification in
      body(Self.number(notification))
      journal.write(Self.number(notification))
    }
  }

  @Test func aPostDoesNotWait() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    #expect(returns { self.post(0) })
    #expect(gate.hasBegun())
    #expect(returns { self.post(1) })
    #expect(journal.entries.isEmpty)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1])
  }

  @Test func deliveriesOfOneObservationAreSerialAndInOrder() {
    let running = Counter()
    _ = observe { _ in
      running.add()
      #expect(running.value == 1)
      running.add(-1)
    }
    let count = Sanitizer.isActive ? 500 : 5_000
    for number in 0..<count { post(number) }
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0..<count))
  }

  @Test func observationsDoNotWaitForOneAnother() {
    let gate = Gate()
    let heard = DispatchSemaphore(value: 0)
    _ = observe { _ in gate.pass() }
    center.observe(.first, lifetime: lifetime, on: queue) { _ in heard.signal() }
    post(1)
    #expect(gate.hasBegun() && heard.waitUntilSignalled())
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func deliveriesAreJobsOfTheOwner() {
    queue.isSuspended = true
    _ = observe()
    for number in 0..<3 { post(number) }
    #expect(queue.operationCount(ownedBy: lifetime) == 3)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2] && queue.statistics.succeeded == 3)
  }

  @Test func aCancellationDropsWhatWaitsAndNothingElse() {
    queue.isSuspended = true
    let observation = observe()
    for number in 0..<3 { post(number) }
    queue.cancelOperations(ownedBy: lifetime)
    DeferredReleases.waitUntilIdle()
    for number in 3..<5 { post(number) }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [3, 4] && observation.isValid)
  }

  // MARK: While one of them runs

  /// Posts three, of which the first runs until the gate is opened, and the two others have come up in the queue.
  private func postThree(_ gate: Gate) {
    post(0)
    #expect(gate.hasBegun())
    post(1)
    post(2)
    comeUp()
  }

  /// Returns when the queue has looked at all that is in it: what can run has run.
  private func comeUp() {
    let done = DispatchSemaphore(value: 0)
    queue.async(lifetime: .process) { done.signal() }
    #expect(done.waitUntilSignalled())
  }

  @Test func thoseThatComeUpEarlyAreCounted() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    postThree(gate)
    #expect(queue.operationCount(ownedBy: lifetime) == 3)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2])
  }

  @Test func thoseThatComeUpEarlyAreCancelled() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    postThree(gate)
    queue.cancelAllOperations()
    #expect(queue.operationCount(ownedBy: lifetime) == 1)
    post(3)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 3] && queue.statistics.cancelled == 2)
  }

  @Test func thoseThatComeUpEarlyAreSuspended() {
    for suspend in [{ $0.queue.isSuspended = $1 }, { $0.queue.setSuspended($1, ownedBy: $0.lifetime) }] as [(Self, Bool) -> Void] {
      let scene = Self()
      let gate = Gate()
      _ = scene.observe { if $0 == 0 { gate.pass() } }
      scene.postThree(gate)
      suspend(scene, true)
      gate.open()
      #expect(eventually { scene.queue.operationCount(ownedBy: scene.lifetime) == 2 })
      #expect(scene.journal.entries == [0])
      suspend(scene, false)
      #expect(scene.queue.becomesIdle())
      #expect(scene.journal.entries == [0, 1, 2])
    }
  }

  @Test func thoseThatComeUpEarlyGoWithTheObservation() {
    let gate = Gate()
    let observation = observe { if $0 == 0 { gate.pass() } }
    postThree(gate)
    observation.invalidate()
    #expect(queue.operationCount(ownedBy: lifetime) == 1)
    post(3)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0] && queue.statistics.cancelled == 2)
  }

  @Test func thoseThatComeUpEarlyGoWithTheOwner() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    postThree(gate)
    lifetime.end()
    #expect(queue.operationCount == 0 || eventually { queue.statistics.skippedForEndedOwners == 2 })
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0])
  }

  @Test func deliveriesKeepTheirPlaceAmongTheJobsOfAQueue() {
    // Taking turns, a line is one that has turns.
    for (fairness, order) in [(OwnerFairness.firstComeFirstServed, [0, 1, 100, 2, 101]), (.roundRobin, [0, 100, 1, 101, 2])] {
      let scene = Self()
      scene.queue.maxConcurrentOperationCount = 1
      scene.queue.ownerFairness = fairness
      let gate = Gate()
      _ = scene.observe { if $0 == 0 { gate.pass() } }
      scene.post(0)
      #expect(gate.hasBegun())
      scene.post(1)
      scene.queue.async(lifetime: scene.lifetime) { [journal = scene.journal] in journal.write(100) }
      scene.post(2)
      scene.queue.async(lifetime: scene.lifetime) { [journal = scene.journal] in journal.write(101) }
      gate.open()
      #expect(scene.queue.becomesIdle())
      #expect(scene.journal.entries == order, "\(fairness)")
    }
  }

  @Test func barriersSeparateDeliveries() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    postThree(gate)
    queue.addBarrier(lifetime: lifetime) { [journal] in journal.write(100) }
    post(3)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2, 100, 3])
  }

  @Test func aHandlerThatWaitsForItsQueueLetsTheOthersRun() {
    let gate = Gate()
    let queue = queue
    _ = observe { number in
      guard number == 0 else { return }
      gate.pass()
      queue.waitUntilAllOperationsAreFinished()
    }
    postThree(gate)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [1, 2, 0])
  }

  @Test func aHandlerGoesOnWhenNoOtherOfItsLineRuns() {
    let gates = [Gate(), Gate()]
    let queue = queue
    let awaited = OwnedBlockOperation(lifetime: lifetime) {}
    _ = observe { number in
      if number < 2 { gates[number].pass() }
      if number == 0 { awaited.waitUntilFinished() }
    }
    post(0)
    #expect(gates[0].hasBegun())
    post(1)
    post(2)
    awaited.addDependency(BlockOperation())
    queue.addOperation(awaited)
    gates[0].open()
    #expect(gates[1].hasBegun())
    for dependency in awaited.dependencies { dependency.start() }
    // Its wait is over, and the second runs: then it is the first's turn, before the third's.
    #expect(eventually { queue.snapshot.somebodyReturns })
    #expect(journal.entries.isEmpty)
    gates[1].open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [1, 0, 2])
  }

  @Test func whoWaitsForItsLineHoldsUpNoOtherWorkOfItsOwner() {
    let (gates, queue) = ([Gate(), Gate()], queue)
    queue.maxConcurrentOperationCountPerOwner = 2
    let awaited = OwnedBlockOperation(lifetime: .process) {}
    let dependency = BlockOperation()
    awaited.addDependency(dependency)
    _ = observe { number in
      gates[number].pass()
      if number == 0 { awaited.waitUntilFinished() }
    }
    post(0)
    #expect(gates[0].hasBegun())
    post(1)
    queue.addOperation(awaited)
    gates[0].open()
    #expect(gates[1].hasBegun())
    dependency.start()
    #expect(eventually { queue.snapshot.somebodyReturns })
    let done = DispatchSemaphore(value: 0)
    queue.async(lifetime: lifetime) { done.signal() }
    #expect(done.waitUntilSignalled())
    gates[1].open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [1, 0])
  }

  private final class Unfinished: OwnedOperation, @unchecked Sendable {  // stores nothing
    override var isAsynchronous: Bool { true }
  }

  /// A worker has taken the next of the line, behind something that takes long: that is no reason to wait.
  @Test func aHandlerGoesOnThoughTheNextHasBeenTaken() {
    let (gate, queue) = (Gate(), queue)
    let awaited = Unfinished(lifetime: .process)
    _ = observe { number in
      guard number == 0 else { return }
      gate.pass()
      awaited.waitUntilFinished()
    }
    queue.addOperation(awaited)
    post(0)
    #expect(gate.hasBegun())
    gate.open()
    #expect(eventually { queue.snapshot.yielded == 1 })
    queue.isSuspended = true
    queue.async(lifetime: .process) {}
    post(1)
    let worker = queue.take(2)
    #expect(worker.count == 2)
    awaited.finish()
    #expect(eventually { journal.entries == [0] })
    queue.giveBack(worker)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1])
  }

  // MARK: What they hold

  private final class SlowOwner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let mayGo: DispatchSemaphore
    init(_ mayGo: DispatchSemaphore) { self.mayGo = mayGo }
    deinit { mayGo.wait() }
  }

  @Test func theDeinitOfAnOwnerIsNoPartOfTheDelivery() {
    queue.maxConcurrentOperationCount = 1
    let (gate, mayGo) = (Gate(), DispatchSemaphore(value: 0))
    do {
      let owner = SlowOwner(mayGo)
      center.observe(.first, owner: owner, on: queue) { _, _ in gate.pass() }
      post(0)
      #expect(gate.hasBegun())
    }
    queue.async(lifetime: .process) { mayGo.signal() }
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func whatAHandlerCapturedIsNoPartOfTheDelivery() {
    queue.maxConcurrentOperationCount = 1
    let (gate, mayGo) = (Gate(), DispatchSemaphore(value: 0))
    let observation: OwnedObservation
    do {
      let deinitProbe = DeinitProbe { mayGo.wait() }
      observation = center.observe(.first, lifetime: lifetime, on: queue) { _ in
        gate.pass()
        withExtendedLifetime(deinitProbe) {}
      }
    }
    post(0)
    #expect(gate.hasBegun())
    observation.invalidate()
    queue.async(lifetime: .process) { mayGo.signal() }
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func aNotificationThatIsSlowToGoHoldsUpNoOther() {
    queue.isSuspended = true
    _ = observe()
    let (gate, gone) = (Gate(), DispatchSemaphore(value: 0))
    func postThing(_ body: @escaping @Sendable () -> Void) {
      center.post(name: .first, object: nil, userInfo: ["thing": DeinitProbe(body)])
    }
    postThing { gate.pass() }
    postThing { gone.signal() }
    lifetime.end()
    #expect(gate.hasBegun())
    #expect(gone.waitUntilSignalled())
    gate.open()
  }

  @Test func aPostHasWorkThatIsHeldBackLookedAtAgain() {
    let (gates, queue) = ([Gate(), Gate()], queue)
    let box = Mutexed<TokenOwner?>(nil)
    do {
      let owner = TokenOwner()
      center.observe(.first, owner: owner, on: queue) { _, _ in }
      queue.async(owner: owner) { owner in
        gates[0].pass()
        box.value = owner
        gates[1].pass()
      }
      #expect(gates[0].hasBegun())
      // Comes up when this reference has gone.
      queue.isSuspended = true
      queue.async(owner: owner) { _ in }
    }
    queue.isSuspended = false
    // The worker that had it has looked for itself, and left.
    #expect(eventually { queue.holdsWorkBack && queue.snapshot.activeWorkers == 1 })
    gates[0].open()
    #expect(gates[1].hasBegun())
    post(0)
    #expect(!queue.holdsWorkBack)
    gates[1].open()
    #expect(queue.becomesIdle())
  }

  @Test func whatIsAddedToAClosedLineIsNoEndOfAnOwner() {
    let line = SerialLine(queue, lifetime)
    _ = line.close(inBackground: false)
    line.add { nil }
    #expect(queue.statistics.skippedForEndedOwners == 0 && queue.statistics.enqueued == 0)
  }

  @Test func manyDeliveriesThatAreDroppedTakeNoStack() {
    let gate = Gate()
    let observation = observe { if $0 == 0 { gate.pass() } }
    post(0)
    #expect(gate.hasBegun())
    for number in 1..<Sanitizer.many(100_000) { post(number) }
    observation.invalidate()
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0])
  }

  @Test func observationsThatComeAndGoLeaveNothingInTheQueue() {
    for number in 0..<1000 {
      let observation = observe()
      post(number)
      if number % 2 == 0 { #expect(queue.becomesIdle()) }
      observation.invalidate()
    }
    #expect(queue.becomesIdle())
    #expect(queue.owners.allSatisfy { $0.lines == 0 })
  }

  @Test func noDeliveryBeginsAfterTheEnd() {
    queue.isSuspended = true
    let removed = observe()
    let other = OwnerLifetime()
    center.observe(.first, lifetime: other, on: queue) { [journal] _ in journal.write(-2) }
    post(0)
    removed.invalidate()
    other.end()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries.isEmpty)
  }

  @Test func theNotificationIsHeldUntilItIsDeliveredOrEnds() {
    queue.isSuspended = true
    let observation = observe()
    func postObject() -> Weakly<Tokenless> {
      let (object, seen) = (Tokenless(), Weakly<Tokenless>())
      seen.object = object
      center.post(name: .first, object: object)
      return seen
    }
    let delivered = postObject()
    #expect(delivered.object != nil)
    queue.isSuspended = false
    #expect(eventually { delivered.object == nil })
    queue.isSuspended = true
    let dropped = postObject()
    #expect(dropped.object != nil)
    observation.invalidate()
    #expect(dropped.object == nil)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
  }

  @Test func anObservationThatEndedLetsGoOfItsQueue() {
    let reference = Weakly<OwnerScopedQueue>()
    let observation: OwnedObservation
    do {
      let new = OwnerScopedQueue()
      reference.object = new
      new.isSuspended = true
      observation = center.observe(.first, lifetime: lifetime, on: new) { _ in }
      post(0)
    }
    #expect(reference.object != nil)
    observation.invalidate()
    #expect(eventually { reference.object == nil })
  }

  @Test func theOwnerIsNotHeldByWhatWaits() {
    queue.isSuspended = true
    var owner: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: owner!)
    center.observe(.first, owner: owner!, on: queue) { [journal] _, _ in journal.write(0) }
    post(0)
    owner = nil
    #expect(hasGone.waitUntilSignalled())
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries.isEmpty)
  }

  @Test func theMainQueueDeliversOnTheMainActor() async {
    let event = Event()
    center.observe(.first, lifetime: lifetime, on: .main) { [journal] _ in
      MainActor.assumeIsolated { journal.write(1) }
      event.happen()
    }
    post(0)
    await event.awaited()
    #expect(journal.entries == [1])
  }
}
