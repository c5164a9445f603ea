import Foundation
import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// A thread's worth of running a queue's work: dispatched to GCD when there is work, drains it in batches, leaves when there is none.
///
/// Worker objects are reused; threads are GCD's (but see `WorkerThreads`), and go when there is no work (but see `WorkerParking`). Each worker has a serial GCD queue of its own, because GCD
/// gives serial queues a thread at once even while all threads of the concurrent pool are blocked.
final class Worker: BlockingObserver, @unchecked Sendable {
  // Safe to share: constants, fields guarded by the queue's lock, and fields of the thread that drains, as marked.

  let batch = WorkBatch()
  private let hint: QueueHint
  private let dispatchQueue: DispatchQueue
  let parking = WorkerParking()
  /// Made once, because GCD has to copy other closures to the heap each time.
  private lazy var drain = makeDrain()
  private unowned(unsafe) let queue: OwnerScopedQueue  // a worker runs only while a drain holds the queue

  // Guarded by the queue's lock.
  /// Position among the active workers.
  var place = 0
  /// Has been dispatched, and has neither begun what it was given nor looked for work.
  var isArriving = false
  var isStuck = false
  /// Blocked in a wait of ours.
  var isWaiting = false
  /// Counts batches, so that the monitor can tell a new batch from the same one.
  var serial: UInt64 = 0
  var lastSeen = Sighting()
  var barrier: (@Sendable () -> Void)?

  #if !canImport(Darwin)
    /// The clock of the thread's processor time while the worker drains, 0 otherwise. Set by the thread before it begins anything, and cleared under the queue's lock, so the
    /// thread is there as long as the lock is held.
    private let clock = Atomic<clockid_t>(0)
  #endif

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
  private(set) var batchStart: UInt64 = 0
  /// How many graph nodes to run before the next look at the clock.
  var chainStep: UInt32 = 1
  private(set) var hasBlockedInChain = false
  private unowned(unsafe) var currentRun: GraphRun?  // the record that began the chain keeps it
  private var currentNode: UInt32 = 0

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
    self.make = make
    isGuest = underlyingQueue != nil
    dispatchQueue = underlyingQueue ?? DispatchQueue(label: name, qos: qualityOfService.dispatchQoS)
  }

  /// Called by whoever the queue has told to: once, until the worker has left again.
  func dispatch() {
    _ = Unmanaged.passRetained(queue)  // until the drain is over
    if parking.call() { return }
    isFromPool = !isGuest && WorkerThreads.takeFromPool()
    if isGuest || isFromPool || !WorkerThreads.runOnThreadOfItsOwn(drain) { dispatchQueue.async(execute: drain) }
  }

  private func makeDrain() -> @convention(block) @Sendable () -> Void {
    { [unowned(unsafe) self] in
      let worker = self  // which the queue may let go of in its drain
      let isFromPool = worker.isFromPool
      repeat {} while worker.drainQueue() && isFromPool && worker.parking.park()
      if isFromPool { WorkerThreads.giveBackToPool() }
    }
  }

  /// - Returns: whether the queue has no other worker now.
  private func drainQueue() -> Bool {
    parking.begin()
    let queue = Unmanaged.passUnretained(queue).takeRetainedValue()
    #if canImport(ObjectiveC)
      return autoreleasepool { queue.drain(self) }
    #else
      return queue.drain(self)
    #endif
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
      barrier()
      return
    }
    let level = batch.level
    lastRecordTime = nil
    let start = lastEnd ?? DispatchTime.now().uptimeNanoseconds
    lastEnd = nil
    batchStart = start
    var count: UInt64 = 0
    var held = HeldOwner()
    while let (index, work, lane) = batch.begin() {
      let slot = lane._withUnsafeGuaranteedRef { $0.unretainedSlot }
      let result = slot._withUnsafeGuaranteedRef { slot in execute(work, slot, &held) }
      batch.setResult(result, at: index)
      count += 1
      if hint.wantsAttention(at: level) { break }
    }
    held.letGo()
    lastBatchWasSmall = count < 8
    guard count > 0 else { return }
    let end = DispatchTime.now().uptimeNanoseconds
    lastEnd = end
    let each = (end - start) / count
    lastRecordTime = each
    batchSize = max(1, min(WorkBatch.capacity, batchSize * 2, Int(Self.batchTime / max(1, each))))
  }

  /// Runs one record. What it captured is released when this returns.
  @inline(__always)
  private func execute(_ work: consuming Work, _ slot: OwnerSlot, _ held: inout HeldOwner) -> WorkBatch.Result {
    currentSlot = slot
    defer { currentSlot = nil }
    switch consume work {
    case .ownerBlock(let body):
      guard let owner = held.object(of: slot) else { return .skipped }
      batch.setBegun()
      owner._withUnsafeGuaranteedRef { body($0) }
      return .succeeded
    case .operation(let operation):
      held.letGo()
      queue.run(operation, at: batch.level)
      return .countsItself
    case let work:
      held.letGo()
      return execute(work, slot)
    }
  }

  private func execute(_ work: Work, _ slot: OwnerSlot) -> WorkBatch.Result {
    switch work {
    case .ownerBlock, .operation: return .skipped  // see above
    case .block(let body):
      guard slot.mayStart else { return .skipped }
      batch.setBegun()
      body()
      return .succeeded
    case .reportingBlock(let body):
      guard slot.mayStart else { return .skipped }
      return body(batch)
    case .executorJob(let job):
      batch.setBegun()
      job.runSynchronously(on: queue.asUnownedTaskExecutor())
      return .succeeded
    case .graphNode(let run, let node):
      run.run(from: node, on: self, queue)
      return .countsItself
    }
  }

  // MARK: Graphs

  func beginChain(of run: GraphRun) {
    currentRun = run
    hasBlockedInChain = false
  }

  @inline(__always)
  func setChainNode(_ node: UInt32) { currentNode = node }

  func endChain() { currentRun = nil }

  /// The node of the run that this thread is inside of.
  func graphNode(of run: GraphRun) -> UInt32? { currentRun === run ? currentNode : nil }

  // MARK: Blocking

  override func willBlock() {
    queue.workerWillBlock(self)
  }

  override func didUnblock() {
    hasBlockedInChain = true
    queue.workerDidUnblock(self)
  }

  // MARK: For the monitor

  /// Processor time used by the draining thread, in nanoseconds; nil where that can't be told.
  var processorTime: UInt64? {
    #if canImport(Darwin)
      return nil
    #else
      let clock = clock.load(ordering: .relaxed)
      guard clock != 0 else { return nil }
      var time = timespec()
      guard clock_gettime(clock, &time) == 0 else { return nil }
      return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    #endif
  }

  /// Whether there is something to run, given to the worker before it was dispatched.
  var hasWork: Bool { batch.hasRecords || barrier != nil }

  /// The worker has waited for work.
  func noteWait() { lastEnd = nil }

  func beginDrain() {
    lastEnd = nil
    #if !canImport(Darwin)
      var own = clockid_t()
      if pthread_getcpuclockid(pthread_self(), &own) == 0 { clock.store(own, ordering: .relaxed) }
    #endif
  }

  func endDrain() {
    #if !canImport(Darwin)
      clock.store(0, ordering: .relaxed)
    #endif
  }
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
