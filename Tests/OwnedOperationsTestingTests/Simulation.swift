import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Synchronization

/// Does a script to a queue in virtual time and to a plain model of it, and says where they differ.
///
/// - When a body starts, the model must agree: that it may, and that nothing comes first.
/// - When nothing is left that may start, the model must say so, too.
/// - After each step of the script the counts must be the same, and the state of each operation.
/// - In the end all owners end: then everything must be finished, and everything that bodies captured must have gone.
final class Simulation: @unchecked Sendable {  // used by one thread
  struct Difference: CustomStringConvertible {
    /// After which step, counted from zero.
    let step: Int
    let text: String
    /// Whether it was seen at once, and had not to be waited for.
    let isObjection: Bool
    var description: String { "after step \(step): \(text)" }
  }

  private struct Failed: Error {}

  private static let ownerCount = 4
  private static let name = Notification.Name("posted")

  private var model = ReferenceQueue()
  private let time: VirtualTime
  private let queue: OwnerScopedQueue
  private let owners = (0..<ownerCount).map { _ in OwnerLifetime() }
  private let center = NotificationCenter()
  private let captures = CaptureCount()
  private let patience: Int
  private var operations: [Int: Operation] = [:]
  /// Those that were not finished when they were looked at last.
  private var watched: [Int: Operation] = [:]
  private var numbers: [ObjectIdentifier: Int] = [:]
  private var added: Set<Int> = []
  private var runs: [Int: GraphRun] = [:]
  private var observations: [Int: OwnedObservation] = [:]
  private var starts = 0
  private var objection: String?
  /// How many steps were done, those of bodies included.
  private(set) var count = 0

  private init(_ script: SimulationScript, _ defect: ReferenceQueue.Defect?, patience: Int) {
    self.patience = patience
    time = VirtualTime(seed: script.seed)
    queue = OwnerScopedQueue(virtualTime: time, order: script.order)
    model.defect = defect
    model.isShuffled = script.order == .shuffled
  }

  /// - Parameters:
  ///   - defect: of the model, which is to be found.
  ///   - patience: how long what happens in the background may take, in milliseconds, until that is a difference.
  /// - Returns: also, how many steps were done.
  static func run(
    _ script: SimulationScript, defect: ReferenceQueue.Defect? = nil, patience: Int = 2000
  ) -> (difference: Difference?, steps: Int) {
    let simulation = Simulation(script, defect, patience: patience)
    var difference: Difference?
    for (index, step) in (script.steps + ending).enumerated() {
      simulation.perform(step)
      if let text = simulation.whatDiffers() {
        difference = Difference(step: index, text: text, isObjection: simulation.objection != nil)
        break
      }
    }
    if difference == nil, let text = simulation.whatIsLeft() {
      difference = Difference(step: script.steps.count, text: text, isObjection: simulation.objection != nil)
    }
    simulation.clear()
    return (difference, simulation.count)
  }

  private static let ending: [SimulationStep] =
    [.limit(nil), .ownerLimit(nil), .suspend(false)] + (1...ownerCount).map { .endOwner($0) } + [.cancelAll, .runAll]

  // MARK: Steps

  private func perform(_ step: SimulationStep) {
    guard objection == nil, let step = sensible(step) else { return }
    count += 1
    model.apply(step)
    if !add(step), !change(step) { run(step) }
  }

  /// What is left of the step, given what there is.
  private func sensible(_ step: SimulationStep) -> SimulationStep? {
    switch step {
    case .operation(let id, let kind, let owner, let priority, let after, let isAdded, let body):
      let after = after.filter { operations[$0] != nil }
      return .operation(id, kind, owner: owner, priority, after: after, isAdded: isAdded, body)
    case .add(let ids):
      let ids = ids.filter { operations[$0] != nil && !added.contains($0) }
      return ids.isEmpty ? nil : .add(ids)
    case .finish(let id, _): return operations[id] is HandFinished ? step : nil
    case .cancel(let id): return operations[id] != nil ? step : nil
    case .cancelGraph(let id): return runs[id] != nil ? step : nil
    case .depend(let id, let other):
      guard operations[other] != nil, let operation = operations[id], let item = model.item(id) else { return nil }
      let isPending = item.state == .made || operation is OwnedOperation && (item.state == .ready || item.state == .blocked)
      return isPending && !item.isCancelled && !model.depends(other, on: id) ? step : nil
    case .dependNoMore(let id, let other): return operations[other] != nil && operations[id] is OwnedOperation ? step : nil
    case .setPriority(let id, _):
      guard operations[id] is OwnedOperation, let state = model.item(id)?.state else { return nil }
      return state != .executing && state != .finished ? step : nil
    case .waitForAll: return model.comesToEnd { _ in true } ? step : nil
    case .waitForOwner(let owner): return model.comesToEnd { $0.owner == owner } ? step : nil
    case .waitFor(let id):
      // Foundation's own wait for a plain one runs nothing meanwhile.
      return added.contains(id) && operations[id] is OwnedOperation && model.comesToEnd { $0.id == id } ? step : nil
    default: return step
    }
  }

  private func owner(_ number: Int) -> OwnerLifetime { owners[number - 1] }

  private func add(_ step: SimulationStep) -> Bool {
    switch step {
    case .job(let id, let owner, let priority, _):
      queue.async(lifetime: self.owner(owner), priority: priority.priority, execute: body(id))
    case .delayedJob(let id, let owner, let milliseconds, _):
      queue.asyncAfter(.milliseconds(milliseconds), lifetime: self.owner(owner), execute: body(id))
    case .closure(let id, _): queue.addOperation(body(id))
    case .operation(let id, let kind, let owner, let priority, let after, let isAdded, _):
      let operation = operation(id, kind, owner)
      operation.queuePriority = priority.priority
      for other in after { if let other = operations[other] { operation.addDependency(other) } }
      operations[id] = operation
      watched[id] = operation
      numbers[ObjectIdentifier(operation)] = id
      guard isAdded else { return true }
      added.insert(id)
      queue.addOperation(operation)
    case .add(let ids):
      added.formUnion(ids)
      queue.addOperations(ids.compactMap { operations[$0] }, waitUntilFinished: false)
    case .barrier(let id, _): queue.addBarrierBlock(body(id))
    case .ownersBarrier(let id, let owner, _): queue.addBarrier(lifetime: self.owner(owner), body(id))
    case .graph(let id, let owner, let priority, let shape, let nodes):
      let graph = OperationGraph(lifetime: self.owner(owner))
      var all: [OperationGraph.Node] = []
      for node in 0..<nodes {
        all.append(graph.node(priority: priority.priority) { [weak self] in self?.begin(id + node) })
        for predecessor in shape.predecessors(of: node, among: nodes) { all[predecessor].precedes(all[node]) }
      }
      runs[id] = try? graph.run(on: queue)
    case .observe(let id, let owner):
      observations[id] = center.observe(Self.name, lifetime: self.owner(owner), on: queue) { [weak self] notification in
        self?.begin(ReferenceQueue.delivery(of: notification.userInfo?["post"] as? Int ?? 0, to: id))
      }
    case .post(let id): center.post(name: Self.name, object: nil, userInfo: ["post": id])
    default: return false
    }
    return true
  }

  private func operation(_ id: Int, _ kind: SimulatedKind, _ owner: Int) -> Operation {
    switch kind {
    case .block: return OwnedBlockOperation(lifetime: self.owner(owner), body(id))
    case .failing:
      let body = body(id)
      return OwnedBlockOperation(lifetime: self.owner(owner)) {
        body()
        throw Failed()
      }
    case .strict:
      let operation = OwnedBlockOperation(lifetime: self.owner(owner), body(id))
      operation.dependencyPolicy = .requireSuccess
      return operation
    case .asynchronous: return HandFinished(lifetime: self.owner(owner)) { [weak self] in self?.begin(id) }
    case .plain: return BlockOperation { [weak self] in self?.begin(id) }
    }
  }

  private func body(_ id: Int) -> @Sendable () -> Void {
    { [weak self, capture = Capture(captures)] in withExtendedLifetime(capture) { self?.begin(id) } }
  }

  private func change(_ step: SimulationStep) -> Bool {
    switch step {
    case .finish(let id, let fails): (operations[id] as? HandFinished)?.finish(throwing: fails ? Failed() : nil)
    case .depend(let id, let other): if let other = operations[other] { operations[id]?.addDependency(other) }
    case .dependNoMore(let id, let other): if let other = operations[other] { operations[id]?.removeDependency(other) }
    case .setPriority(let id, let priority): operations[id]?.queuePriority = priority.priority
    case .cancel(let id): operations[id]?.cancel()
    case .cancelGraph(let id): runs[id]?.cancel()
    case .cancelAll: queue.cancelAllOperations()
    case .cancelOwner(let owner): queue.cancelOperations(ownedBy: self.owner(owner))
    case .endOwner(let owner):
      self.owner(owner).end()
      // Or it would be a matter of threads what is cancelled for the end, and what by the next step.
      BackgroundWork.settle()
    case .invalidate(let id): observations[id]?.invalidate()
    case .suspend(let isOn): queue.isSuspended = isOn
    case .suspendOwner(let owner, let isOn): queue.setSuspended(isOn, ownedBy: self.owner(owner))
    case .limit(let limit): queue.maxConcurrentOperationCount = limit ?? OwnerScopedQueue.defaultMaxConcurrentOperationCount
    case .ownerLimit(let limit):
      queue.maxConcurrentOperationCountPerOwner = limit ?? OwnerScopedQueue.defaultMaxConcurrentOperationCount
    case .takeTurns(let isOn): queue.ownerFairness = isOn ? .roundRobin : .firstComeFirstServed
    default: return false
    }
    return true
  }

  // MARK: Running

  private static let mostSteps = 10_000

  private func run(_ step: SimulationStep) {
    switch step {
    case .runNext:
      let before = starts
      // What was cancelled may still have a turn, with which nothing begins.
      while time.runNext() {
        noteFinishedWithoutStart()
        if starts > before || objection != nil { return }
      }
    case .runAll: expect(time.runUntilIdle(limit: Self.mostSteps).isIdle, "it runs on and on")
    case .advance(let milliseconds):
      expect(time.advance(by: .milliseconds(milliseconds), limit: Self.mostSteps).isIdle, "it runs on and on")
      model.moveClock(to: now)
    case .waitForAll:
      queue.waitUntilAllOperationsAreFinished()
      noteFinishedWithoutStart()
      return expect(model.counts.pending + model.counts.executing == 0, "a wait for all is over, and \(model.unfinished) aren't")
    case .waitForOwner(let owner):
      queue.waitUntilFinished(ownedBy: self.owner(owner))
      noteFinishedWithoutStart()
      return expect(model.operationCount(of: owner) == 0, "a wait for owner \(owner) is over, and its work isn't")
    case .waitFor(let id):
      operations[id]?.waitUntilFinished()
      noteFinishedWithoutStart()
      return expect(model.item(id)?.state == .finished, "a wait for \(id) is over, and that isn't")
    default: return
    }
    noteFinishedWithoutStart()
    if objection == nil, let first = model.startable.first { objection = "nothing starts, but \(first.id) may" }
  }

  private func expect(_ isSo: Bool, _ text: @autoclosure () -> String) {
    if !isSo, objection == nil { objection = text() }
  }

  /// In milliseconds.
  private var now: Int { Int(time.now.offset / .milliseconds(1)) }

  /// A body.
  private func begin(_ id: Int) {
    noteFinishedWithoutStart()
    starts += 1
    model.moveClock(to: now)
    if let reason = model.objection(toStartOf: id), objection == nil { objection = reason }
    guard objection == nil, let item = model.item(id) else { return }
    model.start(id)
    for step in item.body { perform(step) }
    if item.kind != .asynchronous { model.end(id, fails: item.fails) }
  }

  /// A plain operation that was cancelled finishes when its turn comes, without its body.
  private func noteFinishedWithoutStart() {
    for item in model.operations where item.kind == .plain && item.isCancelled && item.state == .ready {
      guard operations[item.id]?.isFinished ?? false else { continue }
      starts += 1
      if let reason = model.objection(toStartOf: item.id), objection == nil { objection = reason }
      model.start(item.id)
      model.end(item.id)
    }
  }

  // MARK: Comparing

  private func whatDiffers() -> String? {
    if let objection { return objection }
    return settled(difference)
  }

  private func settled(_ look: () -> String?) -> String? {
    BackgroundWork.settle()
    for _ in 0..<patience {
      guard look() != nil else { return nil }
      BackgroundWork.settle()
      usleep(1000)
    }
    return look()
  }

  private func difference() -> String? {
    let (counts, expected) = (ReferenceQueue.Counts(queue.statistics), model.counts)
    if counts != expected { return "the queue counts \(counts), expected \(expected)" }
    if queue.operationCount != model.operationCount { return "operationCount is \(queue.operationCount), expected \(model.operationCount)" }
    for owner in 1...Self.ownerCount {
      let (count, expected) = (queue.operationCount(ownedBy: self.owner(owner)), model.operationCount(of: owner))
      if count != expected { return "operationCount of owner \(owner) is \(count), expected \(expected)" }
      let isSuspended = queue.isSuspended(ownedBy: self.owner(owner))
      if isSuspended != model.isSuspended(owner: owner) { return "owner \(owner) \(isSuspended ? "is" : "isn't") suspended" }
    }
    let (ids, all) = (queue.operations.map { numbers[ObjectIdentifier($0)] }, model.operations)
    let known = all.map { operations[$0.id] == nil ? nil : $0.id }
    if ids != known { return "operations are \(ids), expected \(known)" }
    for (id, operation) in watched {
      if let text = difference(of: operation, id) { return text }
      if operation.isFinished { watched[id] = nil }
    }
    for (id, run) in runs where run.nodeCounts.unfinished != model.graphs[id] ?? 0 {
      return "\(run.nodeCounts.unfinished) nodes of graph \(id) are unfinished, expected \(model.graphs[id] ?? 0)"
    }
    if captures.count != model.captureCount { return "the captures of \(captures.count) are there, expected \(model.captureCount)" }
    return nil
  }

  private func difference(of operation: Operation, _ id: Int) -> String? {
    guard let item = model.item(id) else { return "there is no \(id)" }
    guard operation.isFinished == (item.state == .finished) else { return "\(id) \(operation.isFinished ? "is" : "isn't") finished" }
    guard operation.isCancelled == item.isCancelled else { return "\(id) \(operation.isCancelled ? "is" : "isn't") cancelled" }
    guard operation.isExecuting == (item.state == .executing) else { return "\(id) \(operation.isExecuting ? "is" : "isn't") executing" }
    let isReady = item.state != .made && item.state != .blocked || item.dependencies.isEmpty || item.isCancelled
    return operation.isReady == isReady || item.state == .finished ? nil : "\(id) \(operation.isReady ? "is" : "isn't") ready"
  }

  /// After all owners have ended, and all was cancelled. Operations that were never added, and that nobody cancelled, are let go of.
  private func whatIsLeft() -> String? {
    if objection != nil { return objection }
    if !model.unfinished.isEmpty {
      for id in model.unfinished { perform(.finish(id, fails: false)) }
      perform(.runAll)
    }
    if let text = whatDiffers() { return text }
    return model.unfinished.isEmpty ? nil : "\(model.unfinished) are never finished"
  }

  /// A queue keeps its operations, and they keep it.
  private func clear() {
    objection = objection ?? "over"
    queue.isSuspended = false
    for owner in owners { owner.end() }
    queue.cancelAllOperations()
    for case let operation as HandFinished in operations.values { operation.finish() }
    time.runUntilIdle(limit: Self.mostSteps)
  }
}

extension ReferenceQueue.Counts {
  init(_ statistics: OwnerScopedQueue.Statistics) {
    self.init(
      enqueued: statistics.enqueued, started: statistics.started, succeeded: statistics.succeeded, failed: statistics.failed,
      cancelled: statistics.cancelled, skipped: statistics.skippedForEndedOwners, pending: statistics.pending,
      executing: statistics.executing)
  }
}

/// Executes until somebody finishes it.
private final class HandFinished: OwnedOperation, @unchecked Sendable {  // `body` is constant
  private let body: @Sendable () -> Void

  init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
    self.body = body
    super.init(lifetime: lifetime)
  }

  override var isAsynchronous: Bool { true }
  override func perform() { body() }
}

private final class CaptureCount: Sendable {
  private let atomic = Atomic<Int>(0)
  var count: Int { atomic.load(ordering: .acquiring) }
  func change(by amount: Int) { atomic.add(amount, ordering: .acquiringAndReleasing) }
}

private final class Capture: Sendable {
  private let count: CaptureCount

  init(_ count: CaptureCount) {
    self.count = count
    count.change(by: 1)
  }

  deinit { count.change(by: -1) }
}
