import Foundation
import OwnedOperations

/// What an owner asks for beside jobs. Nothing here is waited for by the visiting thread, but where the call is itself a wait.
struct Chores {
  let world: World
  let mark: OwnerMark

  private struct Failure: Error {}

  private func tally(_ count: Int, in queue: CheckedQueue?, _ expectation: Tally.Expectation = .all) -> Tally {
    Tally(count, for: mark, in: queue?.record, world.ledger, expectation)
  }

  /// About one for each owner.
  func common(for box: OwnerBox, _ random: inout SplitMix) {
    guard let owner = box.owner else { return }
    let queue = world.queues.any(&random)
    switch random.below(22) {
    case 0...2: throwingOperation(of: owner, in: queue, &random)
    case 3...6: operationsThatDepend(on: owner.lifetime, in: queue, &random)
    case 7...8: delayedJob(of: owner, in: queue, &random)
    case 9: barrier(of: owner, in: queue)
    case 10...11: graph(of: owner.lifetime, in: queue, &random)
    case 12...13: task(of: owner, in: queue, &random)
    case 14...15: plainGCD(of: owner, &random)
    case 16: sync(with: owner, on: queue)
    case 17: suspend(owner, in: queue)
    case 18: cancelWork(of: owner, in: queue)
    case 19...20: jobsThatAddJobs(of: owner, in: queue, &random)
    default: queue.checkSnapshot(world.ledger)
    }
  }

  /// What takes long, or disturbs others.
  func rare(for box: OwnerBox, _ random: inout SplitMix) {
    guard let owner = box.owner else { return }
    let queue = world.queues.any(&random)
    switch random.below(20) {
    case 0...1: passingQueue(with: owner, &random)
    case 2...4: blockingBody(of: owner, &random)
    case 5...6: slowBody(of: owner, in: queue, &random)
    case 7: plainOperations(with: owner.lifetime, in: queue)
    case 8...9: suspend(queue, with: owner)
    case 10: world.queues.cancelled.queue.cancelAllOperations()
    case 11...14: changeLimits(&random)
    case 15: operationThatTimesOut(owner.lifetime, in: queue)
    case 16: scope(in: queue)
    default: passingThread(&random)
    }
  }

  // MARK: Operations

  private func throwingOperation(of owner: Owner, in queue: CheckedQueue, _ random: inout SplitMix) {
    let tally = tally(1, in: queue)
    _ = owner.addOperation(to: queue, random.priority()) {
      tally.run(0)
      throw Failure()
    }
  }

  private func operationsThatDepend(on lifetime: OwnerLifetime, in queue: CheckedQueue, _ random: inout SplitMix) {
    let count = 2 + random.below(4)
    let needsSuccess = random.isOnce(in: 3)
    let tally = tally(count, in: queue, needsSuccess ? .any : .all)
    var operations: [OwnedOperation] = []
    for index in 0..<count {
      let throwsError = random.isOnce(in: 4)
      let completion = Completion(world.ledger)
      let operation = OwnedBlockOperation(lifetime: lifetime) {
        tally.run(index)
        if throwsError { throw Failure() }
      }
      operation.completionBlock = { completion.happen() }
      operation.queuePriority = random.priority()
      if needsSuccess { operation.dependencyPolicy = .requireSuccess }
      for _ in 0..<random.below(3) { if let dependency = operations.randomElement(using: &random) { operation.addDependency(dependency) } }
      operations.append(operation)
    }
    // In this order: a barrier of somebody else's may come in between, and what lies before it must not depend on what lies behind it.
    for operation in operations { queue.queue.addOperation(operation) }
    if needsSuccess, random.isOnce(in: 2) { operations.randomElement(using: &random)?.cancel() }
    operations.randomElement(using: &random)?.queuePriority = random.priority()
  }

  private func operationThatTimesOut(_ lifetime: OwnerLifetime, in queue: CheckedQueue) {
    // The time runs from the start on, and may be over before the body begins: then it doesn't.
    let operation = EndlessOperation(tally(1, in: queue, .any), Completion(world.ledger), lifetime)
    operation.timeout = .milliseconds(2)
    queue.queue.addOperation(operation)
  }

  private func plainOperations(with lifetime: OwnerLifetime, in queue: CheckedQueue) {
    let tally = tally(3, in: queue)
    let first = BlockOperation { tally.run(0) }
    let second = OwnedBlockOperation(lifetime: lifetime) { tally.run(1) }
    let third = BlockOperation { tally.run(2) }
    second.addDependency(first)
    third.addDependency(second)
    queue.queue.addOperations([first, second, third], waitUntilFinished: false)
  }

  // MARK: Bodies that take their time

  /// Waits for work that lies before it in the same queue, or in one that waits for no other way round.
  private func blockingBody(of owner: Owner, _ random: inout SplitMix) {
    let (one, other) = (world.queues.any(&random), world.queues.any(&random))
    let (waiting, awaited) = one.record.rank < other.record.rank ? (one, other) : (other, one)
    let (first, second) = (tally(1, in: awaited), tally(1, in: waiting))
    let operation = owner.addOperation(to: awaited, random.priority()) { first.run(0) }
    _ = owner.addOperation(to: waiting, random.priority()) {
      second.run(0)
      operation.waitUntilFinished()
    }
  }

  private func slowBody(of owner: Owner, in queue: CheckedQueue, _ random: inout SplitMix) {
    let tally = tally(1, in: queue)
    let sleeps = random.isOnce(in: 2)
    _ = owner.addOperation(to: queue, .normal) {
      tally.run(0)
      let end = DispatchTime.now() + .microseconds(500)
      if sleeps { usleep(2_000) } else { while DispatchTime.now() < end {} }
    }
  }

  // MARK: Jobs of other kinds

  private func delayedJob(of owner: Owner, in queue: CheckedQueue, _ random: inout SplitMix) {
    let tally = tally(1, in: queue)
    queue.record.uncertain.add(1, ordering: .relaxed)
    owner.addDelayed(.microseconds(random.below(20_000)), to: queue) { tally.run(0) }
  }

  /// Those that are not added yet when the owner ends never are.
  private func jobsThatAddJobs(of owner: Owner, in queue: CheckedQueue, _ random: inout SplitMix) {
    let count = 1 + random.below(63)
    queue.record.uncertain.add(count - 1, ordering: .relaxed)
    owner.addTree(tally(count, in: queue), of: count, to: queue, random.priority())
  }

  private func barrier(of owner: Owner, in queue: CheckedQueue) {
    let tally = tally(1, in: queue)
    owner.addBarrier(to: queue) { tally.run(0) }
  }

  private func sync(with owner: Owner, on queue: CheckedQueue) {
    let tally = tally(1, in: queue)
    owner.sync(on: queue) { tally.run(0) }
    tally.checkIsComplete()
  }

  private func graph(of lifetime: OwnerLifetime, in queue: CheckedQueue, _ random: inout SplitMix) {
    let count = 2 + random.below(20)
    let tally = tally(count, in: queue)
    let graph = OperationGraph(lifetime: lifetime)
    var nodes: [OperationGraph.Node] = []
    for index in 0..<count {
      let former = index > 0 ? random.below(index) : nil
      let throwsError = random.isOnce(in: 16)
      let node = graph.node(priority: random.priority()) { [ledger = world.ledger] in
        tally.run(index)
        if let former, !tally.hasRun(former) { ledger.report("a node has run before the one that it depends on") }
        if throwsError { throw Failure() }
      }
      if let former { nodes[former].precedes(node) }
      nodes.append(node)
    }
    do {
      try graph.run(on: queue.queue)
    } catch {
      world.ledger.report("a graph doesn't run: \(error)")
    }
  }

  private func task(of owner: Owner, in queue: CheckedQueue, _ random: inout SplitMix) {
    let tally = tally(1, in: queue, .any)
    queue.record.turns.add(1, ordering: .relaxed)
    let yields = random.isOnce(in: 2)
    let place = random.isOnce(in: 2) ? owner : .bare(owner.lifetime)
    world.group.enter()
    Task { [group = world.group, world, mark] in
      // Its owner may end before or under way. Nothing else keeps the body from its end.
      do {
        try await place.run(on: queue) {
          tally.run(0)
          if yields { await Task.yield() }
        }
        if !tally.hasRun(0) { world.ledger.report("a task's body has not run, and the task has succeeded") }
      } catch {
        if !queue.record.cancelsAll, !mark.isExpendable.load(ordering: .acquiring) {
          world.ledger.report("a task's body was refused, though nobody has ended its owner: \(error)")
        }
      }
      group.leave()
    }
  }

  /// The owner of the work is the body's, and ends with it.
  private func scope(in queue: CheckedQueue) {
    let tally = Tally(4, for: OwnerMark(), in: queue.record, world.ledger)
    world.ledger.owners.add(1, ordering: .relaxed)
    world.group.enter()
    Task { [group = world.group] in
      await withOwnerLifetime { lifetime in
        for index in 0..<4 { queue.queue.async(lifetime: lifetime) { tally.run(index) } }
        await queue.queue.finished(ownedBy: lifetime)
        tally.checkIsComplete()
      }
      group.leave()
    }
  }

  private func plainGCD(of owner: Owner, _ random: inout SplitMix) {
    let tally = tally(2, in: nil)
    let queue = random.isOnce(in: 2) ? DispatchQueue.global() : world.queues.plainGCD
    owner.addJob(to: queue) { tally.run(0) }
    owner.addDelayedJob(.now() + .microseconds(random.below(10_000)), to: queue) { tally.run(1) }
  }

  // MARK: Queues

  private func suspend(_ owner: Owner, in queue: CheckedQueue) {
    let tally = tally(8, in: queue)
    queue.queue.setSuspended(true, ownedBy: owner.lifetime)
    owner.addJobs(0..<8, of: tally, to: queue, .normal)
    queue.queue.setSuspended(false, ownedBy: owner.lifetime)
  }

  private func suspend(_ queue: CheckedQueue, with owner: Owner) {
    let tally = tally(8, in: queue)
    queue.queue.isSuspended = true
    owner.addJobs(0..<8, of: tally, to: queue, .normal)
    queue.queue.isSuspended = false
  }

  private func cancelWork(of owner: Owner, in queue: CheckedQueue) {
    mark.isExpendable.store(true, ordering: .releasing)
    owner.addJobs(0..<8, of: tally(8, in: queue), to: queue, .low)
    queue.queue.cancelOperations(ownedBy: owner.lifetime)
  }

  private func changeLimits(_ random: inout SplitMix) {
    let queue = world.queues.changing.queue
    switch random.below(3) {
    case 0: queue.maxConcurrentOperationCount = [-1, 1, 2, 5][random.below(4)]
    case 1: queue.maxConcurrentOperationCountPerOwner = [-1, 1, 2][random.below(3)]
    default: queue.ownerFairness = random.isOnce(in: 2) ? .roundRobin : .firstComeFirstServed
    }
  }

  /// Goes when its work is done, or with its work, if it is suspended.
  private func passingQueue(with owner: Owner, _ random: inout SplitMix) {
    let limit = [-1, 1, 2][random.below(3)]
    let isSuspended = random.isOnce(in: 4)
    let queue = CheckedQueue(OwnerScopedQueue(maxConcurrentOperationCount: limit), "a queue that comes and goes", rank: .max)
    queue.queue.isSuspended = isSuspended
    owner.addJobs(0..<8, of: tally(8, in: queue, isSuspended ? .any : .all), to: queue, random.priority())
    let last = tally(1, in: queue, isSuspended ? .any : .all)
    queue.queue.async(lifetime: owner.lifetime) { last.run(0) }
  }

  // MARK: Threads

  private func passingThread(_ random: inout SplitMix) {
    let visit = Visit(world: world, operations: 8, keepsSome: false)
    let seed = random.next()
    world.group.enter()
    Thread.detachNewThread { [world] in
      var random = SplitMix(seed: seed)
      var ends = Latencies()
      _ = visit.run(&random, &ends)
      world.ledger.add(ends)
      world.group.leave()
    }
  }
}
