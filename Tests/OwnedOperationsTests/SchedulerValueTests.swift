import Foundation
import Testing

@testable import OwnedOperations

/// The scheduler by itself, on one thread, with workers that have none and a clock that the test sets: each decision is what a change
/// returns.
@Suite struct SchedulerValueTests {
  // MARK: Adding and taking

  @Test func aJobForAnIdleQueueIsInTheHandsOfTheWorkerThatIsSentFor() {
    let queue = ScheduledQueue()
    let worker = queue.add("first")
    #expect(
      queue.text == "1 unfinished; 1 permits; 1 workers; 1 on their way\n  1 unfinished, 1 executing\n"
        + "    no owner: 1 unfinished, 1 executing")
    #expect(worker?.begin() == "first")
    worker?.end()
    #expect(queue.look(worker, after: .items) == .leaves(isLast: true))
    #expect(queue.text == "0 unfinished; 0 permits\n  0 unfinished, 0 executing")
  }

  @Test func whatIsAddedNextTakesTheHandedJobBackAndSendsForNobodyElse() {
    let queue = ScheduledQueue()
    let worker = queue.add("first")
    #expect(queue.add("second") == nil)
    #expect(
      queue.text == "2 unfinished; 0 permits; 1 workers; 1 on their way\n  2 unfinished, 0 executing, ready: 2, of normal\n"
        + "    no owner: 2 unfinished, 0 executing")
    #expect(worker?.begin() == nil)
    #expect(queue.look(worker) == .runs)
    #expect(worker?.begin() == "first")
  }

  /// Only jobs of the same owner, and not many, are overtaken by what its jobs add.
  @Test(arguments: [2, 500, 600]) func aListIsDeepWhereNobodyElseIsReady(count: Int) {
    func isDeep(limit: Int = .max, besides: OwnerLifetime? = nil) -> Bool? {
      let owner = OwnerLifetime()
      let queue = ScheduledQueue()
      queue.scheduler.itemTime = 100
      queue.change { scheduler, _ in
        scheduler.setLimit(limit, asSet: limit)
        scheduler.setSuspended(true)
      }
      for number in 0..<count { queue.add("\(number)", of: number == 1 ? besides ?? owner : owner) }
      let worker = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
      #expect(queue.look(worker) == .runs)
      defer { _ = queue.drain(worker) }
      guard let nested = worker?.batch.nested, nested.isOpen else { return nil }
      return nested.isDeep
    }
    #expect(isDeep() == (count <= 512))
    #expect(isDeep(besides: OwnerLifetime()) == false)
    #expect(isDeep(limit: 1) == false)
    #expect(isDeep(limit: 2) == nil)
  }

  /// Few are ready while each leads to many: what its worker has run because of it counts.
  @Test func aJobThatLeadsToManyIsWorthAnotherWorker() {
    let owner = OwnerLifetime()
    let queue = ScheduledQueue()
    queue.scheduler.itemTime = 100
    queue.change { scheduler, _ in scheduler.setSuspended(true) }
    for number in 0..<100 { queue.add("\(number)", of: owner) }
    let worker = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    func run(leadingTo jobs: UInt64) {
      while worker?.begin() != nil { worker?.end() }
      worker?.lastItemTime = 100
      worker?.lastFamilySize = jobs
      #expect(queue.look(worker, after: .items) == .runs)
    }
    #expect(queue.look(worker) == .runs)
    run(leadingTo: 1)
    #expect(queue.sent.count == 1)
    run(leadingTo: 2000)
    #expect(queue.sent.count == 2)
    queue.scheduler.itemTime = Scheduler.unknownTime
    run(leadingTo: .max / 8)  // no sum is too large
    while queue.scheduler.familySize > 1 { queue.scheduler.measuredFamily(1) }
    _ = queue.drain(worker)
  }

  /// What a worker has kept in a deep list stays with it while others have enough to do.
  @Test func aWorkerLeavesToOthersWhatTheyHaveKept() {
    let owner = OwnerLifetime()
    let queue = ScheduledQueue(processors: 2)
    queue.scheduler.itemTime = 10_000
    queue.change { scheduler, _ in scheduler.setSuspended(true) }
    for number in 1...4 { queue.add("\(number)", of: owner) }
    let first = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    #expect(queue.look(first) == .runs)
    let second = queue.sent.last
    guard let first, let second, first !== second else { return #expect(Bool(false), "no second worker was sent for") }
    #expect(queue.look(second) == .runs)
    func leaves() -> Bool { queue.scheduler.leavesNestedWork(toOthersThan: second) }
    #expect(first.begin() != nil)
    #expect(leaves())
    guard let place = first.batch.nested.makePlace() else { return #expect(Bool(false), "nothing is kept") }
    place.initialize(to: .block {})
    #expect(first.batch.nested.add())
    #expect(leaves())  // two are ready
    queue.add("low", .low, of: owner)
    while second.begin() != nil { second.end() }
    #expect(queue.look(second, after: .items) == .runs)
    while second.begin() != nil { second.end() }
    #expect(queue.look(second, after: .items) == .runs)
    #expect(!leaves())  // what is ready is less urgent
    queue.change { scheduler, _ in scheduler.takeInNestedWork() }
    #expect(leaves())  // and nothing is kept
    _ = queue.drain(second)
  }

  @Test func priorityComesFirstThenOrder() {
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setSuspended(true) }
    queue.add("low", .low)
    queue.add("first")
    queue.add("second")
    queue.add("high", .high)
    #expect(queue.text.hasPrefix("4 unfinished; 0 permits; suspended\n  4 unfinished, 0 executing, ready: 4, of high, normal, low"))
    let worker = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    #expect(queue.drain(worker) == ["high", "first", "second", "low"])
  }

  @Test func ownersTakeTurnsAndNoneIsAboveItsLimit() {
    let (one, other) = (OwnerLifetime(name: "one"), OwnerLifetime(name: "other"))
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in
      scheduler.setSuspended(true)
      scheduler.setFairness(.roundRobin)
      scheduler.setOwnerLimit(1, asSet: 1)
    }
    for number in 1...3 { queue.add("one \(number)", of: one) }
    queue.add("other 1", of: other)
    let first = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    #expect(queue.look(first) == .runs)
    #expect(first?.begin() == "one 1")
    // Its second has to wait for the first; the other's need not.
    let second = queue.sent.last
    #expect(queue.sent.count == 2)
    #expect(queue.look(second) == .runs)
    #expect(second?.begin() == "other 1")
    #expect(queue.text.contains("\n    \"one\": 3 unfinished, 1 executing, at its limit"))
    #expect(queue.text.contains("\n    \"other\": 1 unfinished, 1 executing, at its limit"))
    second?.end()
    #expect(queue.look(second, after: .items) == .leaves(isLast: false))
    first?.end()
    #expect(queue.drain(first, after: .items) == ["one 2", "one 3"])
  }

  // MARK: Limits and processors

  @Test func aWorkerIsSentForWhenTheLimitIsRaised() {
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setLimit(1, asSet: 1) }
    let first = queue.add("first")
    #expect(first?.begin() == "first")
    #expect(queue.add("second") == nil)
    #expect(queue.text.hasPrefix("2 unfinished; 1 of 1 permits; 1 workers\n"))
    let second = queue.change { scheduler, _ in scheduler.setLimit(2, asSet: 2) }.worker
    #expect(queue.look(second) == .runs)
    #expect(second?.begin() == "second")
  }

  @Test func aWorkerThatUsesNoProcessorMakesRoomForAnother() {
    let queue = ScheduledQueue(processors: 1)
    let first = queue.add("first")
    #expect(first?.begin() == "first")
    let outcome = queue.addWithOutcome("second")
    #expect(outcome.worker == nil)
    #expect(outcome.asksForMonitor)
    // It has computed since it was seen first; then no more.
    first?.usedTime = 1_000_000
    #expect(queue.lookAtWorkers().worker == nil)
    #expect(queue.text.hasPrefix("2 unfinished; 1 permits; 1 workers\n"))
    let look = queue.lookAtWorkers()
    #expect(look.asksForMonitor)
    #expect(queue.text.hasPrefix("2 unfinished; 1 permits; 2 workers; 1 on their way; 1 blocked\n"))
    #expect(queue.drain(look.worker) == ["second"])
  }

  @Test func oneWorkerMoreComesWhenNothingHasFinishedForAHundredMilliseconds() {
    let queue = ScheduledQueue(processors: 1)
    let first = queue.add("first")
    #expect(first?.begin() == "first")
    #expect(queue.add("second") == nil)
    var looks = 0
    var second: ScheduledQueue.Worker?
    while second == nil, looks < 1_000 {
      looks += 1
      first?.usedTime += 2_000_000  // it computes
      second = queue.lookAtWorkers().worker
    }
    // The first look sees that it has begun.
    #expect(looks == 51)
    #expect(queue.drain(second) == ["second"])
  }

  // MARK: Settings

  /// To let go of workers takes long, and the queue that they ran on may be the user's: that is for whoever sets something, when the lock
  /// is free.
  @Test func whatASettingReplacesIsHandedToWhoSetsIt() {
    let queue = ScheduledQueue()
    var worker = queue.add("first")
    #expect(queue.drain(worker) == ["first"])
    weak let former = worker
    worker = nil
    queue.forgetSent()
    var replaced: Scheduler.Replaced?
    queue.change { scheduler, _ in replaced = scheduler.setQualityOfService(.utility) }
    #expect(former != nil)
    withExtendedLifetime(replaced) {}
    replaced = nil
    #expect(former == nil)
  }

  @Test func anUnderlyingQueueIsSetOnlyIfThereIsNoWork() {
    let queue = ScheduledQueue()
    let underlying = DispatchQueue(label: "underlying")
    var isSet = false
    queue.change { scheduler, _ in scheduler.setSuspended(true) }
    queue.add("first")
    queue.change { scheduler, _ in isSet = scheduler.setUnderlyingQueue(underlying) != nil }
    #expect(!isSet && queue.scheduler.underlyingQueue == nil)
    let worker = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    #expect(queue.drain(worker) == ["first"])
    queue.change { scheduler, _ in isSet = scheduler.setUnderlyingQueue(underlying) != nil }
    #expect(isSet && queue.scheduler.underlyingQueue === underlying)
  }

  // MARK: Owners

  @Test func nothingOfASuspendedOwnerIsTakenUntilItIsResumed() {
    let owner = OwnerLifetime(name: "owner")
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setSuspended(true, owner) }
    #expect(queue.add("suspended", of: owner) == nil)
    #expect(queue.text == "1 unfinished; 0 permits\n  1 unfinished, 0 executing\n    \"owner\": 1 unfinished, 0 executing, suspended")
    #expect(queue.drain(queue.add("other")) == ["other"])
    let worker = queue.change { scheduler, _ in scheduler.setSuspended(false, owner) }.worker
    #expect(queue.drain(worker) == ["suspended"])
  }

  @Test func whatIsPendingWhenItsOwnerEndsIsTakenOutAndWhatComesThenRefused() throws {
    let owner = OwnerLifetime(name: "owner")
    let queue = ScheduledQueue(processors: 1)
    let worker = queue.add("begun", of: owner)
    #expect(worker?.begin() == "begun")
    for number in 0..<5 { queue.add("pending \(number)", of: owner) }
    let ownerQueue = try #require(queue.ownerQueue(of: owner))
    var ended: Scheduler.Ended?
    queue.change { scheduler, _ in ended = scheduler.ownersDidEnd([ownerQueue]) }
    #expect(ended?.little.count == 0)
    #expect(ended?.much.count == 1)
    #expect(ended?.much.first?.1.reduce(0) { $0 + $1.jobCount } == 5)
    #expect(queue.text.contains("\"owner\": 6 unfinished, 1 executing, ended"))
    queue.change { scheduler, _ in scheduler.countCancelled(5, of: ownerQueue, forEndedOwner: true) }
    #expect(queue.isRefused("late", of: owner))
    worker?.end()
    #expect(queue.look(worker, after: .items) == .looksAgain)  // the owner queue is to leave its lifetime
    #expect(queue.look(worker) == .leaves(isLast: true))
    #expect(queue.text == "0 unfinished; 0 permits\n  0 unfinished, 0 executing")
    #expect(queue.scheduler.statistics.skippedForEndedOwners == 5)
    #expect(queue.departed == 1)
  }

  /// One look at many ends: what is little is counted in it, and what is reclaimed from a worker comes along.
  @Test func ownersThatEndTogetherAreToldInOneHold() throws {
    let owners = (0..<3).map { OwnerLifetime(name: "owner \($0)") }
    let bystander = OwnerLifetime(name: "bystander")
    let queue = ScheduledQueue(processors: 1)
    let worker = queue.add("begun", of: bystander)
    #expect(worker?.begin() == "begun")
    for owner in owners { for level in [1, 2] { queue.add("\(owner) \(level)", of: owner) } }
    queue.add("left", of: bystander)
    let removed = OwnerQueue(lifetime: nil, home: owners[0], listener: nil, isSuspended: false)
    removed.isRemoved = true
    let known = try owners.map { try #require(queue.ownerQueue(of: $0)) }
    var ended: Scheduler.Ended?
    queue.change { scheduler, _ in ended = scheduler.ownersDidEnd(known + [removed]) }
    #expect(ended?.little.count == 6)
    #expect(ended?.much.isEmpty ?? false)
    #expect(queue.scheduler.statistics.skippedForEndedOwners == 6)
    #expect(queue.text.hasPrefix("2 unfinished"))
    #expect(queue.departed == 3)
    worker?.end()
    #expect(queue.drain(worker, after: .items) == ["left"])
  }

  // MARK: Waits

  @Test func aWaitForAnOwnerEndsWithTheLastOfItsWork() {
    let owner = OwnerLifetime(name: "owner")
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setSuspended(true) }
    queue.add("owner's", of: owner)
    queue.add("other")
    let thread = WaitingThread()
    #expect(queue.change { scheduler, _ in scheduler.insert(.thread(thread), for: owner, inside: nil) }.waiters == 0)
    let worker = queue.change { scheduler, _ in scheduler.setSuspended(false) }.worker
    #expect(queue.look(worker) == .runs)
    #expect(worker?.begin() == "owner's")
    worker?.end()
    #expect(queue.look(worker, after: .items) == .runs)
    #expect(queue.resumed == 1)
    #expect(worker?.begin() == "other")
  }

  @Test func aBodyThatWaitsForWorkOfTheQueueGivesItsPermitAwayAndWaitsForOneToGoOn() throws {
    let queue = ScheduledQueue()
    queue.change { scheduler, _ in scheduler.setLimit(1, asSet: 1) }
    let first = try #require(queue.add("waits"))
    #expect(first.begin() == "waits")
    queue.add("awaited")
    let second = try #require(
      queue.change { scheduler, _ in
        scheduler.beginWait(of: first)
        scheduler.yield(first.permit, bodyOf: first.currentOwnerQueue)
      }.worker)
    #expect(queue.look(second) == .runs)
    #expect(second.begin() == "awaited")
    #expect(queue.text.hasPrefix("2 unfinished; 1 of 1 permits; 2 workers; 1 wait; 1 yielded\n"))
    var returning: WaitingThread?
    #expect(queue.change { scheduler, _ in returning = scheduler.endWait(of: first) }.admitted == 0)
    #expect(returning != nil)
    // Who returns comes before new work.
    #expect(queue.add("new") == nil)
    second.end()
    #expect(queue.look(second, after: .items) == .leaves(isLast: false))
    #expect(queue.admitted == 1)
    #expect(queue.text.hasPrefix("2 unfinished; 1 of 1 permits; 1 workers\n"))
    first.end()
    #expect(queue.drain(first, after: .items) == ["new"])
  }

  // MARK: Time

  @Test func whoIsWatchedIsAskedAfterFiftyMillisecondsAndAfterASecondWhenNothingHasChangedForAMinute() {
    let queue = ScheduledQueue()
    let (host, operation) = (OperationSchedulerTests.Scheduler(), OwnedOperation(lifetime: .forTests))
    let before = OwnedOperation(lifetime: .forTests)
    operation.addDependency(before)
    let start: UInt64 = 1_000
    let outcome = queue.change { scheduler, followUp in
      #expect(scheduler.add([operation], to: host, now: start, &followUp) == nil)
      scheduler.watch([operation], now: start, &followUp)
    }
    #expect(outcome.questionDeadline == start + 50_000_000)
    let second: UInt64 = 1_000_000_000
    #expect(queue.scheduler.watched.endRound(begunAt: start + 60 * second, now: start + 60 * second) == 50_000_000)
    #expect(queue.scheduler.watched.endRound(begunAt: start + 61 * second, now: start + 61 * second) == second)
    // In a hurry, but not more than once in a millisecond.
    let hurried = queue.change { scheduler, followUp in scheduler.hurry(operation, now: start + 61 * second, &followUp) }
    #expect(hurried.questionDeadline == start + 61 * second + 1_000_000)
    #expect(queue.scheduler.watched.endRound(begunAt: start + 62 * second, now: start + 62 * second) == 50_000_000)
    queue.change { scheduler, _ in
      if let place = scheduler.operations.place(of: operation) { scheduler.unwatch(place) }
      scheduler.withdraw(operation)
    }
  }

  // MARK: Progress

  @Test func theProgressIsToldWhenTheLockIsFreeIfItMayHaveObservers() {
    for hasObservers in [false, true] {
      let queue = ScheduledQueue()
      let progress = Progress(parent: nil, userInfo: nil)
      progress.totalUnitCount = 2
      queue.scheduler.progress = QueueProgress(progress)
      queue.scheduler.tellsProgressLater = hasObservers
      let worker = queue.add("reported")
      #expect(worker?.begin() == "reported")
      worker?.end()
      #expect(queue.look(worker, after: .items) == (hasObservers ? .looksAgain : .leaves(isLast: true)))
      #expect(progress.completedUnitCount == (hasObservers ? 0 : 1))
      #expect((queue.dueProgress != nil) == hasObservers)
      queue.dueProgress?.tell()
      #expect(progress.completedUnitCount == 1)
      if hasObservers { #expect(queue.look(worker) == .leaves(isLast: true)) }
    }
  }

  /// Observers of the progress are the user's: they may use the queue, and block.
  @Test func anObserverOfTheProgressMayWaitForTheQueue() {
    let queue = OwnerScopedQueue()
    let calls = Counter()
    // It may be told the last count once more, after the test.
    let progress = ObservedProgress { [weak queue] in
      queue?.waitUntilAllOperationsAreFinished()
      calls.add()
    }
    progress.totalUnitCount = 3
    queue.core.note { scheduler in
      scheduler.progress = QueueProgress(progress)
      scheduler.tellsProgressLater = true
    }
    for _ in 0..<3 { queue.async(lifetime: .forTests) {} }
    #expect(queue.becomesIdle())
    #expect(eventually { progress.completedUnitCount == 3 })
    DeferredCalls.waitUntilIdle()
    #expect(calls.value > 0)
  }

  /// Two tell it at once, because an observer blocks, and the one that began with the older count ends last.
  @Test func theNewestCountIsToldLast() {
    let gate = Gate()
    let isFirst = Counter()
    let progress = ObservedProgress {
      isFirst.add()
      if isFirst.value == 1 { gate.pass() }
    }
    let told = QueueProgress(progress)
    told.add(1)
    let first = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      told.tell()
      first.signal()
    }
    #expect(gate.hasBegun())
    told.add(1)
    #expect(told.claimTelling() && !told.claimTelling())
    told.tell()
    #expect(told.claimTelling())
    gate.open()
    #expect(first.waitUntilSignalled())
    #expect(progress.completedUnitCount == 2)
  }

  private final class ObservedProgress: Progress, @unchecked Sendable {  // as its base, with a constant
    private let observer: @Sendable () -> Void

    init(_ observer: @escaping @Sendable () -> Void) {
      self.observer = observer
      super.init(parent: nil, userInfo: nil)
    }

    override var completedUnitCount: Int64 {
      willSet { observer() }
    }
  }
}
