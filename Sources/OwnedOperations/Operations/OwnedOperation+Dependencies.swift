import Foundation

extension OwnedOperation {
  // MARK: As a dependent

  final func insertDependency(_ dependency: Operation) {
    let (unretainedCell, isFirst) = lock.withLock { () -> (Borrowed<DependencyCell>, Bool) in
      if let dependencyCell { return (Borrowed(dependencyCell), false) }
      let new = DependencyCell(self)
      dependencyCell = new
      return (Borrowed(new), true)
    }
    // It stays for as long as we do.
    unretainedCell.with { insertDependency(dependency, into: $0, isFirst: isFirst) }
  }

  private func insertDependency(_ dependency: Operation, into cell: DependencyCell, isFirst: Bool) {
    // What another thread adds at the same time is seen when it comes to inserting.
    guard isFirst || !cell.contains(dependency) else { return }
    guard !dependency.isFinished else {
      _ = changeDependencies(of: cell) { cell.insert(dependency, isAwaited: false) }
      checkSuccess(of: dependency)
      return
    }
    // Counted before it can be resolved, so that the count never runs ahead of the list.
    if !Mutation.countsDependencyLate.isOn { changeDependencyCount(by: 1) }
    guard changeDependencies(of: cell, { cell.insert(dependency, isAwaited: true) }) else {
      changeDependencyCount(by: -1)
      return
    }
    if let owned = dependency as? OwnedOperation {
      if !owned.addDependent(cell), cell.resolve(owned) != nil { changeDependencyCount(by: -1) }
    } else {
      let sentinel = FinishSentinel(of: dependency) { Self.plainDependencyDidFinish(dependency, cell) }
      if cell.keep(sentinel, for: dependency) { sentinel.arm() }
    }
    if Mutation.countsDependencyLate.isOn { changeDependencyCount(by: 1) }
    checkSuccess(of: dependency)
  }

  private static func plainDependencyDidFinish(_ dependency: Operation, _ cell: DependencyCell) {
    let failed = dependency.isCancelled ? dependency : nil
    if let dependent = cell.resolve(dependency) {
      Aftermath.run { aftermath in dependent.dependencyDidFinish(failed, &aftermath) }
      Aftermath.letGo(of: consume dependent)
    }
    _ = cell.takeSentinel(for: dependency)
  }

  final func deleteDependency(_ dependency: Operation) {
    guard let cell = lock.withLock({ dependencyCell }) else { return }
    var removal: DependencyCell.Removal?
    guard
      changeDependencies(
        of: cell,
        {
          removal = cell.remove(dependency)
          return removal != nil
        }), let removal
    else { return }
    removal.sentinel?.disarm()
    (dependency as? OwnedOperation)?.forgetDependent(cell)
    if removal.wasAwaited { changeDependencyCount(by: -1) }
    forgetIfFailed(dependency)
  }

  /// Who is no dependency any more is not to be kept for its name, which may be overridden, and is asked in the background. Called when it
  /// has been removed, and when it has been noted if it is not there: one of the two sees the other.
  private func forgetIfFailed(_ dependency: Operation) {
    guard lock.withLock({ extras?.failedDependency === dependency }) else { return }
    DeferredCalls.add { [self] in _ = nameOfFailedDependency }
  }

  /// Changes the list and tells observers. Runs under the operation's lock if there are any, so that changes are recorded in order.
  private func changeDependencies(of cell: DependencyCell, _ body: () -> Bool) -> Bool {
    load().contains(.isObserved) ? changeObservedDependencies(of: cell, body) : body()
  }

  @inline(never)
  private func changeObservedDependencies(of cell: DependencyCell, _ body: () -> Bool) -> Bool {
    let former = cell.operations
    let announced: ObservedKeys = announceDependencyChange(from: former)
    let isChanged = lock.withLock {
      guard let observers = extras?.observers, observers.observesDependencies else { return body() }
      let old = cell.operations
      guard body() else { return false }
      observers.record(dependenciesFrom: old, to: cell.operations, announced: announced)
      return true
    }
    deliverChanges()
    return isChanged
  }

  private func changeDependencyCount(by amount: Int) {
    let change = update { word in Self.word(word, withDependencyCountChangedBy: amount) }
    if let change { react(to: change) }
  }

  private static func word(_ word: StateWord, withDependencyCountChangedBy amount: Int) -> StateWord {
    var new = word
    new.unfinishedDependencyCount &+= UInt64(bitPattern: Int64(amount))
    if amount < 0, new.unfinishedDependencyCount == 0, word.phase == .pending, !word.isCancelled, word.contains(.attached) {
      new.insert(.announced)
    }
    return new
  }

  /// One of the dependencies has finished, and the cell has marked it so.
  /// - Parameter failed: the dependency, if it did not succeed.
  final func dependencyDidFinish(_ failed: Operation?, _ aftermath: inout Aftermath) {
    var isNoted = false
    let change = update { word in
      var new = Self.word(word, withDependencyCountChangedBy: -1)
      if let failed, word.canBeCancelledForDependency {
        noteFailedDependency(failed)
        isNoted = true
        new.cancel(isOwnerAlive ? .dependencyFailed : .ownerEnded)
        new.insert(.cancelClaimed)
        if !word.contains(.announced) { new.remove(.announced) }
      }
      return new
    }
    if isNoted, let failed { forgetIfRemoved(failed) }
    guard let change else { return }
    if change.turned(.cancelClaimed) {
      aftermath.handleCancellation(of: self)
    } else {
      if change.altersReadiness {
        tellScheduler(of: change)
        if change.new.contains(.readinessWasRead) { aftermath.announceReadiness(of: self) }
      }
      if change.new.contains(.isObserved) { aftermath.announceChanges(of: self) }
    }
  }

  /// Before the word can name the reason.
  private func noteFailedDependency(_ failed: Operation) {
    lock.withLock {
      let extras = makeExtras()
      if extras.failedDependency == nil, extras.nameOfFailedDependency == nil { extras.failedDependency = failed }
    }
  }

  /// It may have been removed since it told us.
  private func forgetIfRemoved(_ failed: Operation) {
    guard !Mutation.removedFailureIsKept.isOn, let cell = lock.withLock({ dependencyCell }), !cell.contains(failed) else { return }
    forgetIfFailed(failed)
  }

  /// How the reason calls the dependency that did not succeed. Made out when somebody asks for the reason: the name may be overridden, and
  /// block who cancels or finishes.
  final var nameOfFailedDependency: String {
    let (failed, name) = lock.withLock { (extras?.failedDependency, extras?.nameOfFailedDependency) }
    if let name { return name }
    guard let failed else { return "" }
    let new = failed.name ?? Self.label(of: failed)
    var former: Operation?
    let first = lock.withLock {
      let extras = makeExtras()
      swap(&former, &extras.failedDependency)
      let first = extras.nameOfFailedDependency ?? new
      extras.nameOfFailedDependency = first
      return first
    }
    if let former { DeferredReleases.add(former) }
    return first
  }

  // MARK: Policy

  final func setDependencyPolicy(_ policy: DependencyPolicy) {
    update { word in
      var new = word
      if policy == .requireSuccess { new.insert(.requiresSuccess) } else { new.remove(.requiresSuccess) }
      return new
    }
    guard policy == .requireSuccess, !Mutation.policyMissesTheFailure.isOn, let cell = lock.withLock({ dependencyCell }) else { return }
    for dependency in cell.operations { checkSuccess(of: dependency) }
  }

  /// For a dependency that may have failed or been cancelled before it knew of us, or before we required success.
  private func checkSuccess(of dependency: Operation) {
    guard load().contains(.requiresSuccess) else { return }
    let hasFailed =
      if let owned = dependency as? OwnedOperation {
        owned.isCancelled || owned.isFinished && owned.load().contains(.failed)
      } else {
        dependency.isFinished && dependency.isCancelled
      }
    if hasFailed {
      Aftermath.run { aftermath in cancel(for: dependency, &aftermath) }
    }
  }

  private func cancel(for failed: Operation, _ aftermath: inout Aftermath) {
    var isNoted = false
    let change = update { word in
      // Exchanged even if nothing changes: a policy set at this moment is either seen here, or its setter sees the failed dependency.
      guard word.canBeCancelledForDependency else { return word }
      noteFailedDependency(failed)
      isNoted = true
      var new = word
      new.cancel(isOwnerAlive ? .dependencyFailed : .ownerEnded)
      new.insert(.cancelClaimed)
      return new
    }
    if isNoted { forgetIfRemoved(failed) }
    if let change, change.turned(.cancelClaimed) { aftermath.handleCancellation(of: self) }
  }

  // MARK: As a dependency

  /// - Returns: false if this operation has finished.
  private func addDependent(_ cell: DependencyCell) -> Bool {
    let hadFinished = load().isFinished
    return lock.withLock {
      guard !(Mutation.dependentLooksTooEarly.isOn ? hadFinished : load().isFinished) else { return false }
      if firstDependent == nil {
        firstDependent = cell
        return true
      }
      let extras = makeExtras()
      if extras.dependents.count == extras.dependents.capacity { sweepDependents(extras) }
      extras.dependents.append(cell)
      return true
    }
  }

  /// Takes out the cells of dependents that have gone or, if there can be any, no longer wait for us. Done when the array would have to
  /// grow. Doubling what is left over keeps that amortised O(1). A cell whose dependent has gone is empty: letting go of it under the lock
  /// runs no code of the user's.
  private func sweepDependents(_ extras: OperationExtras) {
    guard extras.dependents.count >= 16 else { return }
    if extras.hasForgottenDependents {
      extras.hasForgottenDependents = false
      var known: Set<ObjectIdentifier> = []
      extras.dependents.removeAll { !$0.isWaiting(for: self) || !known.insert(ObjectIdentifier($0)).inserted }
    } else {
      extras.dependents.removeAll(where: \.isClosed)
    }
    if extras.dependents.count > extras.dependents.capacity / 2 { extras.dependents.reserveCapacity(extras.dependents.capacity * 2) }
  }

  /// The dependent has removed us. If its cell is easy to find, it goes now, unless we have been added again meanwhile. Otherwise it goes
  /// with the next sweep.
  private func forgetDependent(_ cell: DependencyCell) {
    lock.withLock {
      guard !cell.isWaiting(for: self) else {
        // Twice in the list, perhaps, or about to be.
        if !load().isFinished { makeExtras().hasForgottenDependents = true }
        return
      }
      if firstDependent === cell {
        firstDependent = nil
      } else if let extras, extras.dependents.last === cell {
        extras.dependents.removeLast()
      } else if !load().isFinished {
        // Further up in the list, or about to be entered by the thread that has added us.
        makeExtras().hasForgottenDependents = true
      }
    }
  }

  /// This operation was cancelled: dependents that require success need not wait for it to finish.
  final func cancelDependents(_ aftermath: inout Aftermath) {
    var cells: [DependencyCell] = []
    lock.withLock {
      if let extras { cells = extras.dependents }
      if let firstDependent { cells.append(firstDependent) }
    }
    for cell in cells { cell.waiting(for: self)?.cancel(for: self, &aftermath) }
  }
}

extension StateWord {
  fileprivate var canBeCancelledForDependency: Bool {
    contains(.requiresSuccess) && phase == .pending && !isCancelled
  }
}
