import Foundation
import Synchronization

/// A thread's worth of running a queue's work: dispatched to GCD when there is work, drains it in batches, leaves when there is none.
///
/// Worker objects are reused; threads are GCD's (but see `WorkerThreads`), and go when there is no work (but see `WorkerParking`). Each
/// worker has a serial GCD queue of its own, because GCD gives serial queues a thread at once even while all threads of the concurrent pool
/// are blocked.
final class Worker: ScheduledWorker, @unchecked Sendable {
  // Safe to share: constants, and fields of the thread that drains, as marked. What the queue's lock guards is the base's.

  private let hint: QueueHint
  private let reference: QueueReference?
  private let dispatchQueue: DispatchQueue
  let parking = WorkerParking()
  /// Made once, because GCD has to copy other closures to the heap each time.
  private lazy var drainBlock = makeDrainBlock()
  unowned(unsafe) let core: QueueCore  // a worker runs only while a drain holds the queue, and that its core
  private let host: Borrowed<AnyObject>

  /// Of the thread, while the worker drains. Begun by the thread before it begins anything, and ended under the queue's lock, so the
  /// thread is there as long as the lock is held.
  private let clock = ThreadClock()

  // Of the draining thread.
  /// The thread counts among those of `WorkerThreads`. Set by whoever dispatches, before that.
  private var isFromPool = false
  private(set) var lastBatchWasSmall = false
  /// In a wait of ours, which is counted otherwise, since the batch began.
  private var hasWaited = false
  /// When the last batch ended, if the worker has not waited since: the next one starts then.
  private var lastEnd: UInt64?
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
  private unowned(unsafe) var currentRun: (any NodeRun)?  // the record that began the chain keeps it
  private var currentNode: UInt32 = 0
  /// Of the bodies of jobs; here, because it has to stay in its place while they run.
  private let ownerFrame = UnsafeMutablePointer<OwnerBodyFrame>.allocate(capacity: 1)

  /// The dispatch queue is somebody else's, who wants to use it, too.
  let isGuest: Bool
  /// How long to drain a queue that is somebody else's before letting others have a turn, in nanoseconds.
  static let guestTime: UInt64 = 1_000_000

  init(_ core: QueueCore, generation: Int, name: String, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) {
    self.core = core
    host = core.hostObject
    hint = core.hint
    reference = core.reference
    isGuest = underlyingQueue != nil
    dispatchQueue = underlyingQueue ?? DispatchQueue(label: name, qos: qualityOfService.dispatchQoS)
    super.init(generation: generation)
  }

  deinit { ownerFrame.deallocate() }

  override func dispatch() {
    if let driver = core.driver { return driver.add(step(keeping: core.host)) }
    _ = Retained(host.object)  // until the drain is over
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
      reference?.whileThere { $0.removeIdleSlots() }
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
    let host = Retained(adopting: host).take()
    return withExtendedLifetime(host) { withAutoreleasePool { drain(core) } }
  }

  // MARK: The worker of this thread

  static var current: Worker? { ThreadSlot.worker.object(Worker.self) }

  @inline(__always)
  func becomeCurrent(_ body: () -> Void) {
    ThreadSlot.worker.with(self) {
      ThreadSlot.blockingObserver.with(self) {
        host.with { ThreadSlot.queue.with($0, body) }
      }
    }
  }

  func works(for core: QueueCore) -> Bool { self.core === core }

  // MARK: Running

  private static let batchTime: UInt64 = 50_000

  /// Whether records are so quick that taking the lock for each would take a good part of the time.
  var profitsFromSeveral: Bool { !takesOne && (lastRecordTime ?? 0) < Self.quickRecordTime }

  private static let quickRecordTime: UInt64 = 500

  /// Whether the next records are worth the two system calls: if the last took so long that these are 1 % of them.
  private var measuresUse: Bool { (lastRecordTime ?? 0) >= Self.leastMeasuredTime && core.driver == nil }

  private static let leastMeasuredTime: UInt64 = 50_000

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
    let usage = measuresUse ? Platform.threadUsage : nil
    hasWaited = false
    lastRecordTime = nil
    // Measured from here on, and not from the end of the last batch: a wait for the queue's lock is no part of a body.
    let start = usage == nil ? lastEnd ?? Uptime.now : Uptime.now
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
    if let usage, !hasWaited { lastUse = Platform.threadUsage?.use(since: usage, in: end - start) }
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
      core.run(operation, at: batch.level)
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
      if let executor = core.host { job.runSynchronously(on: executor.asUnownedTaskExecutor()) }
      end(index, .succeeded)
    case .graphNode(let run, let node):
      batch.setCountsItself(at: index)
      currentIndex = index
      run.run(from: node, on: self)
      end(index, .countsItself)
    }
  }

  /// The record goes back to where it came from, until somebody else holds its owner.
  /// - Parameter result: what becomes of the record if the owner has ended.
  private func holdBack(_ work: consuming Work, at index: Int, until hold: OwnerHold, otherwise result: WorkBatch.Result = .skipped) {
    isInRecord = false
    switch core.putBack(work, from: self) {
    case .waits(let slot): hold.keep(HeldBackSlot(slot, core))
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

  /// The worker forgets the operation before it begins another record, by an exchange of the cursor that is loaded here first; and has said
  /// before that the record counts itself.
  override func isInside(_ operation: OwnedOperation) -> Bool {
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

  func beginChain(of run: any NodeRun) {
    currentRun = run
    hasBlockedInChain = core.driver != nil  // then each node is a step of its own
  }

  @inline(__always)
  func setChainNode(_ node: UInt32) { currentNode = node }

  func endChain() { currentRun = nil }

  /// The node of the run that this thread is inside of.
  func graphNode(of run: any NodeRun) -> UInt32? { currentRun === run ? currentNode : nil }

  // MARK: Blocking

  override func willBlock(for target: WaitTarget) {
    hasWaited = true
    core.workerWillBlock(self, isForOwnWork: isInBody && includesOwnWork(target))
  }

  override func isStillBlocked(for target: WaitTarget) -> Bool {
    guard isInBody, core.keepsPermit(self) else { return false }
    guard includesOwnWork(target) else { return true }
    core.workerYields(self)
    return false
  }

  private func includesOwnWork(_ target: WaitTarget) -> Bool { core.host.map { target.includesWork(of: $0) } ?? false }

  override var driver: (any QueueDriver)? { core.driver }

  override func didUnblock() {
    hasBlockedInChain = true
    core.workerDidUnblock(self)
  }

  // MARK: For the monitor

  override var processorTime: UInt64? { clock.now }

  /// Whether there is something to run, given to the worker before it was dispatched.
  var hasWork: Bool { batch.hasRecords || barrier != nil }

  /// The worker has waited for work.
  func noteWait() { lastEnd = nil }

  func beginDrain() {
    lastEnd = nil
    clock.begin()
  }

  override func endDrain() { clock.end() }

  override func dismiss() { parking.dismiss() }
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

extension QueueCore: WorkerMaker {
  func makeWorker(_ generation: Int, name: String, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) -> ScheduledWorker {
    Worker(self, generation: generation, name: name, qualityOfService: qualityOfService, underlyingQueue: underlyingQueue)
  }
}
