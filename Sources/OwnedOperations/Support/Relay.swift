import Synchronization

/// Takes steps that may be, or run, code of the user's: one after the other, away from the thread that hands them over.
///
/// When a step doesn't return for a few milliseconds, another thread takes over what is left, also the rest of the batch. So however many
/// steps block, for however long, the others are taken. Threads come from ``SpareThreads``, one at a time, and the later the more of them
/// are blocked.
///
/// ## Protocol
///
/// - Batches stand in a list, guarded by `lock`. The first stays in the list until it is used up.
/// - A step is claimed by incrementing the batch's `next`. Each index goes to one claimer, so any number of threads may be at one batch.
/// - `runner` is who is in charge. There is one whenever a step is waiting. Nil means that nothing waits, and that whoever hands over next
///   appoints one.
/// - A runner claims steps while it is in charge, and leaves when nothing waits, or when it finds that it has been replaced.
/// - Before it leaves, a runner spins for a moment while `hasWaiting` is false and nothing is pushed: to wake a thread costs whoever hands
///   over more than that.
/// - `hasWaiting` is only a hint: set under the lock by whoever hands over without pushing, cleared under the lock by a runner that finds
///   nothing.
/// - A runner counts its step (`progress`, relaxed) before it takes it. Only the watch reads that, and errors of its reading do no harm. A
///   runner that is replaced too early leaves after its step, and meanwhile steps are taken side by side.
/// - The watch looks at the runner every `interval`. One that has stood still from look to look is replaced: by another runner if anything
///   waits, by nobody otherwise.
/// - A runner adds itself to a batch's `runners`, under the lock, before it claims there. Under the lock it leaves, and adds its steps to
///   `finished`.
/// - `finished == count`: all steps have returned. Only when `runners == 0`, too, is nobody about to look for more, and the batch may be
///   used again.
/// - `unfinished` counts the batches whose `finished` is less than `count`. Idle: `unfinished == 0`, and `open` and `pushed` are empty.
/// - `pushed` is the last of the objects that have been handed over without the lock, each linked to the one before. All are taken out at
///   once, by an exchange under the lock, before anything else is appended there.
/// - `isAttended` says that there is a `runner`; written under the lock. Who has pushed loads it after that, and appoints a runner if there
///   is none. Who leaves without a successor clears it, and loads `pushed` after that. All four are sequentially consistent, so one of the
///   two sees the other.
/// - Nothing is released under the lock, and no step is taken under it.
final class Relay: Sendable {
  // What those who push touch.
  private let pushed = Atomic<UInt>(0)
  private let isAttended = Atomic<Bool>(false)
  /// Makes the batches for what is pushed. Nil: nothing is.
  private let makePushed: (@Sendable () -> PushedBatch)?

  private let lock = Lock()
  private let hasWaiting = Atomic<Bool>(false)

  // Guarded by `lock`, which is what makes their accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) private var first: RelayBatch?
  @exclusivity(unchecked) nonisolated(unsafe) private var last: RelayBatch?
  /// Gathers single values, until a runner comes for it or it is full.
  @exclusivity(unchecked) nonisolated(unsafe) private var open: ReleaseSegment?
  /// All of one class, as a relay is either pushed to or given values one by one.
  @exclusivity(unchecked) nonisolated(unsafe) private var pool: [ReusedBatch] = []
  @exclusivity(unchecked) nonisolated(unsafe) private var unfinished = 0
  /// Batches that have been opened or added, for tests.
  @exclusivity(unchecked) nonisolated(unsafe) private var handedOver = 0
  @exclusivity(unchecked) nonisolated(unsafe) private var runner: Runner?
  /// Runners that were replaced and have not returned.
  @exclusivity(unchecked) nonisolated(unsafe) private var blocked = 0
  @exclusivity(unchecked) nonisolated(unsafe) private var idleWaiters: [Semaphore] = []
  @exclusivity(unchecked) nonisolated(unsafe) private var isWatched = false
  @exclusivity(unchecked) nonisolated(unsafe) private var sighting = Sighting()

  private static let mostPooled = 16
  #if OWNED_OPERATIONS_MODEL
    private static let spins = 1
  #else
    /// Together some twenty microseconds.
    private static let spins = 20
  #endif
  private static let pauses = 30
  private static let few = 64
  /// Looks at an idle relay before the watch leaves it.
  private static let idleLooks = 5
  /// That many more blocked threads make a takeover wait for one more look.
  private static let blockedPerLook = 64

  fileprivate final class Runner: Sendable {
    let progress = Atomic<Int>(0)
    let isReplaced = Atomic<Bool>(false)
  }

  private struct Sighting {
    /// Compared only. Kept, so that its address isn't another's.
    var runner: Runner?
    var progress = 0
    var looks = 0
  }

  init() { makePushed = nil }

  /// For objects that are pushed, and taken together by the few.
  /// - Parameters:
  ///   - most: how many are taken in one step.
  ///   - taker: takes the elements, each once, in one step.
  init<Element: RelayLinked>(
    together most: Int, taker: @escaping @Sendable (_ indices: Range<Int>, _ element: (Int) -> Element) -> Void
  ) {
    makePushed = { PushedElements(most: most, taker: taker) }
  }

  private var isPushedTo: Bool { makePushed != nil }

  // MARK: Handing over

  /// Hands over the steps of the batch. Any thread; constant time, but linear in what has been pushed and not been taken.
  func add(_ batch: RelayBatch) {
    guard batch.count > 0 else { return }
    let new = lock.withLock {
      handedOver += 1
      // What was handed over before comes before.
      takePushed()
      closeOpen()
      append(batch)
      return appointIfNobodyIs()
    }
    if let new { start(new) }
  }

  /// Hands over a value to be released: a step of its own. Any thread; constant time. The caller must not have another reference to it, or
  /// its own may be the last. Not for a relay that is pushed to.
  @inline(__always)  // for each value that is handed over
  func release<Value>(_ value: consuming Value) {
    assert(!isPushedTo)
    lock.lock()
    let segment: ReleaseSegment
    if let open, !open.isFull {
      segment = open
    } else {
      segment = openAnother()
    }
    segment.append(value)
    let new = appointIfNobodyIs()
    lock.unlock()
    if let new { start(new) }
  }

  /// Hands over an object, of the class that the relay has been made for. Any thread; constant time, and without the lock if there is a
  /// runner.
  @inline(__always)  // for each object that is handed over
  func push<Element: RelayLinked>(_ element: consuming Element) {
    assert(isPushedTo)
    let element = Retained(element)
    let address = UInt(bitPattern: element.address)
    var last = pushed.load(ordering: .relaxed)
    while true {
      element.with { $0.nextInRelay = UnsafeMutableRawPointer(bitPattern: last) }
      let (isIn, found) = pushed.weakCompareExchange(expected: last, desired: address, ordering: .sequentiallyConsistent)
      if isIn { break }
      last = found
    }
    if !isAttended.load(ordering: .sequentiallyConsistent) { attend() }
  }

  @inline(never)
  private func attend() {
    if let new = lock.withLock({ appointIfNobodyIs() }) { start(new) }
  }

  /// Whether to push wakes nobody. A hint.
  var isAwake: Bool { isAttended.load(ordering: .relaxed) }

  /// Whether something has been pushed, for who has just said that nobody attends. For others a hint.
  private var hasPushed: Bool { isPushedTo && pushed.load(ordering: .sequentiallyConsistent) != 0 }

  /// Under the lock. Linear in what has been pushed.
  private func takePushed() {
    guard let makePushed, hasPushed else { return }
    var next = UnsafeMutableRawPointer(bitPattern: pushed.exchange(0, ordering: .acquiring))
    var isReversed = false
    while let first = next {
      let batch = pool.popLast().map { unsafeDowncast($0, to: PushedBatch.self) } ?? makePushed()
      next = batch.append(from: isReversed ? first : batch.reversed(first))
      isReversed = true
      handedOver += 1
      append(batch)
    }
  }

  /// Under the lock: there is no room in the last one.
  private func openAnother() -> ReleaseSegment {
    closeOpen()
    let segment = pool.popLast().map { unsafeDowncast($0, to: ReleaseSegment.self) } ?? ReleaseSegment()
    open = segment
    handedOver += 1
    hasWaiting.store(true, ordering: .relaxed)
    return segment
  }

  /// Under the lock: those who hand over from now on open another.
  private func closeOpen() {
    guard let open, open.count > 0 else { return }
    append(open)
    self.open = nil
  }

  /// Under the lock.
  private func append(_ batch: RelayBatch) {
    if let last { last.following = batch } else { first = batch }
    last = batch
    unfinished += 1
    hasWaiting.store(true, ordering: .relaxed)
  }

  /// Under the lock. The result is to be started outside it.
  @inline(__always)  // for each value that is handed over
  private func appointIfNobodyIs() -> Runner? {
    if runner != nil { return nil }
    let new = Runner()
    runner = new
    if isPushedTo { isAttended.store(true, ordering: .relaxed) }
    return new
  }

  /// Under the lock: nobody is in charge any more.
  private func dismissRunner() {
    runner = nil
    if isPushedTo { _ = isAttended.exchange(false, ordering: .sequentiallyConsistent) }
  }

  private func start(_ new: Runner) {
    SpareThreads.shared.run { [self] in run(new) }
  }

  // MARK: Running

  private func run(_ runner: Runner) {
    if lock.withLock({ beginWatch() }) { RelayWatch.watch(self) }
    var batch: RelayBatch?
    var taken = 0
    while true {
      var (next, isBehind) = nextBatch(for: runner, after: batch, taken, leaves: false)
      if next == nil {
        spin()
        if Mutation.runnerLeavesUnseen.isOn { return leaveUnseen(runner) }
        (next, isBehind) = nextBatch(for: runner, after: nil, 0, leaves: true)
      }
      guard let next else { return }
      batch = next
      taken = takeSteps(of: next, runner)
      // Coming back for every few would have those who hand over wait for the lock.
      // But one that is behind has no time to give away: a turn of the processor comes back after milliseconds.
      if taken < Self.few {
        if !isBehind { Pause.giveWay() }
        Pause.spin(Self.pauses)
      }
    }
  }

  /// Only for `Mutation.runnerLeavesUnseen`.
  private func leaveUnseen(_ runner: Runner) {
    lock.withLock { if self.runner === runner { dismissRunner() } else { blocked -= 1 } }
  }

  private func spin() {
    var looks = 0
    while looks < Self.spins, !hasWaiting.load(ordering: .relaxed), !hasPushed {
      Pause.giveWay()
      Pause.spin(Self.pauses)
      looks += 1
    }
  }

  /// - Returns: how many have been taken.
  private func takeSteps(of batch: RelayBatch, _ runner: Runner) -> Int {
    var taken = 0
    var progress = runner.progress.load(ordering: .relaxed)
    func takeAll() {
      while let index = batch.claim() {
        progress &+= 1
        runner.progress.store(progress, ordering: .relaxed)
        batch.takeStep(index)
        taken += 1
        if runner.isReplaced.load(ordering: .relaxed) { break }
      }
    }
    withAutoreleasePool { takeAll() }
    return taken
  }

  /// Leaves the former batch.
  /// - Parameter leaves: has the runner give up its place if nothing waits.
  /// - Returns: the one to go on with; nil if there is none, or the runner has been replaced. And whether there are more.
  private func nextBatch(for runner: Runner, after former: RelayBatch?, _ taken: Int, leaves: Bool) -> (RelayBatch?, isBehind: Bool) {
    var waiters: [Semaphore] = []
    lock.lock()
    defer {
      lock.unlock()
      for waiter in waiters { waiter.signal() }
    }
    // Before it is left: what is used again must not stand in the list. Whoever was in a batch last still has a reference, so none goes
    // here.
    while let batch = first, batch.isUsedUp {
      first = batch.following
      batch.following = nil
      if first == nil { last = nil }
    }
    if let former { leave(former, taken) }
    if isIdle { swap(&waiters, &idleWaiters) }
    guard self.runner === runner else {
      if leaves { blocked -= 1 }
      return (nil, false)
    }
    takePushed()
    closeOpen()
    if first == nil { hasWaiting.store(false, ordering: .relaxed) }
    if first == nil, leaves { leave(runner) }
    first?.runners += 1
    return (first, first?.following != nil)
  }

  /// Under the lock: nothing waits. Goes on if something has been pushed meanwhile.
  private func leave(_ runner: Runner) {
    dismissRunner()
    guard hasPushed, !Mutation.runnerMissesAPush.isOn else { return }
    self.runner = runner
    isAttended.store(true, ordering: .relaxed)
    takePushed()
  }

  /// Under the lock.
  private func leave(_ batch: RelayBatch, _ taken: Int) {
    batch.runners -= 1
    batch.finished += taken
    guard batch.finished == batch.count else { return }
    if taken > 0 { unfinished -= 1 }
    let isLeft = batch.runners == 0 || Mutation.segmentIsUsedAgainTooEarly.isOn
    if isLeft, pool.count < Self.mostPooled, let reused = batch as? ReusedBatch {
      reused.reset()
      pool.append(reused)
    }
  }

  /// Under the lock.
  private var hasWaitingSteps: Bool {
    if hasPushed { return true }
    if let open, open.count > 0 { return true }
    guard let first else { return false }
    return !first.isUsedUp || first.following != nil
  }

  /// Under the lock.
  private var isIdle: Bool { unfinished == 0 && open?.count ?? 0 == 0 && !hasPushed }

  // MARK: Watching

  /// Under the lock.
  /// - Returns: whether the caller has to call `RelayWatch.watch`.
  private func beginWatch() -> Bool {
    if isWatched { return false }
    isWatched = true
    sighting = Sighting()
    return true
  }

  /// Replaces a runner that stands still. For the watch, and for scenarios in which that comes too early.
  /// - Returns: false if there is nothing more to watch.
  func look() -> Bool {
    var former: Runner?
    var new: Runner?
    let goesOn = lock.withLock {
      guard let runner else {
        former = sighting.runner
        sighting = Sighting(looks: former == nil ? sighting.looks + 1 : 1)
        isWatched = sighting.looks < Self.idleLooks
        return isWatched
      }
      let progress = runner.progress.load(ordering: .relaxed)
      // A runner that has not claimed a step yet waits for a processor, not for a step.
      guard sighting.runner === runner, sighting.progress == progress, progress != 0 else {
        former = sighting.runner
        sighting = Sighting(runner: runner, progress: progress)
        return true
      }
      sighting.looks += 1
      guard sighting.looks > blocked / Self.blockedPerLook else { return true }
      runner.isReplaced.store(true, ordering: .relaxed)
      blocked += 1
      dismissRunner()
      if hasWaitingSteps, !Mutation.nobodyTakesOver.isOn { new = appointIfNobodyIs() }
      return true
    }
    withExtendedLifetime(former) {}
    if let new { start(new) }
    return goesOn
  }

  // MARK: For tests

  /// Returns when all that has been handed over, also by the steps themselves, has been taken. Not from inside a step.
  func waitUntilIdle() {
    let semaphore = Semaphore()
    let waits = lock.withLock {
      if !isIdle { idleWaiters.append(semaphore) }
      return !isIdle
    }
    if waits { semaphore.wait() }
  }

  var isAtRest: Bool { lock.withLock { isIdle } }

  /// Grows whenever a relay that is at rest gets something to do.
  var handedOverCount: Int { lock.withLock { handedOver + (hasPushed ? 1 : 0) } }

  /// How many threads have not returned from their steps, and have been replaced.
  var blockedThreadCount: Int { lock.withLock { blocked } }
}

/// Looks at relays that are at work, from a thread of its own. Nobody is watched, and nothing runs, while all are idle.
private enum RelayWatch {
  /// Microseconds.
  private static let interval: UInt32 = 2_000

  private struct Watched {
    var relays: [Relay] = []
    var isRunning = false
  }

  private static let watched = Locked(Watched())

  /// A relay may stand in the list twice for a moment: when it begins anew just as the watch is about to take it out.
  static func watch(_ relay: Relay) {
    let isFirst = watched.withLock { watched in
      watched.relays.append(relay)
      defer { watched.isRunning = true }
      return !watched.isRunning
    }
    if isFirst { SpareThreads.shared.run { run() } }
  }

  private static func run() {
    var goesOn = true
    while goesOn {
      Platform.sleep(microseconds: interval)
      var relays = watched.withLock { $0.relays }
      for relay in relays where !relay.look() {
        watched.withLock { watched in
          if let place = watched.relays.firstIndex(where: { $0 === relay }) { watched.relays.remove(at: place) }
        }
      }
      goesOn = watched.withLock { watched in
        watched.isRunning = !watched.relays.isEmpty
        return watched.isRunning
      }
      relays.removeAll()
    }
  }
}
