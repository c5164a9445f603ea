import Foundation

/// What a thread or a task waits for.
enum WaitTarget {
  case operation(OwnedOperation)
  case plainOperation(Operation)
  /// Work of a scheduler: all of it, or an owner's.
  case work(of: any OperationScheduler, ownedBy: OwnerLifetime?)

  init(_ operation: Operation) {
    self = (operation as? OwnedOperation).map { .operation($0) } ?? .plainOperation(operation)
  }

  /// Whether the wait can't end before work of the scheduler has. In doubt it can.
  func includesWork(of scheduler: any OperationScheduler) -> Bool {
    leads(inDoubt: false) { part in
      switch part {
      case .work(of: let other, ownedBy: _): other === scheduler
      case .operation(let operation): operation.currentScheduler === scheduler
      case .plainOperation: false
      }
    }
  }

  /// Whether the wait can't end before work of the owner has that is yet to begin. In doubt it can't: where a scheduler has very many
  /// operations, or jobs that wait.
  func includesWork(ofOwnerIn hold: OwnerHold) -> Bool {
    leads(inDoubt: true) { part in
      switch part {
      case .work(of: let scheduler, ownedBy: let lifetime):
        (lifetime?.mayConcern(hold) ?? true || scheduler.hasBarriers) && scheduler.mayHaveWorkToBegin(ofOwnerIn: hold)
      case .operation(let operation): operation.lifetime.mayConcern(hold)
      case .plainOperation: false
      }
    }
  }

  /// Whether the condition holds for this target or one behind it. Behind a target are what runs a plain operation, what an operation
  /// depends on, and what its body is blocked in a wait for. If work of a scheduler is waited for, so is what its operations wait for. Who
  /// stands behind a barrier waits for all before it. Linear in these. Runs no code of the user's, but `isFinished` and `dependencies` of
  /// plain operations.
  /// - Parameter doubt: the answer if a scheduler has too many operations to ask.
  private func leads(inDoubt doubt: Bool, to condition: (WaitTarget) -> Bool) -> Bool {
    var seen: Set<ObjectIdentifier> = []
    var seenWork: Set<OwnersWork> = []
    var open = [self]
    while let target = open.popLast() {
      switch target {
      case .work(of: let scheduler, ownedBy: let lifetime):
        if condition(target) { return true }
        let owner = scheduler.hasBarriers ? nil : lifetime
        guard seenWork.insert(OwnersWork(scheduler: ObjectIdentifier(scheduler), owner: owner.map { ObjectIdentifier($0) })).inserted else {
          continue
        }
        guard let operations = scheduler.unfinishedOperations(ownedBy: owner, atMost: Self.mostOperations) else {
          if doubt { return true }
          continue
        }
        for operation in operations { open += operation.furtherTargets }
      case .operation(let operation):
        guard !operation.load().isFinished, seen.insert(ObjectIdentifier(operation)).inserted else { continue }
        if condition(target) { return true }
        open += operation.furtherTargets
        if let scheduler = operation.currentScheduler, scheduler.hasBarriers {
          open.append(.work(of: scheduler, ownedBy: nil))
        }
      case .plainOperation(let operation):
        guard !operation.isFinished, seen.insert(ObjectIdentifier(operation)).inserted else { continue }
        if let runner = EnqueuedPlainOperations.runner(of: operation) { open.append(.operation(runner)) }
        open += operation.dependencies.lazy.map { WaitTarget($0) }
      }
    }
    return false
  }

  /// Who runs what is waited for, if that is the thread that waits.
  var driver: (any QueueDriver)? {
    switch self {
    case .work(of: let scheduler, ownedBy: _): scheduler.driver
    case .operation(let operation): operation.currentScheduler?.driver
    case .plainOperation: nil
    }
  }

  var description: String {
    switch self {
    case .work(of: let scheduler, ownedBy: let lifetime):
      lifetime.map { "work of \($0) in \(scheduler)" } ?? "all work in \(scheduler)"
    case .operation(let operation): operation.description
    case .plainOperation(let operation): OwnedOperation.label(of: operation)
    }
  }

  /// An owner's work in a scheduler; with nil all of it.
  private struct OwnersWork: Hashable {
    let scheduler: ObjectIdentifier
    let owner: ObjectIdentifier?
  }

  /// How many operations of a scheduler to ask at a time.
  private static let mostOperations = 1000
}

extension OwnedOperation {
  /// The scheduler that the operation is in; nil before it was added to one, and once it has finished.
  final var currentScheduler: (any OperationScheduler)? { lock.withLock { scheduler } }

  /// What the operation waits for.
  fileprivate final var furtherTargets: [WaitTarget] {
    let (cell, waits) = lock.withLock { (dependencyCell, extras?.currentWaits) }
    var targets = waits.map { Array($0.values) } ?? []
    if let cell, !isReadyByDependencies { targets += cell.operations.map { WaitTarget($0) } }
    return targets
  }

  /// The operation's body is about to wait, or with nil has ceased to. Tells those who wait for the operation, whose waits may lead
  /// elsewhere now.
  /// - Parameter wait: tells its waits apart.
  final func setCurrentWait(_ target: WaitTarget?, of wait: AnyObject) {
    var former = target
    let waiters = lock.withLock { () -> [any OperationWaiter] in
      guard target != nil || extras != nil else { return [] }
      let extras = makeExtras()
      swap(&extras.currentWaits[ObjectIdentifier(wait)], &former)
      return target == nil ? [] : extras.waiters
    }
    for waiter in waiters { waiter.targetDidChange() }
  }
}
