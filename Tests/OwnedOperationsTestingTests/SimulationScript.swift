import Foundation
import OwnedOperationsTesting

/// What is done to a queue, one step after the other, and to a plain model of it (`ReferenceQueue`).
///
/// Steps name work by numbers that the script chooses, so that a step can be left out without a change to the others. A step that makes no
/// sense, because what it names isn't there (any more), does nothing.
struct SimulationScript: Equatable, Sendable {
  /// Of the virtual time.
  var seed: UInt64 = 0
  var order = WorkOrder.firstComeFirstServed
  var steps: [SimulationStep]

  /// To be pasted into a test.
  var code: String {
    let order = order == .shuffled ? ", order: .shuffled" : ""
    return "SimulationScript(seed: \(seed)\(order), steps: [\n" + steps.map { "  \($0.code),\n" }.joined() + "])"
  }
}

/// The work's own steps are done by its body.
enum SimulationStep: Equatable, Sendable {
  // Adding
  case job(Int, owner: Int, SimulatedPriority, [SimulationStep])
  case delayedJob(Int, owner: Int, milliseconds: Int, [SimulationStep])
  /// Without an owner.
  case closure(Int, [SimulationStep])
  /// Plain ones have no owner.
  case operation(Int, SimulatedKind, owner: Int, SimulatedPriority, after: [Int], isAdded: Bool, [SimulationStep])
  /// Operations that were made and not added, in one call.
  case add([Int])
  case barrier(Int, [SimulationStep])
  case ownersBarrier(Int, owner: Int, [SimulationStep])
  /// Its nodes have the following numbers.
  case graph(Int, owner: Int, SimulatedPriority, SimulatedGraph, nodes: Int)
  case observe(Int, owner: Int)
  /// A delivery to each who observes.
  case post(Int)

  // Changing
  case finish(Int, fails: Bool)
  case depend(Int, on: Int)
  case dependNoMore(Int, on: Int)
  case setPriority(Int, SimulatedPriority)
  case cancel(Int)
  case cancelGraph(Int)
  case cancelAll
  case cancelOwner(Int)
  case endOwner(Int)
  case invalidate(Int)
  case suspend(Bool)
  case suspendOwner(Int, Bool)
  /// Nil for none.
  case limit(Int?)
  case ownerLimit(Int?)
  case takeTurns(Bool)

  // Running; not by bodies
  case runNext
  case runAll
  case advance(milliseconds: Int)
  case waitForAll
  case waitForOwner(Int)
  case waitFor(Int)

  var code: String { "." + "\(self)".replacing(/\w+\.Simul\w+\./, with: ".").replacing(/Optional\((\d+)\)/) { "\($0.1)" } }

  /// The same with less in it.
  var simpler: [SimulationStep] {
    switch self {
    case .job(let id, let owner, let priority, let body):
      return body.simpler.map { .job(id, owner: owner, priority, $0) } + priority.simpler.map { .job(id, owner: owner, $0, body) }
    case .delayedJob(let id, let owner, let milliseconds, let body):
      return [.job(id, owner: owner, .normal, body)]
        + body.simpler.map { .delayedJob(id, owner: owner, milliseconds: milliseconds, $0) }
    case .closure(let id, let body): return body.simpler.map { .closure(id, $0) }
    case .operation(let id, let kind, let owner, let priority, let after, let isAdded, let body):
      var simpler = body.simpler.map { Self.operation(id, kind, owner: owner, priority, after: after, isAdded: isAdded, $0) }
      simpler += priority.simpler.map { .operation(id, kind, owner: owner, $0, after: after, isAdded: isAdded, body) }
      for place in after.indices {
        var fewer = after
        fewer.remove(at: place)
        simpler.append(.operation(id, kind, owner: owner, priority, after: fewer, isAdded: isAdded, body))
      }
      if kind != .block, kind != .plain {
        simpler.append(.operation(id, .block, owner: owner, priority, after: after, isAdded: isAdded, body))
      }
      if !isAdded { simpler.append(.operation(id, kind, owner: owner, priority, after: after, isAdded: true, body)) }
      return simpler
    case .add(let ids): return ids.count > 1 ? ids.indices.map { .add([ids[$0]]) } : []
    case .barrier(let id, let body): return body.simpler.map { .barrier(id, $0) }
    case .ownersBarrier(let id, let owner, let body): return body.simpler.map { .ownersBarrier(id, owner: owner, $0) }
    case .graph(let id, let owner, let priority, let shape, let nodes):
      return (nodes > 1 ? [.graph(id, owner: owner, priority, shape, nodes: nodes - 1)] : [])
        + priority.simpler.map { .graph(id, owner: owner, $0, shape, nodes: nodes) }
    case .runAll: return [.runNext]
    case .advance(let milliseconds): return milliseconds > 1 ? [.advance(milliseconds: milliseconds / 2)] : []
    case .waitForAll, .waitForOwner, .waitFor: return [.runAll]
    default: return []
    }
  }

  /// What the body of the work does.
  var body: [SimulationStep] {
    switch self {
    case .job(_, _, _, let body), .delayedJob(_, _, _, let body), .closure(_, let body), .operation(_, _, _, _, _, _, let body),
      .barrier(_, let body), .ownersBarrier(_, _, let body):
      body
    default: []
    }
  }
}

extension [SimulationStep] {
  fileprivate var simpler: [[SimulationStep]] {
    guard !isEmpty else { return [] }
    var simpler: [[SimulationStep]] = count > 1 ? [[]] : []
    for place in indices {
      simpler.append(Array(self[..<place] + self[(place + 1)...]))
      for step in self[place].simpler { simpler.append(self[..<place] + [step] + self[(place + 1)...]) }
    }
    return simpler
  }
}

enum SimulatedPriority: Int, CaseIterable, Sendable {
  case veryHigh, high, normal, low, veryLow

  var priority: Operation.QueuePriority {
    switch self {
    case .veryHigh: .veryHigh
    case .high: .high
    case .normal: .normal
    case .low: .low
    case .veryLow: .veryLow
    }
  }

  fileprivate var simpler: [SimulatedPriority] { self == .normal ? [] : [.normal] }
}

enum SimulatedKind: CaseIterable, Sendable {
  case block
  /// Throws.
  case failing
  /// Requires success of what it depends on.
  case strict
  /// Executes until it is finished by a step.
  case asynchronous
  /// Of Foundation's.
  case plain
}

enum SimulatedGraph: CaseIterable, Sendable {
  case loose, chain
  /// One before all others but the last, which comes after them.
  case diamond

  func predecessors(of node: Int, among count: Int) -> [Int] {
    switch self {
    case .loose: []
    case .chain: node == 0 ? [] : [node - 1]
    case .diamond: node == 0 ? [] : node < count - 1 || count == 2 ? [0] : Array(1..<node)
    }
  }
}
