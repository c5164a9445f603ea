import Foundation

/// How the queue takes operations in, starts them when they are ready, and hears of their end.
///
/// An operation is attached and registered in one hold of the lock, and stays registered until it has told us of its finish. When it is ready it
/// also has a record in a ready list; a record whose operation has been started or has finished meanwhile, or has moved to
/// another priority, is found out when its turn comes. The claim that `startIfReady` makes in the operation's own state word sees to it that it is started once.
extension OwnerScopedQueue: OperationScheduler {
  /// Adds operations, all of them or, if an error is thrown, none.
  ///
  /// Linear in the operations and, to find cycles, in what they depend on.
  /// - Throws: ``OwnerScopedQueueError`` if an operation stands in the list twice, is in a queue already, has been started, belongs to an
  ///   owner that has ended, or if dependencies form a cycle, which is named.
  public func enqueue(_ operations: [Operation]) throws(OwnerScopedQueueError) {
    var seen = Set<ObjectIdentifier>()
    for operation in operations where !seen.insert(ObjectIdentifier(operation)).inserted {
      throw .duplicateOperation(OwnedOperation.label(of: operation))
    }
    try OwnedOperation.checkForCycles(in: operations)
    try add(operations)
  }

  /// Adds without looking for cycles. All or nothing.
  func add(_ operations: [Operation]) throws(OwnerScopedQueueError) {
    var scheduled: [OwnedOperation] = []
    scheduled.reserveCapacity(operations.count)
    do throws(OwnerScopedQueueError) {
      for operation in operations { scheduled.append(try self.scheduled(operation)) }
    } catch {
      for case let proxy as PlainOperationProxy in scheduled { proxy.abandon() }
      throw error
    }
    if let refusal = attach(scheduled) {
      for case let proxy as PlainOperationProxy in scheduled { proxy.abandon() }
      throw refusal
    }
    for operation in scheduled {
      if type(of: operation) == PlainOperationProxy.self, !operation.isReadyByDependencies { watch(operation, at: nil) }
      // Those cancelled before have nothing to wait for, not even for a suspended queue. A worker may have come first.
      if operation.isCancelled { _ = operation.startIfReady() }
    }
  }

  /// One of ours, which is most usual. Costs no arrays.
  func add(_ operation: OwnedOperation) throws(OwnerScopedQueueError) {
    lock.lock()
    switch insert(operation) {
    case .refused(let error):
      lock.unlock()
      throw error
    case .ready(let place): makeReady(place)
    case .blocked: break
    }
    state.statistics.enqueued += 1
    state.unfinished += 1
    unlockAndFollowUp()
    if operation.isCancelled { _ = operation.startIfReady() }
  }

  /// The operation itself if it is ours, or one of ours that runs it.
  private func scheduled(_ operation: Operation) throws(OwnerScopedQueueError) -> OwnedOperation {
    if let owned = operation as? OwnedOperation { return owned }
    return try PlainOperationProxy(running: operation, for: self)
  }

  private func attach(_ operations: [OwnedOperation]) -> OwnerScopedQueueError? {
    lock.lock()
    var attached = 0
    var refusal: OwnerScopedQueueError?
    var ready: [OwnedOperation] = []
    for operation in operations {
      switch insert(operation) {
      case .refused(let error): refusal = error
      case .ready: ready.append(operation)
      case .blocked: break
      }
      if refusal != nil { break }
      attached += 1
    }
    if let refusal {
      for operation in operations.prefix(attached) {
        if let slot = state.operations.remove(operation)?.slot { slot.stage.finish(slot) }
        operation.detach()
      }
      lock.unlock()
      return refusal
    }
    state.statistics.enqueued += attached
    state.unfinished += attached
    // Their places are looked up only now: each insertion may have moved those before it.
    for operation in ready {
      if let place = state.operations.place(of: operation) { makeReady(place) }
    }
    unlockAndFollowUp()
    return nil
  }

  private enum InsertResult {
    /// To be made ready at this place, which is good until the next insertion.
    case ready(Int)
    case blocked
    case refused(OwnerScopedQueueError)
  }

  /// Attaches and registers the operation. Under the lock.
  private func insert(_ operation: OwnedOperation) -> InsertResult {
    var isReady = false
    switch operation.attach(to: self) {
    case .refused(let error): return .refused(error)
    case .ready: isReady = true
    case .blocked: break
    }
    let slot = state.lastStage._withUnsafeGuaranteedRef { stage in
      let owners = self.slot(for: operation, in: stage)
      owners._withUnsafeGuaranteedRef { stage.addBlocked($0) }
      return owners
    }
    let place = state.operations.insert(operation, slot: slot)
    return isReady ? .ready(place) : .blocked
  }

  /// For an owner that is just ending, the work goes without one: it will be finished by its own lifetime.
  private func slot(for operation: OwnedOperation, in stage: Stage) -> Unmanaged<OwnerSlot> {
    let lifetime = Unmanaged.passUnretained(operation.lifetime)
    let isOwn = lifetime.toOpaque() == Unmanaged.passUnretained(ownLifetime).toOpaque()
    return stage.slot(for: isOwn ? nil : lifetime, queue: self) ?? .passUnretained(stage.slotWithoutOwner)
  }

  /// Under the lock.
  func makeReady(_ place: Int) {
    let entry = state.operations[place]
    let level = Self.level(of: entry.unretainedOperation._withUnsafeGuaranteedRef { $0.scheduledPriority })
    guard entry.levels & 1 << level == 0 else { return }
    state.operations[place].levels |= 1 << level
    let record = entry.unretainedSlot._withUnsafeGuaranteedRef { slot in
      slot.unretainedStage._withUnsafeGuaranteedRef {
        $0.makeReady(slot: slot, level: level, pool: &state.pool, ownerLimit: state.ownerLimit)
      }
    }
    record.initialize(to: .operation(entry.operation))
  }

  // MARK: Running

  /// On a worker: starts the operation whose turn it is.
  func run(_ operation: OwnedOperation, at level: Int) {
    guard operation.state != .finished, isCurrent(operation, at: level) else { return }
    guard !operation.mayHaveCondition || !operation.isReadyByDependencies || operation.isReady else {
      watch(operation, at: level)
      return
    }
    let qualityOfService = operation.explicitQualityOfService
    let isStarted = qualityOfService.map { start(operation, with: $0) } ?? operation.startIfReady()
    if !isStarted {
      useUp(operation, at: level)
    } else if operation.isExecuting {
      detach(operation)
    }
  }

  private func start(_ operation: OwnedOperation, with qualityOfService: QualityOfService) -> Bool {
    var isStarted = false
    DispatchWorkItem(qos: qualityOfService.dispatchQoS, flags: .enforceQoS) { isStarted = operation.startIfReady() }.perform()
    return isStarted
  }

  /// Whether the record is the one to go by. If the priority has been changed since it was made, there is another.
  private func isCurrent(_ operation: OwnedOperation, at level: Int) -> Bool {
    let current = Self.level(of: operation.scheduledPriority)
    guard current != level else { return true }
    return lock.withLock {
      guard let place = state.operations.place(of: operation) else { return false }
      state.operations[place].levels &= ~(1 << level)
      return state.operations[place].levels & 1 << current == 0
    }
  }

  /// The record led to no start: the operation was started by another record, or is blocked again. If it became ready in the meantime, that went by the record.
  private func useUp(_ operation: OwnedOperation, at level: Int) {
    lock.lock()
    if let place = state.operations.place(of: operation) {
      state.operations[place].levels &= ~(1 << level)
      if operation.isWaitingForScheduler { makeReady(place) }
    }
    unlockAndFollowUp()
  }

  /// The operation goes on without a thread of ours.
  private func detach(_ operation: OwnedOperation) {
    lock.lock()
    if let place = state.operations.place(of: operation), !state.operations[place].isDetached {
      state.operations[place].isDetached = true
      state.detached += 1
      let slot = state.operations[place].slot
      slot.stage.changeExecuting(slot, by: 1)
    }
    unlockAndFollowUp()
  }

  // MARK: OperationScheduler

  func operationDidBecomeReady(_ operation: OwnedOperation) {
    lock.lock()
    if let place = state.operations.place(of: operation) { makeReady(place) }
    unlockAndFollowUp()
  }

  func operationDidBegin() { begunOperations.add() }

  func operationDidFinish(_ operation: OwnedOperation) {
    lock.lock()
    if operation.didRun { state.endedOperations += 1 }
    guard let entry = state.operations.remove(operation) else {
      lock.unlock()
      return
    }
    state.statistics.count(operation)
    let isProgress = state.progress != nil && (operation as? PlainOperationProxy)?.ranToItsEnd ?? operation.didRun
    state.finish(1, withoutRunning: isProgress ? 0 : 1)
    if entry.isDetached { state.detached -= 1 }
    let deadRecords = entry.levels.nonzeroBitCount - (operation.didRun ? 1 : 0)
    entry.unretainedSlot._withUnsafeGuaranteedRef { slot in
      slot.unretainedStage._withUnsafeGuaranteedRef { stage in
        stage.finish(slot)
        if entry.isDetached { stage.changeExecuting(slot, by: -1) }
      }
      if deadRecords > 0 {
        for level in 0..<Stage.levelCount where entry.levels & 1 << level != 0 { state.noteDead(1, level: level, of: slot) }
      }
      state.afterFinish(of: slot)
    }
    unlockAndFollowUp()
  }

  func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority) {
    lock.lock()
    if let place = state.operations.place(of: operation), state.operations[place].levels != 0 { makeReady(place) }
    unlockAndFollowUp()
  }

  // MARK: Priorities of plain operations

  /// Nobody tells us when the priority of a plain operation is changed. So it is looked for when the queue is resumed, and when a plain operation finishes, before the next is taken; but for
  /// no more than a twentieth of the time, because it is linear in the operations.
  func followPriorities(isResuming: Bool) {
    let start = DispatchTime.now().uptimeNanoseconds
    let operations = lock.withLock {
      isResuming || start >= state.nextLookAtPriorities ? state.operations.operations : []
    }
    guard operations.count > (isResuming ? 0 : 1) else { return }
    // Outside the lock: a subclass may have overridden the property.
    for case let proxy as PlainOperationProxy in operations {
      let priority = proxy.operation.queuePriority
      if proxy.queuePriority != priority { proxy.queuePriority = priority }
    }
    let end = DispatchTime.now().uptimeNanoseconds
    lock.withLock { state.nextLookAtPriorities = end + 20 * (end - start) }
  }

  // MARK: Operations with a condition of their own

  private static let examinationInterval: UInt64 = 10_000_000

  /// Keeps an operation that says itself that it is not ready. Nobody may tell us when that changes, so it is asked again whenever workers leave, and by
  /// a timer.
  private func watch(_ operation: OwnedOperation, at level: Int?) {
    lock.lock()
    if let level, let place = state.operations.place(of: operation) { state.operations[place].levels &= ~(1 << level) }
    state.watched.append(operation)
    let isScheduled = state.isExaminationScheduled
    state.isExaminationScheduled = true
    unlockAndFollowUp()
    if !isScheduled { scheduleExamination() }
  }

  private func scheduleExamination() {
    DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .nanoseconds(Int(Self.examinationInterval))) { [reference] in
      reference?.queue?.examineWatchedAgain()
    }
  }

  func examineWatchedAgain() {
    examineWatched()
    let isOver = lock.withLock {
      state.isExaminationScheduled = !state.watched.isEmpty
      return state.watched.isEmpty
    }
    if !isOver { scheduleExamination() }
  }

  /// Asks those that were not ready again. Outside the lock: the answer is the user's code.
  func examineWatched() {
    var watched: [OwnedOperation] = []
    lock.withLock { swap(&watched, &state.watched) }
    guard !watched.isEmpty else { return }
    let waiting = watched.filter { !$0.isReady }
    // What Foundation holds to be ready is ready: its dependencies may have been removed behind our back.
    for case let proxy as PlainOperationProxy in watched where proxy.operation.isCancelled || proxy.operation.isReady {
      proxy.dropDependencies()
    }
    lock.lock()
    state.watched += waiting.filter { state.operations.place(of: $0) != nil }
    // The timer may have looked while they were away, and found nobody to come back for.
    let needsTimer = !state.watched.isEmpty && !state.isExaminationScheduled
    if needsTimer { state.isExaminationScheduled = true }
    let stillWaiting = Set(waiting.map(ObjectIdentifier.init))
    for operation in watched where !stillWaiting.contains(ObjectIdentifier(operation)) {
      if let place = state.operations.place(of: operation), operation.isReadyByDependencies { makeReady(place) }
    }
    unlockAndFollowUp()
    if needsTimer { scheduleExamination() }
  }
}
