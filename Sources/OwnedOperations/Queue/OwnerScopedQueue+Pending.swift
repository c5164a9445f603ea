import Foundation

/// What a driven queue has not done, and why, for users' tests.
package struct QueueBacklog: Sendable {
  package enum Kind: Sendable, Hashable {
    case job, graphNode, taskStep, barrier
    case operation(label: String, ObjectIdentifier)
    /// The place of a task, by which its steps go.
    case turn(ObjectIdentifier)

    /// The operation or turn; nil if it is neither.
    package var operation: ObjectIdentifier? {
      switch self {
      case .operation(_, let operation), .turn(let operation): operation
      default: nil
      }
    }
  }

  package enum Reason: Sendable, Hashable {
    case ready, queueSuspended, ownerSuspended, ownerHeldBack, limit, barrier, notReady
    case dependencies([String])
    /// A body that has begun: it waits for something of ours, or goes on by itself.
    case executes(waits: Bool)
  }

  package struct Entry: Sendable {
    package let kind: Kind
    package let owner: OwnerLifetime?
    package let reason: Reason
  }

  package fileprivate(set) var queue: String
  package fileprivate(set) var entries: [Entry] = []

  /// What was found under the lock. Names are made out later: they may be the user's code.
  fileprivate struct Found {
    var operations: [(operation: OwnedOperation, owner: OwnerLifetime?, reason: Reason, isExecuting: Bool, isListed: Bool)] = []
    var others: [Entry] = []
  }
}

extension OwnerScopedQueue {
  /// - Complexity: linear in what has not finished.
  package var backlog: QueueBacklog {
    let (name, found) = core.mutate { scheduler, _ in
      // A job that was handed over has begun, or is ready work again.
      scheduler.endHandoff()
      scheduler.reclaimBatches()
      scheduler.settleAll()
      return (scheduler.name, scheduler.findBacklog(of: ownLifetime))
    }
    var backlog = QueueBacklog(queue: name)
    for (operation, owner, reason, isExecuting, isListed) in found.operations where !operation.isFinished {
      let identifier = ObjectIdentifier(operation)
      let kind: QueueBacklog.Kind =
        operation is QueueTurn ? .turn(identifier) : .operation(label: operation.backlogLabel, identifier)
      let known = isExecuting || operation.isExecuting ? .executes(waits: operation.isInWait) : isListed ? reason : operation.reasonToWait
      backlog.entries.append(.init(kind: kind, owner: owner, reason: known))
    }
    backlog.entries += found.others
    return backlog
  }
}

extension OwnedOperation {
  fileprivate final var backlogLabel: String { (self as? PlainOperationProxy).map { Self.label(of: $0.operation) } ?? label }

  /// Why an operation waits that is in no ready list.
  fileprivate final var reasonToWait: QueueBacklog.Reason {
    let operations = (self as? PlainOperationProxy)?.operation.dependencies ?? dependencies
    let unfinished = operations.filter { !$0.isFinished }
    return unfinished.isEmpty ? .notReady : .dependencies(unfinished.map { $0.name ?? Self.label(of: $0) })
  }
}

extension Scheduler {
  /// - Parameter own: stands for no owner.
  fileprivate func findBacklog(of own: OwnerLifetime) -> QueueBacklog.Found {
    var found = QueueBacklog.Found()
    var operations: [ObjectIdentifier: (count: Int, executing: Int)] = [:]
    let phases = Array(self.phases)
    for operation in self.operations.operations {
      guard let place = self.operations.place(of: operation) else { continue }
      let entry = self.operations[place]
      let reason = reasonToWait(entry.ownerQueue, isFirst: phases.first === entry.ownerQueue.phase)
      let owner = operation.lifetime === own ? nil : operation.lifetime
      found.operations.append((operation, owner, reason, entry.isDetached, entry.levels != 0))
      operations[ObjectIdentifier(entry.ownerQueue), default: (0, 0)].count += 1
      if entry.isDetached || operation.isExecuting { operations[ObjectIdentifier(entry.ownerQueue)]?.executing += 1 }
    }
    for (index, phase) in phases.enumerated() {
      let next = phase.ownerOfNextBarrier()
      phase.forEachOwnerQueue { ownerQueue in
        let (count, executing) = operations[ObjectIdentifier(ownerQueue)] ?? (0, 0)
        let bodies = ownerQueue.executing - executing
        let listed = listed(of: ownerQueue)
        for (place, kind) in listed.enumerated() {
          let isBehindBarrier = phase.isOfBarriers && (place > 0 || ownerQueue !== next)
          let reason = reasonToWait(ownerQueue, isFirst: index == 0 && !isBehindBarrier)
          found.others.append(.init(kind: kind, owner: ownerQueue.lifetime, reason: reason))
        }
        for _ in 0..<max(0, bodies) { found.others.append(.init(kind: .job, owner: ownerQueue.lifetime, reason: .executes(waits: true))) }
        // Nodes that wait for others count, and stand in no list.
        let blocked = ownerQueue.unfinished - count - listed.count - bodies
        guard !runs.isEmpty else { return }
        for _ in 0..<max(0, blocked) { found.others.append(.init(kind: .graphNode, owner: ownerQueue.lifetime, reason: .dependencies([]))) }
      }
      guard phase.barrier != nil else { continue }
      let isDue = index == 0 && isBarrierDue
      let reason: QueueBacklog.Reason = isSuspended ? .queueSuspended : isDue ? .ready : .barrier
      found.others.append(.init(kind: .barrier, owner: nil, reason: reason))
    }
    return found
  }

  private func listed(of ownerQueue: OwnerQueue) -> [QueueBacklog.Kind] {
    var kinds: [QueueBacklog.Kind] = []
    for level in 0..<PriorityLevel.count {
      ownerQueue.forEachFlow(at: level) { flow in
        flow.work.visit { work in
          switch copy work {
          case .record(is OwnedOperation, _): break
          case .record(is GraphRun, _): kinds.append(.graphNode)
          case .taskStep: kinds.append(.taskStep)
          case .ownerBlock, .block, .leavingBlock, .record: kinds.append(.job)
          }
        }
      }
    }
    return kinds
  }

  private func reasonToWait(_ ownerQueue: OwnerQueue, isFirst: Bool) -> QueueBacklog.Reason {
    if isSuspended { return .queueSuspended }
    if ownerQueue.isSuspended { return .ownerSuspended }
    if !isFirst { return .barrier }
    if ownerQueue.isHeldBack { return .ownerHeldBack }
    if limit != .max && holders >= limit || ownerQueue.isHeld(ownerLimit) { return .limit }
    return .ready
  }
}

extension BarrierPhase {
  /// Nil while one runs, or if there are none. Linear in the turns.
  fileprivate func ownerOfNextBarrier() -> OwnerQueue? {
    guard isOfBarriers, executing == 0 else { return nil }
    for level in 0..<PriorityLevel.count where readyLevels & 1 << UInt32(level) != 0 {
      var void: [ObjectIdentifier: Int] = [:]
      for entry in runQueues[level].entries() {
        let left = void[ObjectIdentifier(entry.flow)] ?? entry.flow.voidTickets
        if entry.tickets > left { return entry.flow.ownerQueue }
        void[ObjectIdentifier(entry.flow)] = left - entry.tickets
      }
    }
    return nil
  }
}
