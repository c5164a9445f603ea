import Foundation
import Synchronization

/// A thread's worth of running a queue's work: dispatched to GCD when there is work, drains it in batches, leaves when there is none.
///
/// Worker objects are reused; threads are GCD's (but see `WorkerThreads`), and go when there is no work (but see `WorkerParking`). Each
/// worker has a serial GCD queue of its own, because GCD gives serial queues a thread at once even while all threads of the concurrent pool
/// are blocked.
final class Worker: BlockingObserver, @unchecked Sendable {
  // Safe to share: constants, fields guarded by the queue's lock, and fields of the thread that drains, as marked.

  let batch = WorkBatch()
  private let hint: QueueHint
  private let reference: QueueReference?
  private let dispatchQueue: DispatchQueue
  let parking = WorkerParking()
  /// Made once, because GCD has to copy other closures to the heap each time.
  private lazy var drainBlock = makeDrainBlock()
  private unowned(unsafe) let queue: OwnerScopedQueue  // a worker runs only while a drain holds the queue

  // Guarded by the queue's lock.
  /// Position among the active workers.
  var place = 0
  /// Has been dispatched, and has neither begun what it was given nor looked for work.
  var isArriving = false
  var isStuck = false
  /// Blocked in a wait of ours.
  var isWaiting = false
  /// See `QueueState+Permits`.
  let permit = Permit()
  /// Blocked in code of the user's that is no body, or was until it looks for work again.
  var isOutside = false
  /// Of the batch, among all of the queue.
  var serial: UInt64 = 0
  var lastSeen = Sighting()
  var barrier: (@Sendable () -> Void)?

  /// Of the thread, while the worker drains. Begun by the thread before it begins anything, and ended under the queue's lock, so the
  /// thread is there as long as the lock is held.
  private let clock = ThreadClock()

  // Of the draining thread.
  private var batchSize = 1
  /// The thread counts among those of `WorkerThreads`. Set by whoever dispatches, before that.
  private var isFromPool = false
  private(set) var lastBatchWasSmall = false
  /// The last batch was of one record by rule, not for lack of others. Written under the lock.
  var takesOne = false
  /// When the last batch ended, if the worker has not waited since: the next one starts then.
  private var lastEnd: UInt64?
  /// How long the records of the last batch took each, in nanoseconds; nil if there was none.
  private(set) var lastRecordTime: UInt64?
  /// Whose work runs. It executes, so the slot is there.
  private(set) unowned(unsafe) var currentSlot: OwnerSlot?
  private var isInRecord = false
  private var isRecordOver = false
  /// The record's, which keeps it.
  private unowned(unsafe) var currentOperation: OwnedOperation? {
    didSet { currentAddress.store(currentOperation.map { UInt(bitPattern: Borrowed($0).address) } ?? 0, ordering: .releasing) }
  }
  /// The same for others, see `isLastOf(_:)`.
  private let currentAddress = Atomic<UInt>(0)
  private var currentIndex = 0
  private(set) var batchStart: UInt64 = 0
  /// How many graph nodes to run before the next look at the clock.
  var chainStep: UInt32 = 1
  private(set) var hasBlockedInChain = false
  private unowned(unsafe) var currentRun: GraphRun?  // the record that began the chain keeps it
  private var currentNode: UInt32 = 0
  /// Of the bodies of jobs; here, because it has to stay in its place while they run.
  private let ownerFrame = UnsafeMutablePointer<OwnerBodyFrame>.allocate(capacity: 1)

  /// What the monitor saw last.
  struct Sighting: Equatable {
    var serial: UInt64 = 0
    var position: UInt64 = 0
    var processorTime: UInt64 = 0
  }

  /// The dispatch queue is somebody else's, who wants to use it, too.
  let isGuest: Bool
  /// How long to drain a queue that is somebody else's before letting others have a turn, in nanoseconds.
  static let guestTime: UInt64 = 1_000_000
  /// Which make of worker this is; see `QueueState.workerMake`.
  let make: Int

  init(queue: OwnerScopedQueue, underlyingQueue: DispatchQueue?, name: String, qualityOfService: QualityOfService, make: Int) {
    self.queue = queue
    hint = queue.hint
    reference = queue.reference
    self.make = make
    isGuest = underlyingQueue != nil
    dispatchQueue = underlyingQueue ?? DispatchQueue(label: name, qos: qualityOfService.dispatchQoS)
  }

  deinit { ownerFrame.deallocate() }

  /// Called by whoever the queue has told to: once, until the worker has left again.
  func dispatch() {
    if let driver = queue.core.driver { return driver.add(step(of: queue)) }
    _ = Retained(queue)  // until the drain is over
    if parking.call() { return }
    isFromPool = !isGuest && WorkerThreads.takeFromPool()
    if isGuest || isFromPool || !ThreadStart.onNewThread(drainBlock) { ThreadStart.on(dispatchQueue, drainBlock) }
  }

  private func makeDrainBlock() -> @convention(block) @Sendable () -> Void {
    { [unowned(unsafe) self] in
      let worker = self  // which the queue may let go of in its drain
      let isFromPool = worker.isFromPool
      repeat {} while worker.drainQueue() && worker.waitForCall(mayPark: isFromPool)
      if isFromPool { WorkerThreads.giveBackToPool() }
    }
  }

  /// The queue has no other worker, and this one nothing to do.
  /// - Returns: whether it has been called again.
  private func waitForCall(mayPark: Bool) -> Bool {
    let tidyUp = { [reference] in
      reference?.queue?.removeIdleSlots()
      return
    }
    var isTidy = false
    let isCalled =
      mayPark
      && parking.park(tidyUp: {
        tidyUp()
        isTidy = true
      })
    if !isCalled, !isTidy { tidyUp() }
    return isCalled
  }

  /// - Returns: whether the queue has no other worker now.
  private func drainQueue() -> Bool {
    parking.begin()
    let queue = Retained(adopting: Borrowed(queue)).take()
    return withAutoreleasePool { drain(queue) }
  }

  // MARK: The worker of this thread

  static var current: Worker? { ThreadSlot.worker.object(Worker.self) }

  /// The queue that this thread works for.
  static var currentQueue: OwnerScopedQueue? { ThreadSlot.queue.object(OwnerScopedQueue.self) }

  @inline(__always)
  func becomeCurrent(_ body: () -> Void) {
    ThreadSlot.worker.with(self) {
      ThreadSlot.blockingObserver.with(self) {
        ThreadSlot.queue.with(queue, body)
      }
    }
  }

  func works(for queue: OwnerScopedQueue) -> Bool { self.queue === queue }

  // MARK: Running

  /// How many records to take: as many as take some 50 us, and never so many that other workers have to go without.
  /// - Parameter turns: with round robin, how many owners have a turn; a batch is a part of one round, lest an owner
  ///   that comes later has to wait for more than one job of each of the others.
  func batchLimit(ready: Int, turns: Int) -> Int {
    max(1, min(batchSize, ready / QueueState.processors, turns / (2 * QueueState.processors)))
  }

  private static let batchTime: UInt64 = 50_000

  /// Whether records are so quick that taking the lock for each would take a good part of the time.
  var profitsFromSeveral: Bool { !takesOne && (lastRecordTime ?? 0) < Self.quickRecordTime }

  private static let quickRecordTime: UInt64 = 500

  /// Runs what has been taken, until it is done or the queue wants this worker's attention.
  func run() {
    if let barrier {
      self.barrier = nil
      lastEnd = nil
      isInRecord = true
      barrier()
      isInRecord = false
      DeferredReleases.add(consume barrier)  // the barrier is over when this returns, whatever its captures do
      return
    }
    let level = batch.level
    lastRecordTime = nil
    let start = lastEnd ?? Uptime.now
    lastEnd = nil
    batchStart = start
    var count: UInt64 = 0
    var held = HeldOwner(ownerFrame)
    while true {
      // The deinit of the last owner is no body: it must not run with a record in hand.
      if held.isHolding { held.letGo(unlessFor: batch.nextLifetime) }
      guard let (index, work, lane) = batch.begin() else { break }
      let slot = lane.with { $0.unretainedSlot }
      slot.with { slot in execute(work, at: index, slot, &held) }
      count += 1
      if hint.wantsAttention(at: level) { break }
    }
    held.letGo()
    lastBatchWasSmall = count < 8
    guard count > 0 else { return }
    let end = Uptime.now
    lastEnd = end
    let each = (end - start) / count
    lastRecordTime = each
    batchSize = max(1, min(WorkBatch.capacity, batchSize * 2, Int(Self.batchTime / max(1, each))))
  }

  /// Runs one record. The record is over before what it captured is released, which is when this returns: a deinit of the user's is no
  /// body, and may wait for the queue.
  @inline(__always)
  private func execute(_ work: consuming Work, at index: Int, _ slot: OwnerSlot, _ held: inout HeldOwner) {
    currentSlot = slot
    isInRecord = true
    isRecordOver = false
    defer { currentSlot = nil }
    switch consume work {
    case .ownerBlock(let body):
      switch held.answer(for: slot) {
      case .begins(let owner):
        batch.setBegun()
        owner.with { body($0) }
        end(index, .succeeded)
      case .heldBack(let hold):
        holdBack(.ownerBlock(body), at: index, until: hold)
        held.letGo()
      case .gone: end(index, .skipped)
      }
    case .operation(let operation):
      held.letGoInBackground()
      batch.setCountsItself(at: index)
      if operation.holdsOwner, let hold = operation.beginForOwner() {
        return holdBack(.operation(operation), at: index, until: hold, otherwise: .countsItself)
      }
      (currentOperation, currentIndex) = (operation, index)
      queue.run(operation, at: batch.level)
      currentOperation = nil
      end(index, .countsItself)
      // May run the owner's deinit, which is no body.
      if operation.holdsOwner, !operation.isExecuting { operation.endForOwner() }
    case let work:
      held.letGoInBackground()
      execute(work, at: index, slot)
    }
  }

  private func execute(_ work: Work, at index: Int, _ slot: OwnerSlot) {
    switch work {
    case .ownerBlock, .operation: end(index, .skipped)  // see above
    case .block(let body):
      guard slot.mayStart else { return end(index, .skipped) }
      batch.setBegun()
      body()
      end(index, .succeeded)
    case .leavingBlock(let body):
      guard slot.mayStart else { return end(index, .skipped) }
      batch.setBegun()
      let remains = body()
      end(index, .succeeded)
      withExtendedLifetime(remains) {}
    case .sharedOwnerBlock(let shared):
      guard slot.mayStart else { return end(index, .skipped) }
      switch shared.hold.begin() {
      case .begins(let owner):
        batch.setBegun()
        shared.hold.call(shared.body, with: owner)
        end(index, .succeeded)
        shared.hold.end(owner)
      case .heldBack: holdBack(work, at: index, until: shared.hold)
      case .gone: end(index, .skipped)
      }
    case .executorJob(let job):
      batch.setBegun()
      job.runSynchronously(on: queue.asUnownedTaskExecutor())
      end(index, .succeeded)
    case .graphNode(let run, let node):
      batch.setCountsItself(at: index)
      currentIndex = index
      run.run(from: node, on: self, queue)
      end(index, .countsItself)
    }
  }

  /// The record goes back to where it came from, until somebody else holds its owner.
  /// - Parameter result: what becomes of the record if the owner has ended.
  private func holdBack(_ work: consuming Work, at index: Int, until hold: OwnerHold, otherwise result: WorkBatch.Result = .skipped) {
    isInRecord = false
    switch queue.putBack(work, from: self) {
    case .waits(let slot): hold.keep(HeldBackSlot(slot, queue))
    case .ended(let work):
      end(index, result)
      withExtendedLifetime(work) {}
    case .cancelled(let work):
      end(index, .cancelled)
      withExtendedLifetime(work) {}
    }
  }

  @inline(__always)
  private func end(_ index: Int, _ result: WorkBatch.Result) {
    // From then on others read the result: it is written once.
    if !isRecordOver { batch.setOver(result, at: index) }
    isInRecord = false
  }

  /// What runs from now on until the record's end, observers and deinits, is no body.
  override func bodyDidEnd(of work: AnyObject) {
    guard isInRecord, work === currentOperation || work === currentRun else { return }
    batch.setOver(.countsItself, at: currentIndex)
    isRecordOver = true
    isInRecord = false
  }

  /// The unfinished work that this thread, the worker's, is inside of: a body, or what releases an operation's captures before that
  /// finishes. Under the queue's lock, which an operation that is finished from elsewhere needs before its record is counted.
  var unfinishedWork: WaitList.Inside? {
    guard let operation = currentOperation else { return isInRecord ? WaitList.Inside(lifetime: currentSlot?.lifetime) : nil }
    guard !operation.load().isFinished else { return nil }
    return WaitList.Inside(lifetime: operation.lifetime, operation: ObjectIdentifier(operation))
  }

  /// Whether the record that the worker has begun last is the operation's, and not over. Under the queue's lock, after the rest of the
  /// batch has been taken back: nothing else can begin then. The operation must not have been released.
  ///
  /// The worker forgets the operation before it begins another record, by an exchange of the cursor that is loaded here first; and has said
  /// before that the record counts itself.
  func isInside(_ operation: OwnedOperation) -> Bool {
    batch.hasBegun && currentAddress.load(ordering: .acquiring) == UInt(bitPattern: Borrowed(operation).address)
  }

  /// The operation that this thread, which is the worker's, is inside of.
  var operationInside: ObjectIdentifier? { currentOperation.map { ObjectIdentifier($0) } }

  /// Whether this thread, which is the worker's, is inside of a body: of a job, a node or a barrier, or of an operation that has not
  /// finished.
  var isInBody: Bool { isInRecord && !(currentOperation?.load().isFinished ?? false) }

  /// The lane of the record that this thread, the worker's, is inside of, if that is of a line. Under the queue's lock.
  var currentLane: Lane? { currentSlot == nil ? nil : batch.currentLane }

  // MARK: Graphs

  func beginChain(of run: GraphRun) {
    currentRun = run
    hasBlockedInChain = queue.core.driver != nil  // then each node is a step of its own
  }

  @inline(__always)
  func setChainNode(_ node: UInt32) { currentNode = node }

  func endChain() { currentRun = nil }

  /// The node of the run that this thread is inside of.
  func graphNode(of run: GraphRun) -> UInt32? { currentRun === run ? currentNode : nil }

  // MARK: Blocking

  override func willBlock(for target: WaitTarget) {
    queue.workerWillBlock(self, isForOwnWork: isInBody && target.includesWork(of: queue))
  }

  override func isStillBlocked(for target: WaitTarget) -> Bool {
    guard isInBody, queue.keepsPermit(self) else { return false }
    guard target.includesWork(of: queue) else { return true }
    queue.workerYields(self)
    return false
  }

  override var driver: (any QueueDriver)? { queue.driver }

  override func didUnblock() {
    hasBlockedInChain = true
    queue.workerDidUnblock(self)
  }

  // MARK: For the monitor

  /// Processor time used by the draining thread, in nanoseconds; nil where that can't be told.
  var processorTime: UInt64? { clock.now }

  /// Whether there is something to run, given to the worker before it was dispatched.
  var hasWork: Bool { batch.hasRecords || barrier != nil }

  /// The worker has waited for work.
  func noteWait() { lastEnd = nil }

  func beginDrain() {
    lastEnd = nil
    clock.begin()
  }

  func endDrain() { clock.end() }
}

extension QualityOfService {
  var dispatchQoS: DispatchQoS {
    switch self {
    case .userInteractive: .userInteractive
    case .userInitiated: .userInitiated
    case .utility: .utility
    case .background: .background
    default: .default
    }
  }
}
