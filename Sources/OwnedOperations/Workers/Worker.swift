import Foundation
import Synchronization

/// A thread's worth of running a queue's work: dispatched when there is work, drains it in batches, leaves when there is none.
///
/// Worker objects are reused, and have no threads of their own: see `WorkerThreads`. Guests run on the dispatch queue that the user has
/// named as the underlying one.
final class Worker: DueWorker {
  // Constants, and fields of the thread that drains, as marked. What the queue's lock guards is the base's.

  let hint: QueueHint
  private let reference: QueueReference?
  /// Where it runs; nil for a guest.
  let threads: WorkerThreads?
  /// Where a guest runs.
  private let dispatchQueue: DispatchQueue?
  private let borrowedCore: Borrowed<QueueCore>  // a worker runs only while a drain holds the queue, and that its core
  private let host: Borrowed<AnyObject>

  /// Of the thread, while the worker drains. Begun by the thread before it begins anything, and ended under the queue's lock. So the
  /// thread is there as long as the lock is held.
  private let clock = ThreadClock()

  // Of the draining thread.
  var lastBatchWasSmall = false
  var gathering = Gathering()
  /// A job of the batch has added work to the same queue.
  var hasFedQueue = false
  /// In a wait of ours, which is counted otherwise, since the batch began.
  var hasWaited = false
  /// When the last batch ended, if the worker has not waited since: the next one starts then.
  var lastEnd: UInt64?
  var isInItem = false
  var isItemOver = false
  /// The item's, which keeps it.
  @Uncounted private var currentOperation: OwnedOperation? {  // not counted: that is in a cache line that others want
    didSet { currentAddress.store(currentOperation.map { UInt(bitPattern: Borrowed($0).address) } ?? 0, ordering: .releasing) }
  }
  /// The address of `currentOperation`, for other threads; see `isInside(_:)`.
  private let currentAddress = Atomic<UInt>(0)
  var currentIndex = 0
  var batchStart: UInt64 = 0
  /// How many graph nodes to run before the next look at the clock.
  var chainStep: UInt32 = 1
  private(set) var hasBlockedInChain = false
  /// How many nested jobs to run before the next look at the clock.
  var nestedStep: UInt32 = 1
  /// The time of a deep list was up.
  var leavesFamilies = false
  /// Whether this thread is inside of a job's body, whose nested work may be kept.
  var isInJob = false
  @Uncounted private var currentRun: AnyObject?  // the item that began the chain keeps it
  private var currentNode: UInt32 = 0
  /// Of the bodies of jobs; here, because it has to stay in its place while they run.
  let ownerFrame = RawStorage<OwnerBodyFrame>(capacity: 1)
  private var operationsGivenBack: UInt = 0
  private var nodeOwner = NodeOwner()

  var core: QueueCore { borrowedCore.object }
  /// The dispatch queue is somebody else's, who wants to use it, too.
  var isGuest: Bool { threads == nil }

  init(_ core: QueueCore, generation: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) {
    borrowedCore = Borrowed(core)
    host = core.hostObject
    hint = core.hint
    reference = core.reference
    threads = underlyingQueue == nil ? .of(qualityOfService) : nil
    dispatchQueue = underlyingQueue
    super.init(generation: generation)
  }

  override func dispatch() {
    _ = Retained(host.object)  // until the drain is over
    if let threads { return threads.run(self) }
    guard let dispatchQueue else { return }
    let borrowed = Borrowed(self)  // the queue keeps the worker, and is kept until the drain is over
    ThreadStart.on(dispatchQueue) {
      let worker = borrowed.object  // which the queue may let go of in its drain
      if let queue = worker.drainQueue() { IdleQueues.note(queue) }
    }
  }

  override func dispatchToDriver(isShuffled: Bool) { core.driver?.add(step(keeping: core.host, isShuffled: isShuffled)) }

  override func drainQueue() -> (any IdleQueue)? {
    let (host, reference) = (Retained(adopting: host).take(), reference)
    let isLast = withExtendedLifetime(host) { drain(core) }
    return isLast ? reference : nil
  }

  override var queue: AnyObject? { host.object }

  // MARK: The worker of this thread

  static var isOnThisThread: Bool { ThreadSlot.worker.pointer != nil }

  static var current: Worker? { ThreadSlot.worker.object(Worker.self) }

  func becomeCurrent(_ body: () -> Void) {
    ThreadSlot.worker.with(self) {
      ThreadSlot.blockingObserver.with(self) {
        host.with { ThreadSlot.queue.with($0, body) }
      }
    }
  }

  func works(for core: QueueCore) -> Bool { borrowedCore.refers(to: core) }

  /// A job is about to be added by this thread, which may be a worker's.
  static func noteAddition(to core: QueueCore) {
    guard let address = ThreadSlot.worker.pointer else { return }
    Borrowed<Worker>(address: address).with { worker in
      if worker.works(for: core) { worker.hasFedQueue = true }
    }
  }

  // MARK: What a record has to say when it begins

  /// The worker that has begun a record's item, as what it is: no other class begins any.
  static func of(_ worker: AnyObject) -> Worker { unsafeDowncast(worker, to: Worker.self) }

  /// Whether the owner of the item in hand lives.
  var mayStart: Bool { currentOwnerQueue?.mayStart ?? true }

  /// Starts the operation, which the thread is inside of until that has returned; and ends its item.
  func run(_ operation: OwnedOperation, at index: Int) {
    (currentOperation, currentIndex) = (operation, index)
    core.run(operation, at: batch.level)
    currentOperation = nil
    end(index, .countsItself)
  }

  /// The item is over, and was all that the worker has to do with the operation.
  func giveBackIfSpent(_ operation: OwnedOperation) {
    guard operation.isSpent, !hint.flags.isEmpty || batch.hasItems, core.driver == nil, !Haste.isForced else { return }
    hasGivenBack = true
    operationsGivenBack &+= 1
    core.giveBack(operation, turn: operationsGivenBack)
  }

  /// There was nothing more to run.
  func takeBackAll() {
    guard hasGivenBack else { return }
    hasGivenBack = false
    core.takeBackAll()
  }

  /// The item goes back to where it came from, until somebody else holds its owner.
  /// - Parameter result: what becomes of the item if the owner has ended.
  func holdBack(_ work: consuming WorkItem, at index: Int, until hold: OwnerHold, otherwise result: WorkBatch.Result = .skipped) {
    isInItem = false
    switch core.putBack(work, from: self) {
    case .waits(let ownerQueue): hold.keep(HeldBackOwnerQueue(ownerQueue, core))
    // The owner is still held, and a deinit of what the work has captured may wait for its end.
    case .ended(let work):
      end(index, result)
      DeferredReleases.add(work)
    case .cancelled(let work):
      end(index, .cancelled)
      DeferredReleases.add(work)
    }
  }

  /// Only for `Mutation.capturesGoInTheBody`: what the item captured has gone.
  func endLate() {
    if Mutation.capturesGoInTheBody.isOn, isInItem { end(currentIndex, .succeeded) }
  }

  func beginJob() {
    isInJob = true
    batch.setBegun()
  }

  func end(_ index: Int, _ result: WorkBatch.Result) {
    // From then on others read the result: it is written once.
    if !isItemOver { batch.setOver(result, at: index) }
    (isInItem, isInJob) = (false, false)
  }

  /// What runs from now on until the item's end, observers and deinits, is no body.
  override func bodyDidEnd(of work: AnyObject) {
    guard isInItem, work === currentOperation || work === currentRun else { return }
    batch.setOver(.countsItself, at: currentIndex)
    isItemOver = true
    isInItem = false
    // What goes with the run may block, and must not keep the last node's owner. A driver lets go of that where all can foresee it.
    if core.driver == nil { nodeOwner.letGoInBackground() }
  }

  /// The unfinished work that this thread, the worker's, is inside of: a body, or what releases an operation's captures before that
  /// finishes. Under the queue's lock, which an operation that is finished from elsewhere needs before its item is counted.
  var unfinishedWork: WaitList.Inside? {
    guard let operation = currentOperation else { return isInItem ? WaitList.Inside(lifetime: currentOwnerQueue?.lifetime) : nil }
    guard !operation.load().isFinished else { return nil }
    return WaitList.Inside(lifetime: operation.lifetime, operation: ObjectIdentifier(operation))
  }

  /// Before the worker begins another item, by an exchange of the cursor that is loaded here first, it forgets the operation. It has said
  /// before that the item counts itself.
  override func isInside(_ work: AnyObject) -> Bool {
    batch.hasBegun && currentAddress.load(ordering: .acquiring) == UInt(bitPattern: Borrowed(work).address)
  }

  /// The operation that this thread, which is the worker's, is inside of.
  var operationInside: ObjectIdentifier? { currentOperation.map { ObjectIdentifier($0) } }

  /// Whether this thread, which is the worker's, is inside of a body. That is a job's, a node's or a barrier's, or that of an operation
  /// that has not finished.
  var isInBody: Bool { isInItem && !(currentOperation?.load().isFinished ?? false) }

  /// The flow of the item that this thread, the worker's, is inside of, if that is of a line. Under the queue's lock.
  var currentFlow: Flow? { currentOwnerQueue == nil ? nil : batch.currentFlow }

  // MARK: Graphs

  /// The thread is inside of the run until `endChain`.
  func beginChain(of run: AnyObject, at index: Int) {
    (currentRun, currentIndex) = (run, index)
    hasBlockedInChain = core.driver != nil  // then each node is a step of its own
  }

  func setChainNode(_ node: UInt32) { currentNode = node }

  func endChain() { currentRun = nil }

  /// Whether a node may begin that gets the owner. On a worker's thread.
  static func beginNode(of hold: OwnerHold) -> OwnerHold.Beginning { current?.nodeOwner.begin(hold) ?? hold.begin() }

  /// The body of a node has returned that has begun with the object.
  static func endNode(of hold: OwnerHold, _ object: Retained<AnyObject>) {
    if let worker = current { worker.nodeOwner.end(hold, object) } else { hold.endInBackground(object) }
  }

  /// Before the next node, which is in hand.
  /// - Parameter holdsOwner: it gets its owner.
  func letGoOfNodeOwner(unlessNext holdsOwner: Bool) {
    if nodeOwner.isKept, !holdsOwner { nodeOwner.letGoInBackground() }
  }

  /// The item is over, and no node is in hand. May run the owner's deinit, which is no body.
  func letGoOfNodeOwner() {
    if let (hold, owner) = nodeOwner.take() { hold.end(owner) }
  }

  /// The node of the run that this thread is inside of.
  func graphNode(of run: AnyObject) -> UInt32? { currentRun === run ? currentNode : nil }

  // MARK: Blocking

  override func willBlock(for target: WaitTarget) {
    hasWaited = true
    core.workerWillBlock(self, isForOwnWork: isInBody && (includesOwnWork(target) || Mutation.everyWaitYields.isOn))
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
  var hasWork: Bool { batch.hasItems || barrier != nil }

  /// The worker has waited for work.
  func noteWait() { lastEnd = nil }

  func beginDrain() {
    lastEnd = nil
    clock.begin()
  }

  override func endDrain() { clock.end() }
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

extension QueueReference: WorkerMaker {
  func makeWorker(_ generation: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) -> ScheduledWorker {
    // Whoever asks has the queue's lock, and so the core.
    Worker(core.object, generation: generation, qualityOfService: qualityOfService, underlyingQueue: underlyingQueue)
  }
}
