@testable import OwnedOperationsTesting

/// Makes scripts out of a seed.
///
/// Each script does without some kinds of steps, chosen by the seed: what is found only where many things come together, and what is found
/// only where nothing else happens, are found sooner so.
struct SimulationGenerator {
  private enum Kind: CaseIterable {
    case job, delayedJob, closure, operation, made, add, barrier, ownersBarrier, graph, observe, post
    case finish, depend, dependNoMore, setPriority, cancel, cancelGraph, cancelAll, cancelOwner, endOwner, invalidate
    case suspend, suspendOwner, limit, ownerLimit, takeTurns
    case runNext, runAll, advance, waitForAll, waitForOwner, waitFor

    var weight: Int {
      switch self {
      case .job: 12
      case .operation: 14
      case .runNext: 24
      case .finish: 10
      case .closure, .post: 5
      case .made, .add, .delayedJob, .depend, .cancel: 4
      case .suspendOwner, .barrier, .ownersBarrier, .graph, .observe, .suspend, .limit, .ownerLimit, .setPriority, .takeTurns, .runAll: 3
      case .advance, .dependNoMore, .cancelGraph, .cancelAll, .cancelOwner, .invalidate, .waitForAll, .waitForOwner, .waitFor: 2
      case .endOwner: 1
      }
    }

    /// Every script has them.
    var isNeeded: Bool { self == .job || self == .runNext }
    var isForBodies: Bool {
      switch self {
      case .runNext, .runAll, .advance, .waitForAll, .waitForOwner, .waitFor: false
      default: true
      }
    }
  }

  private static let owners = 4

  private var random: SeededGenerator
  private var kinds: [Kind] = []
  private var bodyKinds: [Kind] = []
  private var hasBodies = false
  private var mostOwners = 1
  private var hasPriorities = false
  private var next = 1
  private var operations: [Int] = []
  private var asynchronous: [Int] = []
  private var graphs: [Int] = []
  private var observations: [Int] = []

  private init(seed: UInt64) { random = SeededGenerator(seed: seed) }

  static func script(seed: UInt64, length: Int) -> SimulationScript {
    var generator = SimulationGenerator(seed: seed)
    return generator.script(seed, length)
  }

  private mutating func script(_ seed: UInt64, _ length: Int) -> SimulationScript {
    let chosen = Kind.allCases.filter { $0.isNeeded || oneOf(2) }
    kinds = chosen.flatMap { [Kind](repeating: $0, count: $0.weight) }
    bodyKinds = kinds.filter(\.isForBodies)
    hasBodies = oneOf(2)
    hasPriorities = oneOf(2)
    mostOwners = 1 + random.next(upTo: Self.owners)
    let order = random.next(upTo: 4) == 0 ? WorkOrder.shuffled : .firstComeFirstServed
    return SimulationScript(seed: seed, order: order, steps: (0..<length).map { _ in step(of: kinds, depth: 0) })
  }

  // MARK: Choosing

  private mutating func oneOf(_ count: Int) -> Bool { random.next(upTo: count) == 0 }
  private mutating func one<Element>(of all: [Element]) -> Element? { all.isEmpty ? nil : all[random.next(upTo: all.count)] }

  /// One of the last.
  private mutating func recent(_ all: [Int]) -> Int { one(of: all.suffix(8)) ?? 0 }

  private mutating func owner() -> Int { 1 + random.next(upTo: mostOwners) }

  private mutating func priority() -> SimulatedPriority { hasPriorities ? one(of: SimulatedPriority.allCases) ?? .normal : .normal }

  private mutating func take(_ count: Int = 1) -> Int {
    defer { next += count }
    return next
  }

  private mutating func body(_ depth: Int) -> [SimulationStep] {
    guard hasBodies, depth < 2, oneOf(3) else { return [] }
    return (0...random.next(upTo: 2)).map { _ in step(of: bodyKinds, depth: depth + 1) }
  }

  private mutating func limit() -> Int? { oneOf(3) ? nil : oneOf(8) ? 0 : 1 + random.next(upTo: 3) }

  private mutating func step(of kinds: [Kind], depth: Int) -> SimulationStep {
    switch one(of: kinds) ?? .runNext {
    case .job: return .job(take(), owner: owner(), priority(), body(depth))
    case .delayedJob: return .delayedJob(take(), owner: owner(), milliseconds: 1 + random.next(upTo: 5), body(depth))
    case .closure: return .closure(take(), body(depth))
    case .operation: return operation(isAdded: true, depth)
    case .made: return operation(isAdded: false, depth)
    case .add:
      let ids = (0...random.next(upTo: 3)).map { _ in recent(operations) }
      return .add(ids.enumerated().filter { !ids[..<$0.offset].contains($0.element) }.map(\.element))
    case .barrier: return .barrier(take(), body(depth))
    case .ownersBarrier: return .ownersBarrier(take(), owner: owner(), body(depth))
    case .graph:
      let nodes = 1 + random.next(upTo: 5)
      let id = take(nodes)
      graphs.append(id)
      return .graph(id, owner: owner(), priority(), one(of: SimulatedGraph.allCases) ?? .loose, nodes: nodes)
    case .observe:
      let id = take()
      observations.append(id)
      return .observe(id, owner: owner())
    case .post: return .post(take())
    case .finish: return .finish(recent(asynchronous), fails: oneOf(4))
    case .depend: return .depend(recent(operations), on: recent(operations))
    case .dependNoMore: return .dependNoMore(recent(operations), on: recent(operations))
    case .setPriority: return .setPriority(recent(operations), one(of: SimulatedPriority.allCases) ?? .normal)
    case .cancel: return .cancel(recent(operations))
    case .cancelGraph: return .cancelGraph(recent(graphs))
    case .cancelAll: return oneOf(2) ? .cancelAll : .cancelOwner(owner())
    case .cancelOwner: return .cancelOwner(owner())
    case .endOwner: return .endOwner(owner())
    case .invalidate: return .invalidate(recent(observations))
    case .suspend: return .suspend(oneOf(3))
    case .suspendOwner: return .suspendOwner(owner(), oneOf(2))
    case .limit: return .limit(limit())
    case .ownerLimit: return .ownerLimit(limit())
    case .takeTurns: return .takeTurns(oneOf(2))
    case .runNext: return .runNext
    case .runAll: return .runAll
    case .advance: return .advance(milliseconds: 1 + random.next(upTo: 4))
    case .waitForAll: return .waitForAll
    case .waitForOwner: return .waitForOwner(owner())
    case .waitFor: return .waitFor(recent(operations))
    }
  }

  private mutating func operation(isAdded: Bool, _ depth: Int) -> SimulationStep {
    let id = take()
    let kind = one(of: SimulatedKind.allCases) ?? .block
    var after: [Int] = []
    while !operations.isEmpty, after.count < 3, oneOf(3) {
      let other = recent(operations)
      if !after.contains(other) { after.append(other) }
    }
    let step = SimulationStep.operation(id, kind, owner: owner(), priority(), after: after, isAdded: isAdded, body(depth))
    operations.append(id)
    if kind == .asynchronous { asynchronous.append(id) }
    return step
  }
}
