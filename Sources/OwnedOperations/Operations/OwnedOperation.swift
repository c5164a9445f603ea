import Foundation
import Synchronization

/// An operation that belongs to an owner. When the owner ends, the operation is cancelled, and if it has not started it never will.
///
/// Subclass and override ``perform()`` (or, Foundation's habit, `main()`), or use ``OwnedBlockOperation``, ``OwnedAsyncOperation`` or
/// ``OwnedResultOperation``:
///
/// ```swift
/// final class Thumbnail: OwnedOperation, @unchecked Sendable {
///   override func perform() throws { print("rendering for \(ownerID)") }
/// }
/// ```
///
/// It can be started by hand, or added to Foundation's `OperationQueue` or to a queue of this package. It can depend on plain operations,
/// and they on it. The operation holds the lifetime of its owner, never the owner. All members may be used from any thread. The flags and
/// ``state`` are views of a single word, and never contradict each other. The locks of the base class are left alone from creation to
/// finish, except where Foundation has to be told. On Linux the base class takes five, one after the other, to hear that an operation has
/// finished; it isn't told of one that nobody has a reference to any more.
///
/// Foundation's rules hold, with these differences:
/// - Calls for which Foundation stops the process are reported on standard error and ignored: `start()` twice, `start()` before the
///   operation is ready. So are those for which it hangs for ever: `waitUntilFinished()` inside the operation's own work.
///   ``startOrThrow()`` throws the error instead.
/// - An operation whose owner has ended finishes without anyone starting it.
/// - A cancelled operation that sits in a queue of this package finishes at once, without being started.
///
/// A subclass may override `perform()`, `main()`, `didCancel(_:)`, `isReady`, `isAsynchronous`, and, calling `super`, `start()`, `cancel()`
/// and the members that concern dependencies. What a subclass stores is its own to guard.
// Safe to share:
// - `word` is atomic
// - `lock` guards `extras`, `dependencyCell`, `firstDependent` and `scheduler`
// - the lifetime's lock guards `memberIndex`, the scheduler's guards `registryPlace`
// - the rest never changes.
open class OwnedOperation: Operation, LifetimeMember, CustomReflectable, @unchecked Sendable {
  /// The owner's lifetime, which the operation holds instead of the owner.
  public final let lifetime: OwnerLifetime

  final let word: Atomic<UInt64>
  final let lock: Lock
  // Each is guarded by a lock; checks of exclusive access would cost more than the accesses.
  static let memberKind: MemberKind = MemberKind(of: OwnedOperation.self)
  @exclusivity(unchecked) final var memberIndex: Int32 = MemberList.notListed
  @exclusivity(unchecked) final var extras: OperationExtras?
  @exclusivity(unchecked) final var dependencyCell: DependencyCell?
  @exclusivity(unchecked) final var firstDependent: DependencyCell?
  @exclusivity(unchecked) final var scheduler: (any OperationScheduler)?
  /// For the scheduler's own use.
  @exclusivity(unchecked) final var registryPlace = 0

  /// Makes an operation for the owner with this lifetime. If the owner has ended, the operation is cancelled and finished when this
  /// returns, and will never run.
  public init(lifetime: OwnerLifetime) {
    // `self.lifetime` keeps it from here to the deinit; counting further references would take a tenth of the time that all of this does.
    let unretained = Borrowed(lifetime)
    word = Atomic(StateWord.initial.rawValue)
    lock = Lock(seed: lifetime.id.rawValue)
    self.lifetime = lifetime
    super.init()
    // From here on the reaper may come by, though a subclass's initialiser goes on. All that a subclass stores has been initialised by
    // then, so what it overrides finds a whole object. And nothing tells us when its initialiser has ended. See `didCancel`.
    if !unretained.with({ $0.join(self) }) { finishForEndedOwner() }
  }

  /// Makes an operation for an owner that holds a token.
  public convenience init(owner: some OperationOwner) {
    self.init(lifetime: owner.lifetimeToken.lifetime)
  }

  deinit {
    if !load().isFinished { unretainedLifetime.with { $0.leave(self) } }
    if let dependencyCell { ChainRelease.release(dependencyCell, of: self, and: extras?.failedDependency.take()) }
    guard let extras else { return }
    extras.observers?.endAll()
    extras.timer?.cancel()
  }

  /// Names the owner.
  public final var ownerID: OwnerID { lifetime.id }

  // MARK: Work, for subclasses

  /// The work. Override this or `main()`; what it throws is the outcome. Runs once, on the thread that starts the operation.
  ///
  /// If ``OwnedOperation/isAsynchronous`` is true, the operation stays executing until ``OwnedOperation/finish(throwing:)`` is called or
  /// this throws. Otherwise it finishes when this returns.
  open func perform() throws {}

  /// Calls ``perform()`` and keeps what it throws.
  open override func main() {
    do { try perform() } catch { recordFailure(error) }
  }

  /// Called once, if the operation is cancelled before it has finished, whatever the reason: stop the request, kill the child.
  ///
  /// Runs on the thread that called `cancel()`. For the end of an owner and for a timeout, it runs on a background thread. The work may be
  /// running meanwhile, or never have started. In the latter case the operation may have finished already. Not called for an operation made
  /// for an owner that had ended.
  ///
  /// The owner may end while the operation is being made. So this may be called, on another thread, as soon as `super.init` has been
  /// called. What it needs must be stored before, as Swift demands of all that is stored anyway. An initialiser that begins something after
  /// `super.init` has to ask ``isCancelled`` when it is done.
  open func didCancel(_ reason: CancellationReason) {}

  /// True in a subclass whose work goes on after ``OwnedOperation/perform()`` has returned, and ends with
  /// ``OwnedOperation/finish(throwing:)``.
  open override var isAsynchronous: Bool { false }

  #if canImport(ObjectiveC)
    /// The former name of ``OwnedOperation/isAsynchronous``, which Foundation still asks for. Override that.
    open override var isConcurrent: Bool { isAsynchronous }
  #endif

  /// For a kind of operation that holds the object that owns it: holds it strongly from now on. False if it has gone, though its lifetime
  /// has not ended: it shared its token with others, or is in its deinit. Then the work is not run.
  func takeOwner() -> Bool { true }

  /// Whether the work gets the object that owns it.
  var holdsOwner: Bool { false }

  /// Before a queue starts an operation that holds its owner: holds it from now on, if a body of it may begin.
  /// - Returns: where to wait if not, because nothing but the owner's own bodies holds it.
  func beginForOwner() -> OwnerHold? { nil }

  /// It was not started after all, or has finished: lets go of the owner, unless a start of somebody else's has it.
  func endForOwner() {}

  /// The start that was accepted is over, and what it ran on this thread. After the finish: if nothing else holds the owner, this ends it,
  /// which must not make cancelled of what has succeeded.
  func letGoOfOwner() {}

  /// Nobody tells us when what it waits for is over: it is to be asked from time to time while it waits.
  var isToldOfNothing: Bool { false }

  /// Whether it counts as progress, when it has finished.
  var ranToItsEnd: Bool { didRun }

  /// Asked while it waits for dependencies, if it is told of nothing. If it turns out that it needn't, it ceases to.
  /// - Returns: whether it has.
  func noticeReadiness() -> Bool { false }

  /// Lets go of what the kind of operation has stored of its work. It hands that to ``DeferredReleases``, because the caller must not wait
  /// for deinits of the user's. Called by whoever may finish the operation, at least once before it has finished.
  func releaseWork() {}

  /// Whether no code of the user's has it, nor will have: it has not been given out, and has finished.
  var isUnknown: Bool { false }

  /// Whether the start runs no code of the user's once it has finished, so that none gets the operation from there.
  var endsWithItsFinish: Bool { false }

  /// Whether it has finished, and whoever lets go of the last reference to it runs no code of the user's.
  var isSpent: Bool { false }

  /// Whether nothing of the user's goes with it, and it isn't the last that keeps its lifetime from ending.
  final var keepsNothing: Bool {
    lifetime.isOnlyMemory && !DeinitRegistry.mayKnow(self) && lock.withLock { extras == nil && dependencyCell == nil }
  }

  /// Whether what is left of its task is on its way to its end, and needs no permit. Asked under a scheduler's lock; once true, for good.
  var isTaskCancelled: Bool { load().isCancelled }

  /// Stops work that goes on by itself: a task. Called before `didCancel`.
  func cancelWork() {}

  /// Before anybody is told of a cancellation (but for those who want to hear of the finish beforehand): lets go on who waits for the
  /// operation in a way of its own. Runs no code of the user's.
  func resumeCancelled() {}

  /// Whether `isReady` may be overridden, so that a queue has to ask it. False in kinds that are final.
  var mayHaveCondition: Bool { true }

  /// Whether nobody but the operation can end it once its timeout has passed.
  var finishesOnTimeout: Bool { isAsynchronous }

  /// Whether `didCancel` and `cancelWork` do nothing, so that they need not be called.
  var ignoresCancellation: Bool { false }

  // MARK: State

  /// How far the operation has come.
  public final var state: OperationState { settled().state }

  /// True if no dependency is outstanding, or the operation was cancelled. Stays true later.
  ///
  /// A subclass may add a condition: return `super.isReady && ...`, and call `didChangeValue(forKey: "isReady")` when the condition
  /// changes. A queue of ours notices that at once. Without that call, or if the override doesn't ask `super`, it notices within 50 ms, or
  /// a second if nothing has changed for a minute.
  open override var isReady: Bool {
    var word = settled()
    if word.contains(.watched) { noteQuestion() }
    if !word.contains(.readinessWasRead) {
      // A start by hand keeps no answer. Nor is the operation in a queue of Foundation's, which would have asked. So the base class, which
      // would take its lock, has nothing to say.
      if OperationThread.isAsking(self) { return word.isReady }
      // First the mark, then the answer: if the answer changes later, whoever changes it sees the mark and tells Foundation.
      let before = self.word.bitwiseOr(StateWord.Bits.readinessWasRead.rawValue, ordering: .acquiringAndReleasing).oldValue
      word = StateWord(rawValue: before)
    }
    guard word.isReady else { return false }
    // A Foundation queue adds dependencies of its own (on barriers) behind our back. What is in a queue of ours is in none of those.
    return word.phase != .pending || word.isCancelled || word.contains(.attached) || super.isReady
  }

  /// Foundation asks when a change of `isReady` is announced to it. That is all that we hear of it where it can't be overridden.
  private func noteQuestion() {
    if !OperationThread.isAsking(self) { lock.withLock { scheduler }?.operationMayHaveBecomeReady(self) }
  }

  #if canImport(ObjectiveC)
    /// Foundation's announcement of a change; of `isReady` the queue hears by it, too. An override has to call this.
    open override func didChangeValue(forKey key: String) {
      super.didChangeValue(forKey: key)
      if key == FoundationKey.isReady.rawValue, load().contains(.watched) { noteQuestion() }
    }
  #endif

  /// True from the start of the work to the finish.
  public override var isExecuting: Bool { load().phase == .executing }

  /// True once the operation has succeeded, failed, or been cancelled for good. Its work has been released by then. If it never ran, it is
  /// just being released in the background.
  public override var isFinished: Bool { load().isFinished }

  /// True if the operation was cancelled before it had finished. It is true for all unfinished operations of an owner as soon as the owner
  /// has ended.
  public override var isCancelled: Bool { settled().isCancelled }

  /// How the operation ended; nil until it has finished.
  public final var outcome: OperationOutcome? {
    let word = load()
    guard word.isFinished else { return nil }
    if word.isCancelled { return .cancelled(reason(in: word)) }
    guard word.contains(.failed), let error = lock.withLock({ extras?.error }) else { return .succeeded }
    return .failed(error)
  }

  /// Why the operation was cancelled; nil if it was not.
  public final var cancellationReason: CancellationReason? {
    let word = settled()
    return word.isCancelled ? reason(in: word) : nil
  }

  // MARK: Calls

  /// Runs the work on this thread, or finishes the operation if it was cancelled. When this returns, the operation has finished unless it
  /// is asynchronous.
  ///
  /// Does nothing if the operation has finished. If it is executing or not ready, that is reported on standard error and nothing else
  /// happens (Foundation stops the process). ``startOrThrow()`` tells the caller.
  /// - Complexity: beside the work, linear in the operations that depend on this one, if it finishes.
  open override func start() {
    do throws(OwnedOperationError) {
      try startOrThrow()
    } catch {
      OperationReport.report(error)
    }
  }

  /// `start()`, for callers who want to know why it did nothing.
  /// - Throws: ``OwnerScopedQueueError/alreadyExecuting(_:)`` or ``OwnerScopedQueueError/notReady(_:)``.
  /// - Complexity: beside the work, linear in the operations that depend on this one, if it finishes.
  public final func startOrThrow() throws(OwnedOperationError) {
    try beginStart()
  }

  /// Cancels the operation. Work that has not started never will. Work that runs is told by ``didCancel(_:)`` and may ask `isCancelled`.
  ///
  /// As in Foundation, cancelling doesn't finish an operation that has not started, but makes it ready, so that a queue, or `start()`,
  /// finishes it. Its work is released at once, in the background: this doesn't wait for deinits. Does nothing if the operation has
  /// finished or was cancelled before.
  /// - Complexity: linear in the operation's observers, which are called on this thread, and in the operations that it cancels because they
  ///   require its success.
  open override func cancel() {
    cancel(.requested)
  }

  /// Finishes the work of a subclass whose ``isAsynchronous`` is true. Any thread. The first call wins.
  /// - Parameter error: makes the operation fail, unless it was cancelled.
  /// - Returns: false if nothing came of it: the operation has finished, or its work has not started.
  /// - Complexity: linear in the operations that depend on this one.
  @discardableResult
  public final func finish(throwing error: (any Error)? = nil) -> Bool {
    finishExecution(throwing: error)
  }

  /// Blocks this thread until the operation has finished. Inside the operation's own work that could never be: it is reported on standard
  /// error, and returns.
  @available(*, noasync, message: "Use completionBlock, states, or a dependent operation instead")
  open override func waitUntilFinished() {
    blockUntilFinished()
  }

  // MARK: Dependencies

  /// Has this operation wait for the other, ours or plain, in the same queue or another, to finish. Does nothing if it does so already.
  /// - Complexity: amortised constant.
  open override func addDependency(_ operation: Operation) {
    insertDependency(operation)
  }

  /// Takes back `addDependency`.
  /// - Complexity: amortised constant.
  open override func removeDependency(_ operation: Operation) {
    deleteDependency(operation)
  }

  /// What the operation waits for or has waited for, in the order in which it was added.
  /// - Complexity: linear in the dependencies.
  open override var dependencies: [Operation] {
    lock.withLock { dependencyCell }?.operations ?? []
  }

  /// What a dependency that fails or is cancelled means for this operation. Setting it to `requireSuccess` looks at dependencies that have
  /// finished, too.
  /// - Complexity: constant; linear in the dependencies when `requireSuccess` is set.
  public final var dependencyPolicy: DependencyPolicy {
    get { load().contains(.requiresSuccess) ? .requireSuccess : .runAlways }
    set { setDependencyPolicy(newValue) }
  }

  // MARK: Settings

  /// Cancels the operation when this much time has passed since its work started. It ends in `.cancelled(.timedOut)`. Set it before the
  /// start.
  ///
  /// A subclass whose ``isAsynchronous`` is true is finished then, after ``didCancel(_:)``. Work that runs on its thread, or in a task, is
  /// asked to end. The operation finishes when the work ends.
  public final var timeout: Duration? {
    get { lock.withLock { extras?.timeout } }
    set {
      lock.withLock {
        if newValue != nil || extras != nil { makeExtras().timeout = newValue }
      }
    }
  }

  /// Called once, on a background thread, after the operation has finished, however it did; then released. An operation that finished
  /// without having been started, because its owner ended, runs it even if it is set later.
  open override var completionBlock: (@Sendable () -> Void)? {
    get { lock.withLock { extras?.completionBlock } }
    set { setCompletionBlock(newValue) }
  }

  /// Shown in descriptions, errors, and reasons.
  open override var name: String? {
    get { lock.withLock { extras?.name } }
    set {
      var former = newValue
      lock.withLock {
        if former != nil || extras != nil { swap(&former, &makeExtras().name) }
      }
    }
  }

  /// Ready operations of a queue run in the order of their priorities. As in Foundation, any value is brought to the nearest of the five
  /// towards normal.
  open override var queuePriority: Operation.QueuePriority {
    get { load().priority }
    set { setPriority(newValue) }
  }

  /// As in Foundation: `default` until it is set.
  open override var qualityOfService: QualityOfService {
    get { load().qualityOfService ?? .default }
    set {
      super.qualityOfService = newValue  // a Foundation queue reads it there
      let change = update { word in
        var new = word
        new.qualityOfService = newValue
        return new
      }
      if let change { react(to: change) }
    }
  }

  /// Foundation's storage, which a queue of its reads directly.
  final func setFoundationPriority(_ priority: Operation.QueuePriority) {
    super.queuePriority = priority
  }

  /// For example `OwnedBlockOperation "thumbnail" (executing, owner#42)`.
  open override var description: String { "\(label) (\(state), \(ownerID))" }

  /// What `dump`, debuggers and failed expectations of tests show: the ``description``, which may be asked for on any thread. Nothing that
  /// is stored is shown, because it may change meanwhile.
  open var customMirror: Mirror { Mirror(self, children: ["description": description], ancestorRepresentation: .suppressed) }
}

extension OwnedOperation {
  /// How errors and reasons call the operation.
  final var label: String { Self.label(of: self) }

  static func label(of operation: Operation) -> String {
    let type = String(describing: Swift.type(of: operation))
    if let name = operation.name, !name.isEmpty { return "\(type) \"\(name)\"" }
    return "\(type)@\(String(UInt(bitPattern: ObjectIdentifier(operation)), radix: 16))"
  }

  final func reason(in word: StateWord) -> CancellationReason {
    switch word.reason {
    case .requested: .requested
    case .ownerEnded: .ownerEnded(ownerID)
    case .dependencyFailed: .dependencyFailed(nameOfFailedDependency)
    case .timedOut: .timedOut(timeout ?? .zero)
    }
  }
}
