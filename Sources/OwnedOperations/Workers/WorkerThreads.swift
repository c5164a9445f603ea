import Foundation
import Synchronization

/// The threads on which workers run: those of all queues of one quality of service.
///
/// A worker that is dispatched is due until a thread takes it, the one first that was dispatched first. A thread that has run a worker
/// looks for the next. When none is due it parks for a second: the next worker then finds a thread that only has to be woken. The thread
/// that parked last is woken first: what it needs is in its processor's caches. Where workers have come shortly after it parked, it looks
/// a little longer before it does (`AdaptiveSpin`).
///
/// ## Protocol
///
/// A thread is *looking* from when it is woken or sent for, or says so itself (`beginLooking`). It looks until it has taken a worker, or
/// parks, or says that it does something else first (`stopLooking`). No code of the user's runs on it in between, nor anything that waits
/// for others than the scheduler's locks. So whoever dispatches needs to wake nobody as long as somebody is looking. What has to hold is
///
///     while a worker is due, a thread is looking
///
/// - `run` makes a worker due. If nobody was looking, it calls a thread, which counts as looking from then on.
/// - A thread that takes a worker is looking no more. If workers are left, and nobody else is looking, it calls another, before it runs
///   anything.
/// - So does a thread that stops looking for another reason. One that parks finds first, under the lock, that nothing is due.
/// - A thread that is parked can be called at any moment, and does nothing else.
/// - One that gives up parking does so under the lock. If it isn't among those that are parked it has been called: the signal is
///   there, or on its way.
///
/// A thread that looks may lose its processor. What is due then waits until it has it back, and not for ever: it takes one whatever it has
/// seen, and calls another for the rest.
///
/// How many are due and how many are looking stands in one word, so that each of the above is one step. Of one who makes a worker due and
/// one who stops looking, the second sees what the first did. The rest is guarded by the lock.
///
/// ## How many
///
/// GCD has 255 threads for the serial queues of a quality of service. It gives each a thread at once, even while all threads of the
/// concurrent pool are blocked. Workers take up to 192 of these. A thread beyond that is a new one: it may be for the work that all the
/// others are waiting for. To run that work on the stack of a worker that waits would save the thread, but is not sound. The work could
/// wait for what lies further down on that stack. Nothing is lost if the system has no more threads to give: the work then waits for one
/// of GCD's. Sixteen are parked at most; one more goes.
///
/// GCD's come first because they have the quality of service. New ones alone cost the same, as one run of each showed on Linux:
///
/// | | new ones | GCD's | both |
/// | --- | --- | --- | --- |
/// | P1, of GCD | 0.35 | 0.39 | 0.33 |
/// | P8, median | 1.22 | 1.19 | 1.20 |
/// | a queue's life (P15) | 2.6 | 3.0 | 2.8 |
final class WorkerThreads: Sendable {
  private struct State {
    /// The first and the last worker that is due; each has the next.
    var firstDue: Borrowed<DueWorker>?
    var lastDue: Borrowed<DueWorker>?
    /// The last one is called first.
    var parked: [WorkerThread] = []
    /// Dispatch queues that have no thread at the moment.
    var spare: [DispatchQueue] = []
  }

  /// What one step has left to do when the lock is free.
  private enum Call {
    case nobody
    case wake(WorkerThread)
    case sendForOne
  }

  private enum NextStep {
    case run(DueWorker, Call)
    case park
    case go
  }

  static let mostParked = 16
  private static let parkedTime = DispatchTimeInterval.seconds(1)
  private static let mostFromPool = 192

  private let qualityOfService: DispatchQoS
  private let state = Locked(State())
  private let counts = Atomic<UInt64>(0)
  private let fromPool = Atomic<Int>(0)

  private init(_ qualityOfService: DispatchQoS) { self.qualityOfService = qualityOfService }

  private static let ofUserInteractive = WorkerThreads(.userInteractive)
  private static let ofUserInitiated = WorkerThreads(.userInitiated)
  private static let ofDefault = WorkerThreads(.default)
  private static let ofUtility = WorkerThreads(.utility)
  private static let ofBackground = WorkerThreads(.background)

  #if OWNED_OPERATIONS_MODEL
    /// Each run of the model checker has threads of its own. Only one of them goes at a time.
    nonisolated(unsafe) private static var ofRun: (number: Int, threads: WorkerThreads)?

    private static func ofRun(_ number: Int) -> WorkerThreads {
      if let ofRun, ofRun.number == number { return ofRun.threads }
      let threads = WorkerThreads(.default)
      ofRun = (number, threads)
      return threads
    }
  #endif

  static func of(_ qualityOfService: QualityOfService) -> WorkerThreads {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.thread != nil { return ofRun(ModelRun.runCount) }
    #endif
    return switch qualityOfService {
    case .userInteractive: ofUserInteractive
    case .userInitiated: ofUserInitiated
    case .utility: ofUtility
    case .background: ofBackground
    default: ofDefault
    }
  }

  // MARK: Counts

  private struct Counts {
    static let oneDue: UInt64 = 1 << 32
    static let oneLooking: UInt64 = 1

    let word: UInt64

    var isAnyDue: Bool { word >= Self.oneDue }
    /// A worker is due that nobody is going to take.
    var asksForThread: Bool { isAnyDue && looking == 0 }
    var looking: UInt32 { UInt32(truncatingIfNeeded: word) }
  }

  private func add(_ change: UInt64) -> Counts {
    Counts(word: counts.wrappingAdd(change, ordering: .acquiringAndReleasing).newValue)
  }

  private func subtract(_ change: UInt64) -> Counts {
    Counts(word: counts.wrappingSubtract(change, ordering: .acquiringAndReleasing).newValue)
  }

  /// A hint.
  var isAnyDue: Bool { Counts(word: counts.load(ordering: .relaxed)).isAnyDue }

  // MARK: Workers that are due

  /// Has a thread run the worker. Whoever dispatches has seen to it that the worker stays until then.
  func run(_ worker: DueWorker) {
    perform(
      state.withLock { state in
        worker.nextDue = nil
        state.lastDue?.with { $0.nextDue = Borrowed(worker) }
        state.lastDue = Borrowed(worker)
        if state.firstDue == nil { state.firstDue = state.lastDue }
        return add(Counts.oneDue).asksForThread ? call(&state) : .nobody
      })
  }

  /// Under the lock.
  private func call(_ state: inout State) -> Call {
    _ = add(Counts.oneLooking)
    return state.parked.popLast().map { .wake($0) } ?? .sendForOne
  }

  /// Outside the lock.
  private func perform(_ call: Call) {
    switch call {
    case .nobody: break
    case .wake(let thread): thread.signal.signal()
    case .sendForOne: sendForThread()
    }
  }

  // MARK: Threads that are looking

  /// The thread, one of these, takes what is due before it does anything else; and says so when that is not so any more.
  func beginLooking() {
    _ = add(Counts.oneLooking)
    ThreadSlot.lookingFor.pointer = Borrowed(self).address
  }

  /// To be called by everything that a thread might do while it is looking and that isn't the scheduler's: see above.
  static func stopLooking() { ThreadSlot.lookingFor.object(WorkerThreads.self)?.stopLooking() }

  private func stopLooking() {
    ThreadSlot.lookingFor.pointer = nil
    guard subtract(Counts.oneLooking).asksForThread else { return }
    perform(state.withLock { state in Counts(word: counts.load(ordering: .relaxed)).asksForThread ? call(&state) : .nobody })
  }

  // MARK: The threads

  private func sendForThread() {
    let isFromPool = fromPool.wrappingAdd(1, ordering: .relaxed).newValue <= Self.mostFromPool
    if !isFromPool {
      fromPool.wrappingSubtract(1, ordering: .relaxed)
      if ThreadStart.onNewThread({ self.runWorkers(on: WorkerThread()) }) { return }
    }
    let queue = state.withLock { $0.spare.popLast() } ?? DispatchQueue(label: "OwnedOperations.worker", qos: qualityOfService)
    ThreadStart.on(queue) { [self] in
      runWorkers(on: WorkerThread())
      if isFromPool { fromPool.wrappingSubtract(1, ordering: .relaxed) }
      state.withLock { $0.spare.append(queue) }  // what it is used for next begins when this block has returned
    }
  }

  private func runWorkers(on thread: WorkerThread) {
    ThreadSlot.lookingFor.pointer = Borrowed(self).address  // as it was counted when it was sent for
    var kept: AnyObject?  // only for `Mutation.parkedThreadKeepsItsQueue`
    while let worker = nextWorker(for: thread) {
      if Mutation.parkedThreadKeepsItsQueue.isOn { kept = worker.queue }
      if let queue = worker.drainQueue() { IdleQueues.note(queue) }
    }
    withExtendedLifetime(kept) {}
  }

  private func nextWorker(for thread: WorkerThread) -> DueWorker? {
    if ThreadSlot.lookingFor.pointer == nil { beginLooking() }
    _ = AdaptiveSpin.ofParking.look { isAnyDue }
    while true {
      let seesNothing = Mutation.parksWithoutLooking.isOn && !isAnyDue
      switch state.withLock({ nextStep(of: thread, &$0, seesNothing: seesNothing) }) {
      case .run(let worker, let call):
        ThreadSlot.lookingFor.pointer = nil
        perform(call)
        return worker
      case .park:
        ThreadSlot.lookingFor.pointer = nil
        guard park(thread) else { return nil }
        ThreadSlot.lookingFor.pointer = Borrowed(self).address  // as whoever called it has counted it
      case .go:
        ThreadSlot.lookingFor.pointer = nil
        return nil
      }
    }
  }

  /// Under the lock, of a thread that is looking and will not be.
  private func nextStep(of thread: WorkerThread, _ state: inout State, seesNothing: Bool) -> NextStep {
    if !seesNothing, let worker = state.firstDue?.object {
      state.firstDue = worker.nextDue
      if state.firstDue == nil { state.lastDue = nil }
      let asksForThread = subtract(Counts.oneDue + Counts.oneLooking).asksForThread && !Mutation.callsNobodyForTheRest.isOn
      return .run(worker, asksForThread ? call(&state) : .nobody)
    }
    _ = subtract(Counts.oneLooking)
    guard state.parked.count < Self.mostParked else { return .go }
    state.parked.append(thread)
    return .park
  }

  /// - Returns: whether it has been called. If not, it goes.
  private func park(_ thread: WorkerThread) -> Bool {
    if AdaptiveSpin.ofParking.sleep({ thread.signal.wait(until: Uptime.time(after: Self.parkedTime)) }) { return true }
    let isCalled = state.withLock { state in
      guard let place = state.parked.firstIndex(where: { $0 === thread }) else { return !Mutation.givesUpThoughCalled.isOn }
      state.parked.remove(at: place)
      return false
    }
    if isCalled { thread.signal.wait() }
    return isCalled
  }
}

/// A worker that such a thread can run.
class DueWorker: ScheduledWorker {
  /// The worker that became due next, if any did. Guarded by the threads' lock, as long as this one is due.
  fileprivate(set) var nextDue: Borrowed<DueWorker>?

  /// Works until there is nothing for this worker to do. From then on others may dispatch it: it is touched no more.
  /// - Returns: the queue, if it has no other worker now.
  func drainQueue() -> (any IdleQueue)? { nil }

  /// Only for `Mutation.parkedThreadKeepsItsQueue`.
  var queue: AnyObject? { nil }
}

/// One of the threads: where it waits while it is parked.
private final class WorkerThread: Sendable {
  let signal = Semaphore()
}
