import Testing

@testable import OwnedOperations

/// How long a queue keeps what it knows of owners that have no work, and how it finds that again.
@Suite(.timeLimit(.minutes(1))) struct OwnerQueueTableTests {
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
  }

  private func ownerQueue(of lifetime: OwnerLifetime) -> OwnerQueue {
    OwnerQueue(lifetime: lifetime, home: lifetime, listener: nil, isSuspended: false)
  }

  /// Inserts so many, of owners with tokens, which the caller has to keep; and sweeps whenever that is due.
  private func fill(_ table: inout OwnerQueueTable, _ count: Int, at time: UInt64) -> (owners: [Owner], swept: [OwnerQueue]) {
    let owners = (0..<count).map { _ in Owner() }
    var swept: [OwnerQueue] = []
    for owner in owners {
      table.insert(ownerQueue(of: owner.lifetime), of: owner.lifetime, isBack: true, isPlaced: false)
      let found = table.isSweepDue ? table.sweep(now: time) : []
      swept += found
    }
    return (owners, swept)
  }

  @Test func thoseOfOwnersThatNeverComeBackAreSweptWithoutWork() {
    var table = OwnerQueueTable()
    let owners = (0..<65).map { _ in Owner() }
    for owner in owners { table.insert(ownerQueue(of: owner.lifetime), of: owner.lifetime, isBack: false, isPlaced: false) }
    table[owners[3].lifetime]?.changeUnfinished(by: 1)
    let swept = table.sweep(now: 0)
    #expect(swept.count == 64)
    #expect(!swept.contains { $0.lifetime === owners[3].lifetime })
  }

  /// However many have come and gone meanwhile, a sweep takes no longer, and the next is not due at once.
  @Test func aSweepLooksAtAFewAndTheNextAtMore() {
    var table = OwnerQueueTable()
    let lifetimes = (0..<2_000).map { _ in OwnerLifetime() }
    for lifetime in lifetimes {
      let passing = ownerQueue(of: lifetime)
      table.insert(passing, of: lifetime, isBack: false, isPlaced: true)
      _ = table.remove(passing)
    }
    for lifetime in lifetimes {
      let busy = ownerQueue(of: lifetime)
      busy.changeUnfinished(by: 1)
      table.insert(busy, of: lifetime, isBack: false, isPlaced: true)
    }
    var isDue = table.isSweepDue
    #expect(isDue)
    #expect(table.sweep(now: 0).isEmpty)
    isDue = table.isSweepDue
    #expect(!isDue)
    table.visit { $0.changeUnfinished(by: -1) }
    var swept = 0
    var sweeps = 0
    while table.count > 128, sweeps < 100 {
      for _ in 0..<65 { table.insert(ownerQueue(of: lifetimes[0]), of: lifetimes[0], isBack: false, isPlaced: true) }
      isDue = table.isSweepDue
      #expect(isDue)
      let found = table.sweep(now: 0).count
      #expect(found <= 512)
      swept += found
      sweeps += 1
    }
    #expect(swept >= 2_000)
    #expect(sweeps < 20)
  }

  @Test func thoseWhoseEndIsAnnouncedAreKept() {
    var table = OwnerQueueTable()
    let (owners, swept) = fill(&table, 10_000, at: 1)
    #expect(swept.isEmpty)
    #expect(table.count == 10_000)
    #expect(table[owners[0].lifetime]?.lifetime === owners[0].lifetime)
  }

  @Test func thoseThatHadNoWorkSinceTheLastSweepAreSweptWhenTheirRestIsOver() {
    var table = OwnerQueueTable()
    // The first sweep finds that all have just been made; others find that it is too early.
    let first = fill(&table, 1_000, at: OwnerQueueTable.rest + 1)
    #expect(first.swept.isEmpty)
    table[first.owners[7].lifetime]?.changeUnfinished(by: 1)
    table[first.owners[7].lifetime]?.changeUnfinished(by: -1)
    let second = fill(&table, 1_000, at: 2 * OwnerQueueTable.rest + 2)
    // Those that the first sweep has seen, when the 65th came, but for one that had work.
    #expect(second.swept.count == 64)
    #expect(!second.swept.contains { $0.lifetime === first.owners[7].lifetime })
    #expect(table.count == 2_000 - 64)
    withExtendedLifetime((first, second)) {}
  }

  @Test func thoseThatAreOnlyDroppedAreSweptWithoutWork() {
    var table = OwnerQueueTable()
    let lifetimes = (0..<65).map { _ in OwnerLifetime() }
    for lifetime in lifetimes { table.insert(ownerQueue(of: lifetime), of: lifetime, isBack: false, isPlaced: false) }
    table[lifetimes[3]]?.changeUnfinished(by: 1)
    let isDue = table.isSweepDue
    #expect(isDue)
    let swept = table.sweep(now: 0)
    #expect(swept.count == 64)
    #expect(!swept.contains { $0.lifetime === lifetimes[3] })
  }

  @Test func whatIsKeptGivesUpWhatItNeedsNot() {
    var table = OwnerQueueTable()
    var pool = ChunkPool()
    let (owners, _) = fill(&table, 2, at: 1)
    let flow = table[owners[0].lifetime]?.makeFlow(at: PriorityLevel.of(.normal))
    let batch = WorkBatch()
    for _ in 0..<300 { flow?.work.append(.block {}, pool: &pool) }
    while let flow, flow.work.count > 0 {
      _ = batch.fill(from: flow, limit: 50, age: 1, pool: &pool)
      batch.publish(level: 0)
      while batch.begin() != nil {}
      batch.empty()
    }
    #expect(flow?.work.capacity == 32)  // which goes to the pool
    #expect(table.restedSinceLook(&pool).isEmpty)  // both have just been made
    #expect(flow?.work.capacity == 0)
    for _ in 0..<300 { flow?.work.append(.block {}, pool: &pool) }
    #expect(flow?.work.count == 300)
    #expect(table.restedSinceLook(&pool).map { $0.lifetime === owners[1].lifetime } == [true])
    withExtendedLifetime(owners) {}
  }

  @Test func aTableTellsTheKindsApart() {
    var table = OwnerQueueTable()
    let (owner, lifetime) = (Owner(), OwnerLifetime())
    #expect(owner.lifetime.isEndAnnounced)
    #expect(OwnerLifetime.process.isEndAnnounced)
    #expect(!lifetime.isEndAnnounced)
    var hasAnnounced = table.hasAnnounced
    #expect(!hasAnnounced)
    table.insert(ownerQueue(of: lifetime), of: lifetime, isBack: false, isPlaced: false)
    hasAnnounced = table.hasAnnounced
    #expect(!hasAnnounced)
    table.insert(ownerQueue(of: owner.lifetime), of: owner.lifetime, isBack: true, isPlaced: false)
    hasAnnounced = table.hasAnnounced
    #expect(hasAnnounced)
    #expect(table.idle(.dropped).map { $0.lifetime === lifetime } == [true])
    #expect(table.idle(.announced).map { $0.lifetime === owner.lifetime } == [true])
    #expect(table.idle(.all).count == 2)
    for ownerQueue in table.idle(.all) { _ = table.remove(ownerQueue) }
    #expect(table.count == 0)
  }

  // MARK: Queues

  /// A queue that only the test tidies up.
  private func makeQueue() -> OwnerScopedQueue {
    let queue = OwnerScopedQueue()
    _ = queue.core.reference?.claimTidyUp()
    _ = queue.core.reference?.claimRest()
    return queue
  }

  @Test func anIdleQueueKeepsWhatItKnowsOfOwnersUntilItHasRested() {
    let queue = makeQueue()
    let owner = Owner()
    queue.async(owner: owner) { _ in }
    #expect(queue.becomesIdle())
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    #expect(!queue.core.tidyUpSparingly())  // it may never come back
    #expect(queue.snapshot.ownerQueues == 0)
    queue.async(owner: owner) { _ in }
    #expect(queue.becomesIdle())
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    #expect(queue.core.tidyUpSparingly())  // it has
    #expect(queue.snapshot.ownerQueues == 1)
    #expect(queue.core.tidyUpRest())  // its rest begins
    #expect(queue.snapshot.ownerQueues == 1)
    queue.async(owner: owner) { _ in }
    #expect(queue.becomesIdle())
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    #expect(queue.core.tidyUpRest())  // begins anew
    #expect(queue.snapshot.ownerQueues == 1)
    #expect(!queue.core.tidyUpRest())
    #expect(queue.snapshot.ownerQueues == 0)
  }

  /// A worker looks at them when there are too many, and if none has come to it, whoever makes the next.
  @Test func aQueueOfManyOwnersHasNoSweepLeft() {
    let queue = makeQueue()
    let owners = (0..<200).map { _ in Owner() }
    for owner in owners {
      queue.async(owner: owner) { _ in }
      let isSweepLeft = queue.core.read { $0.departures.isSweepOverdue }
      #expect(!isSweepLeft)
      #expect(queue.becomesIdle())
    }
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    let isSweepLeft = queue.core.read { $0.departures.isSweepDue }
    #expect(!isSweepLeft)
    #expect(queue.snapshot.ownerQueues < 200)  // nobody has come back
    for owner in owners { queue.async(owner: owner) { _ in } }
    for owner in owners { queue.async(owner: owner) { _ in } }
    #expect(queue.becomesIdle())
    #expect(queue.snapshot.ownerQueues > 100)  // all have
    withExtendedLifetime(owners) {}
  }

  /// What the queue knew of those that have gone is used for those that come, until it rests.
  @Test func ownersThatComeHaveWhatOthersHaveLeft() {
    let queue = makeQueue()
    var owners = (0..<66).map { _ in Owner() }
    for owner in owners {
      queue.async(owner: owner) { _ in }
      #expect(queue.becomesIdle())
    }
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    owners = []
    LifetimeReaper.waitUntilIdle()
    let spares = queue.core.read { $0.departures.spareCount }
    #expect(spares >= 64)
    let ran = Counter()
    owners = (0..<spares).map { _ in Owner() }
    queue.isSuspended = true
    for owner in owners { queue.async(owner: owner) { _ in ran.add() } }
    let left = queue.core.read { $0.departures.spareCount }
    #expect(left == 0)
    let ended = owners.removeLast().lifetime
    #expect(!ended.isAlive)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == spares - 1)
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    queue.core.tidyUp()
    let kept = queue.core.read { $0.departures.spareCount }
    #expect(kept == 0)
  }

  /// A queue that has run out keeps what they have left only if somebody is to tidy up.
  @Test func whatIsLeftToAnIdleQueueGoesWhenItIsTidiedUp() {
    let queue = OwnerScopedQueue()
    func endOne() -> Int {
      var owner: Owner? = Owner()
      queue.isSuspended = true
      if let owner { queue.async(owner: owner) { _ in } }
      owner = nil
      LifetimeReaper.waitUntilIdle()
      #expect(queue.operationCount == 0)
      return queue.core.read { $0.departures.spareCount }
    }
    _ = queue.core.reference?.claimTidyUp()  // the test does it
    #expect(endOne() == 1)
    #expect(endOne() == 1)
    queue.core.reference?.tidyUp()
    let kept = queue.core.read { $0.departures.spareCount }
    #expect(kept == 0)
  }

  /// One that was suspended, and one that has ended, leave nothing of that to the next.
  @Test func whatOthersHaveLeftIsAsNew() {
    let (owner, other) = (Owner(), Owner())
    let ownerQueue = OwnerQueue(lifetime: owner.lifetime, home: owner.lifetime, listener: nil, isSuspended: true)
    ownerQueue.hasEnded = true
    ownerQueue.isHeldBack = true
    ownerQueue.isRemoved = true
    ownerQueue.cancelledUpTo = 7
    let flow = ownerQueue.makeFlow(at: 2)
    let withTickets = ownerQueue.makeFlow(at: 3)
    withTickets.voidTickets = 1
    _ = ownerQueue.makeFlow(of: LineKey())
    ownerQueue.becomeSpare()
    ownerQueue.dropFlowsInUse()
    ownerQueue.begin(for: other.lifetime, home: other.lifetime, isSuspended: false)
    #expect(ownerQueue.lifetime === other.lifetime)
    #expect(ownerQueue.unretainedLifetime?.address == ownerQueue.unretainedHome.address)
    #expect(!ownerQueue.isSuspended && !ownerQueue.hasEnded && !ownerQueue.isHeldBack && !ownerQueue.isRemoved)
    #expect(ownerQueue.cancelledUpTo == 0)
    #expect(!ownerQueue.hasLines)
    #expect(ownerQueue.makeFlow(at: 2) !== withTickets)
    #expect(ownerQueue.makeFlow(at: 3) !== withTickets)  // which the run queue would meet
    #expect(flow.unretainedOwnerQueue.address == Borrowed(ownerQueue).address)
  }

  /// What somebody still holds, who is about to tell it of an end, say, and what keeps a lifetime from ending is no other owner's.
  @Test func whatIsStillInUseIsLeftToNobody() {
    let (owner, dropped) = (Owner(), OwnerLifetime())
    let held = ownerQueue(of: owner.lifetime)
    var departed = [held, ownerQueue(of: owner.lifetime), ownerQueue(of: dropped)]
    #expect(departed.allSatisfy { $0.lifetime?.join($0) ?? false })
    var departing: [OwnerQueue] = []
    swap(&departed, &departing)
    let spares = OwnerQueueDepartures.complete(consume departing)
    #expect(spares.count == 1)
    #expect(spares.allSatisfy { $0 !== held && $0.lifetime == nil })
    #expect(owner.lifetime.memberCount == 0)
    #expect(dropped.memberCount == 0)
  }

  @Test func aQueueThatIsUsedNowAndThenForgetsOwnersThatHadNoWork() {
    let queue = makeQueue()
    let owners = (0..<50).map { _ in Owner() }  // too few for a sweep
    for _ in 0..<2 {
      for owner in owners { queue.async(owner: owner) { _ in } }
      #expect(queue.becomesIdle())
      #expect(eventually { queue.snapshot.activeWorkers == 0 })
      _ = queue.core.tidyUpSparingly()
    }
    for expected in [50, 1, 1] {
      #expect(queue.becomesIdle())
      #expect(eventually { queue.snapshot.activeWorkers == 0 })
      #expect(queue.core.tidyUpRest())
      #expect(queue.snapshot.ownerQueues == expected)
      queue.async(owner: owners[5]) { _ in }
    }
    #expect(queue.becomesIdle())
    withExtendedLifetime(owners) {}
  }

  @Test func aQueueThatGoesLeavesAllLifetimes() {
    let owners = (0..<1_000).map { _ in Owner() }
    do {
      let queue = OwnerScopedQueue()
      for owner in owners { queue.async(owner: owner) { _ in } }
      #expect(queue.becomesIdle())
    }
    #expect(eventually { owners.allSatisfy { $0.lifetime.memberCount == 0 } })
  }

  @Test func whoIsOnlyDroppedEndsThoughOthersAreKept() {
    let queue = OwnerScopedQueue()
    _ = queue.core.reference?.claimRest()  // it may come in the midst
    let (owner, ended) = (Owner(), Counter())
    for _ in 0..<2 {
      queue.async(owner: owner) { _ in }
      #expect(queue.becomesIdle())
      #expect(eventually { queue.snapshot.activeWorkers == 0 })
      _ = queue.core.tidyUpSparingly()
    }
    #expect(queue.snapshot.ownerQueues == 1)  // it came back
    do {
      let lifetime = OwnerLifetime()
      lifetime.onEnd { _ in ended.add() }
      queue.async(lifetime: lifetime) {}
    }
    #expect(eventually { ended.value == 1 })
    #expect(queue.snapshot.ownerQueues == 1)
    withExtendedLifetime(owner) {}
  }

  @Test func whatIsKnownOfAnOwnerGoesWithItThoughTheQueueRests() {
    let queue = OwnerScopedQueue()
    var owner: Owner? = Owner()
    weak let lifetime = owner?.lifetime
    if let owner { queue.async(owner: owner) { _ in } }
    #expect(queue.becomesIdle())
    owner = nil
    #expect(eventually { queue.snapshot.ownerQueues == 0 && lifetime == nil })
  }

  // MARK: The place of the first

  @Test func thePlaceIsTheFirstClaimantsUntilItIsGivenUp() {
    let place = ClaimedPlace()
    let (first, second) = (Counter(), Counter())
    let (object, other) = (Counter(), Counter())
    #expect(place.value(of: first, Counter.self) == nil)
    _ = place.claim(for: first, object)
    _ = place.claim(for: second, other)
    _ = place.claim(for: first, other)
    #expect(place.value(of: first, Counter.self)?.address == Borrowed(object).address)
    #expect(place.value(of: second, Counter.self) == nil)
    place.setCold(true)
    place.prefetch()
    #expect(place.value(of: first, Counter.self)?.address == Borrowed(object).address)
    place.giveUp(by: second, other)
    place.giveUp(by: first, other)
    #expect(place.value(of: first, Counter.self)?.address == Borrowed(object).address)
    place.giveUp(by: first, object)
    #expect(place.value(of: first, Counter.self) == nil)
    _ = place.claim(for: second, other)
    #expect(place.value(of: second, Counter.self)?.address == Borrowed(other).address)
    let wasLeft = place.isLeft
    place.giveUp(by: second, other)
    let isLeft = place.isLeft
    #expect(!wasLeft && isLeft)
  }

  /// A hold is an object's, and both lifetimes have the same.
  @Test func twoLifetimesOfOneObjectAreKeptApart() {
    let queue = makeQueue()
    queue.isSuspended = true
    let (owner, further) = (Owner(), OwnerLifetime())
    #expect(owner.lifetime.bind(owner) && further.bind(owner))
    let ran = Counter()
    for number in 0..<4 {
      let lifetime = number % 2 == 0 ? owner.lifetime : further
      queue.async(lifetime: lifetime) { ran.add(number % 2 == 0 ? 1 : 100) }
    }
    #expect(queue.snapshot(of: owner.lifetime)?.items == 2)
    #expect(queue.snapshot(of: further)?.items == 2)
    further.end()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(ran.value == 2)
    #expect(eventually { queue.snapshot.ownerQueues == 1 })
    queue.async(lifetime: owner.lifetime) { ran.add() }
    #expect(queue.becomesIdle())
    #expect(ran.value == 3)
  }

  /// Each phase has an owner queue of the owner; the place is the first's.
  @Test func workIsFoundAgainAcrossBarriers() {
    let queue = OwnerScopedQueue()
    let (owner, other) = (Owner(), Owner())
    let order = Journal<Int>()
    for number in 0..<50 {
      queue.async(owner: owner) { _ in order.write(number) }
      queue.async(owner: other) { _ in }
      if number % 7 == 6 { queue.addBarrier(owner: owner) { _ in } }
      if number == 25 { #expect(queue.becomesIdle()) }
    }
    #expect(queue.becomesIdle())
    #expect(order.entries.sorted() == Array(0..<50))
    owner.lifetime.end()
    queue.async(owner: owner) { _ in order.write(50) }
    #expect(queue.becomesIdle())
    #expect(order.entries.count == 50)
    withExtendedLifetime((owner, other)) {}
  }

  /// Of an object that is gone, and a queue, whose addresses others may have by now.
  @Test func queuesThatComeAndGoLeaveThePlaceToOthers() {
    let (owner, ran) = (Owner(), Counter())
    for _ in 0..<200 {
      let queue = OwnerScopedQueue()
      queue.async(owner: owner) { _ in ran.add() }
      #expect(queue.becomesIdle())
    }
    #expect(ran.value == 200)
  }
}
