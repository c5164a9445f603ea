import Foundation
import Testing

@testable import OwnedOperations

/// Jobs that jobs add to their own queue. What may happen between threads is explored by NestedWorkModelTests.
@Suite struct NestedWorkTests {
  // MARK: The list by itself

  /// What a list has to hold: groups of numbered items, each with its position. Those around the innermost come first.
  private struct Expected {
    var groups: [[(number: Int, position: Int)]] = []
    var end = 0
    var (isOpen, isDeep, beginsGroup) = (false, false, false)

    var all: [Int] { groups.flatMap { $0.map(\.number) } }
    var hasRoom: Bool { end - (groups.first?.first?.position ?? end) < NestedWork.capacity }

    mutating func add(_ number: Int) {
      if groups.isEmpty || beginsGroup { groups.append([]) }
      groups[groups.count - 1].append((number, end))
      end += 1
      beginsGroup = false
    }

    mutating func begin() -> Int? {
      guard isOpen, !groups.isEmpty else { return nil }
      let number = groups[groups.count - 1].removeFirst().number
      if groups[groups.count - 1].isEmpty {
        groups.removeLast()
        if let position = groups.last?.last?.position { end = position + 1 }
      }
      beginsGroup = isDeep
      return number
    }

    mutating func takeIn(opensAgain: Bool) {
      isOpen = isOpen && opensAgain && groups.isEmpty
      (groups, isDeep) = ([], false)
    }
  }

  /// Steps chosen at random, next to arrays. Each item says which it is when it is called.
  @Test(arguments: 1...40) func aListHoldsWhatWasAddedAndNothingElse(seed: UInt64) {
    var generator = SplitMix(state: seed)
    let ownerQueue = OwnerQueue(lifetime: nil, home: Counter(), listener: nil, isSuspended: false)
    let (list, flow) = (NestedWork(), Flow(ownerQueue: ownerQueue))
    // The list has borrowed them.
    defer { withExtendedLifetime((ownerQueue, flow)) {} }
    let called = Locked<[Int]>([])
    var (added, uncounted, most, deepest) = (0, 0, 0, 0)
    var expected = Expected()
    func call(_ work: WorkItem) -> Int? {
      guard case .block(let body) = work else { return nil }
      body()
      return called.withLock { $0.last }
    }
    for _ in 0..<2000 {
      switch Int.random(in: 0..<30, using: &generator) {
      case 0, 1:
        if expected.isOpen { continue }
        most = Int.random(in: 2...NestedWork.capacity + 1, using: &generator)
        let isDeep = Bool.random(using: &generator)
        list.open(for: Borrowed(flow), most: most, isDeep: isDeep, isMonitored: false)
        (expected.isOpen, expected.isDeep, expected.beginsGroup) = (true, isDeep, false)
      case 2:
        let opensAgain = Bool.random(using: &generator)
        var taken: [Int?] = []
        list.takeIn(opensAgain: opensAgain) { count, _ in
          #expect(count == uncounted)
          uncounted = 0
        } _: { items, count, _ in
          for index in 0..<count { taken.append(call((items + index).move())) }
        }
        #expect(taken == expected.all)
        #expect(uncounted == 0)
        expected.takeIn(opensAgain: opensAgain)
      case 3..<14:
        let work = list.begin()
        #expect(work.flatMap(call) == expected.begin())
      default:
        let place = list.makePlace()
        #expect((place != nil) == (expected.isOpen && expected.all.count < min(most, NestedWork.capacity) && expected.hasRoom))
        guard let place else { continue }
        let number = added
        place.initialize(to: .block { called.withLock { $0.append(number) } })
        #expect(list.add())
        expected.add(number)
        (added, uncounted) = (added + 1, uncounted + 1)
      }
      deepest = max(deepest, expected.groups.count)
      #expect(list.isOpen == expected.isOpen)
      #expect(list.isDeep == expected.isDeep)
      #expect(list.isEmpty == expected.groups.isEmpty)
      #expect(list.hasNews == (uncounted > 0 || !expected.groups.isEmpty))
    }
    list.takeIn(opensAgain: false) { _, _ in
    } _: { items, count, _ in
      items.deinitialize(count: count)
    }
    #expect(added > 200)
    #expect(deepest > 3)
  }

  /// The order in which jobs would begin that called those that they add.
  @Test func aDeepListIsInTheOrderOfCalls() {
    let ownerQueue = OwnerQueue(lifetime: nil, home: Counter(), listener: nil, isSuspended: false)
    // All of it on this thread.
    nonisolated(unsafe) let list = NestedWork()
    let flow = Flow(ownerQueue: ownerQueue)
    defer { withExtendedLifetime((ownerQueue, flow)) {} }
    let order = Locked<[String]>([])
    @Sendable func add(_ name: String) {
      let place = list.makePlace()
      #expect(place != nil, "no room for \(name)")
      place?.initialize(
        to: .block {
          order.withLock { $0.append(name) }
          if name.count < 5 { for child in ["a", "b", "c"] { add(name + child) } }
        })
      #expect(list.add())
    }
    func called(_ name: String) -> [String] { [name] + (name.count < 5 ? ["a", "b", "c"].flatMap { called(name + $0) } : []) }
    list.open(for: Borrowed(flow), most: NestedWork.capacity, isDeep: true, isMonitored: false)
    for name in ["1", "2"] { add(name) }
    while let work = list.begin() { if case .block(let body) = work { body() } }
    #expect(order.withLock { $0 } == called("1") + called("2"))
    list.takeIn(opensAgain: false) { count, _ in
      #expect(count == 242)
    } _: { _, _, _ in
    }
  }

  @Test func aListKeepsWorkOfOneOwnerOnly() {
    let (list, owner, other) = (NestedWork(), OwnerLifetime(), OwnerLifetime())
    let ownerQueue = OwnerQueue(lifetime: owner, home: Counter(), listener: nil, isSuspended: false)
    let flow = Flow(ownerQueue: ownerQueue)
    #expect(!list.keepsWork(of: Borrowed(owner)))
    list.open(for: Borrowed(flow), most: 2, isDeep: false, isMonitored: false)
    #expect(list.keepsWork(of: Borrowed(owner)))
    #expect(!list.keepsWork(of: Borrowed(other)))
    withExtendedLifetime((owner, other, ownerQueue, flow)) {}
  }

  /// So that whoever has closed the list, and finds the item over, knows that nothing is under way.
  @Test func anItemIsNotOverWhileANestedJobIsTakenInHand() {
    let batch = WorkBatch()
    let ownerQueue = OwnerQueue(lifetime: nil, home: Counter(), listener: nil, isSuspended: false)
    let flow = ownerQueue.makeFlow(at: PriorityLevel.of(.normal))
    defer { withExtendedLifetime((ownerQueue, flow)) {} }
    batch.fill(.block {}, of: Borrowed(flow), age: 1)
    batch.publish(level: PriorityLevel.of(.normal))
    _ = batch.begin()
    batch.setBegun()
    batch.setOver(.succeeded, at: 0)
    #expect(batch.isCurrentOver && batch.mayGoOn(with: Borrowed(flow)))

    var succeeded: [Int] = []
    func settle(includingCurrent: Bool) {
      batch.settle(includingCurrent: includingCurrent) { _, tally in succeeded.append(tally.succeeded + tally.nodes) }
    }
    batch.goOn(nestedOver: 0)
    #expect(!batch.isCurrentOver)
    settle(includingCurrent: false)
    #expect(succeeded == [1])  // the job itself, once
    #expect(!batch.isRunning)
    batch.setNestedBegun(over: 0)
    settle(includingCurrent: false)
    #expect(succeeded == [1] && batch.isRunning)
    batch.setNestedOver(1)
    #expect(batch.isCurrentOver)
    settle(includingCurrent: false)
    #expect(succeeded == [1, 1])
    batch.goOn(nestedOver: 1)
    batch.setNestedBegun(over: 1)
    batch.setNestedOver(2)
    settle(includingCurrent: true)
    #expect(succeeded == [1, 1, 1])
    batch.empty()
  }

  // MARK: In a queue

  @Test func aSerialQueueRunsWhatItsJobsAddInOrder() {
    // A worker that stands still for milliseconds keeps nothing.
    #expect((0..<100).contains { _ in keptAnyInOrder() }, "nothing was kept")
  }

  private func keptAnyInOrder() -> Bool {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let order = Locked<[Int]>([])
    let kept = Counter()
    queue.async(owner: owner) { owner in
      for number in 0..<300 {
        queue.async(owner: owner) { _ in order.withLock { $0.append(number) } }
        if let worker = Worker.current, !worker.batch.nested.isEmpty { kept.add() }
      }
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(order.withLock { $0 } == Array(0..<300))
    let counts = queue.statistics
    #expect(counts.enqueued == 301 && counts.succeeded == 301 && counts.pending == 0 && counts.executing == 0)
    return kept.value > 0
  }

  /// It goes to a worker that is made as the queue says now.
  @Test func whatIsAddedAfterASettingIsNotKept() {
    #expect((0..<100).contains { _ in wasKeptBeforeASetting() }, "nothing was kept")
  }

  private func wasKeptBeforeASetting() -> Bool {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let generations = Locked<[Int?]>([])
    let kept = Counter()
    let ran = DispatchSemaphore(value: 0)
    let note: @Sendable () -> Void = { generations.withLock { $0.append(Worker.current.map { Int($0.generation) }) } }
    queue.async(owner: owner) { owner in
      queue.async(owner: owner) { _ in note() }
      if let worker = Worker.current, !worker.batch.nested.isEmpty { kept.add() }
      note()
      queue.qualityOfService = .background
      queue.async(owner: owner) { _ in
        note()
        ran.signal()
      }
    }
    #expect(ran.waitUntilSignalled())  // a wait for the queue would take in what is kept
    #expect(queue.becomesIdle())
    let seen = generations.withLock { $0.compactMap { $0 } }
    #expect(seen.count == 3 && seen[0] < seen[2], "\(seen)")
    return kept.value == 1
  }

  /// What has been taken in is not overtaken by what is kept after it, though no worker is told of it.
  @Test func aLookAtTheQueueDoesNotChangeTheOrder() {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let order = Locked<[Int]>([])
    let ran = DispatchSemaphore(value: 0)
    queue.async(owner: owner) { owner in
      for number in 0..<3 {
        queue.async(owner: owner) { _ in
          order.withLock { $0.append(number) }
          ran.signal()
        }
        _ = queue.ownerFairness
      }
    }
    // Not by a wait for the queue, which would tell the worker.
    for _ in 0..<3 { ran.wait() }
    #expect(order.withLock { $0 } == [0, 1, 2])
  }

  /// A deinit of what a job captured is no body: it may wait for what the job has added, on a serial queue too.
  @Test func aDeinitWaitsForWhatItsJobHasAdded() {
    final class Waiting: Sendable {
      let hasRun = DispatchSemaphore(value: 0)
      let isOver: DispatchSemaphore
      init(_ isOver: DispatchSemaphore) { self.isOver = isOver }
      deinit {
        hasRun.wait()
        isOver.signal()
      }
    }
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerLifetime())
    let isOver = DispatchSemaphore(value: 0)
    queue.isSuspended = true
    // In a function of its own, so that the job alone holds what it captures.
    func add() {
      let captured = Waiting(isOver)
      let hasRun = captured.hasRun
      queue.async(lifetime: owner) {
        withExtendedLifetime(captured) {}
        queue.async(lifetime: owner) { hasRun.signal() }
      }
    }
    add()
    queue.isSuspended = false
    #expect(isOver.waitUntilSignalled())
    queue.waitUntilAllOperationsAreFinished()
  }

  @Test func barriersAndOperationsKeepNothing() {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let kept = Counter()
    @Sendable func look() {
      queue.async(owner: owner) { _ in }
      if let worker = Worker.current, !worker.batch.nested.isEmpty { kept.add() }
    }
    queue.async(owner: owner) { _ in }
    queue.addBarrierBlock {}
    queue.addBarrierBlock {
      DeferredReleases.waitUntilIdle()
      look()
    }
    queue.addOperation(OwnedBlockOperation(owner: owner.lifetime) { look() })
    queue.waitUntilAllOperationsAreFinished()
    #expect(kept.value == 0)
  }

  /// Behind a chain of nodes in the same batch, too.
  @Test func whatAJobHasAddedDoesNotWaitForAWholeChain() throws {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerLifetime())
    let nodes = Counter()
    let nodesBefore = Locked<[Int]>([])
    let graph = OperationGraph(lifetime: owner)
    var last: OperationGraph.Node?
    for number in 0..<500 {
      let node = graph.node {
        nodes.add()
        if number == 0 { queue.async(lifetime: owner) { nodesBefore.withLock { $0.append(nodes.value) } } }
        let end = Uptime.now + 100_000
        while Uptime.now < end {}
      }
      last.map { $0.precedes(node) }
      last = node
    }
    queue.isSuspended = true
    queue.async(lifetime: owner) { queue.async(lifetime: owner) { nodesBefore.withLock { $0.append(nodes.value) } } }
    let run = try graph.run(on: queue)
    queue.isSuspended = false
    run.wait()
    queue.waitUntilAllOperationsAreFinished()
    let before = nodesBefore.withLock { $0 }
    #expect(before.count == 2)
    #expect(before.allSatisfy { $0 < 250 }, "\(before) of 500 nodes ran first")
  }

  /// A body that waits is counted out only for work of its owner that has yet to begin: see `mayHaveWorkToBegin`.
  @Test func aNestedJobThatRunsIsNoWorkToBegin() {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let answers = Locked<[Bool]>([])
    queue.async(owner: owner) { owner in
      queue.async(owner: owner) { owner in
        let hold = OwnerHold.of(owner)
        let alone = queue.mayHaveWorkToBegin(ofOwnerIn: hold)
        queue.async(owner: owner) { _ in }
        let withAnother = queue.mayHaveWorkToBegin(ofOwnerIn: hold)
        answers.withLock { $0 += [alone, withAnother] }
      }
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(answers.withLock { $0 } == [false, true])
  }

  @Test func countsAreRightInsideAChain() {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), TokenOwner())
    let wrong = Locked<[String]>([])
    @Sendable func add(_ left: Int) {
      queue.async(owner: owner) { owner in
        let (count, counts) = (queue.operationCount(ownedBy: owner.lifetime), queue.statistics)
        if count != 1 || counts.executing != 1 || counts.pending != 0 { wrong.withLock { $0.append("\(left): \(count), \(counts)") } }
        if left > 0 { add(left - 1) }
      }
    }
    add(50)
    queue.waitUntilAllOperationsAreFinished()
    #expect(wrong.withLock { $0 } == [])
  }

  @Test func aTreeOfJobsIsWaitedForAndCounted() {
    let (queue, owners) = (OwnerScopedQueue(), (0..<3).map { _ in TokenOwner() })
    let ran = Counter()
    @Sendable func add(_ depth: Int) {
      // Now of the same owner, now of another.
      queue.async(owner: owners[depth % 4 == 0 ? depth % 3 : 0]) { _ in
        ran.add()
        guard depth > 0 else { return }
        add(depth - 1)
        add(depth - 1)
      }
    }
    add(12)
    queue.waitUntilAllOperationsAreFinished()
    #expect(ran.value == 1 << 13 - 1)
    #expect(queue.statistics.succeeded == 1 << 13 - 1)
  }

  @Test func capturesOfAKeptJobGoWithItsOwnersEnd() {
    let (queue, owner) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerLifetime())
    let (isAdded, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let probe = Locked<Counter?>(Counter())
    weak let released = probe.withLock { $0 }
    queue.async(lifetime: owner) {
      let captured = probe.withLock { $0.take() }
      queue.async(lifetime: owner) { captured?.add() }
      isAdded.signal()
      mayEnd.wait()
    }
    isAdded.wait()
    owner.end()
    LifetimeReaper.waitUntilIdle()
    mayEnd.signal()
    queue.waitUntilAllOperationsAreFinished()
    DeferredReleases.waitUntilIdle()
    #expect(released == nil)
    #expect(queue.statistics.skippedForEndedOwners == 1)
  }
}
