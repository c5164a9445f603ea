import Foundation
import OwnedOperations

/// A clock that stands still until a test moves it, and the one that runs the work of queues made with it.
///
/// ```swift
/// final class Screen: Sendable {
///   func show(_ answer: String) { print(answer) }
/// }
///
/// let time = VirtualTime()
/// let queue = OwnerScopedQueue(virtualTime: time)
/// var screen: Screen? = Screen()
/// if let screen { queue.asyncAfter(.seconds(60), owner: screen) { screen in screen.show("a minute later") } }
/// screen = nil
/// time.advance(by: .seconds(60))  // takes no time, and shows nothing
/// ```
///
/// Nothing of such a queue runs until it is asked for. ``runNext()`` runs one piece of work, ``runUntilIdle(limit:)`` all that may run,
/// ``advance(by:limit:)`` moves the clock as well. It runs on the thread that asks, one piece at a time. The rest is as in any queue. The
/// same scheduler decides what may begin, by priorities, limits, barriers, dependencies, suspensions and owners that end.
///
/// Asynchronous bodies run step by step between other work: those of `OwnedAsyncOperation`, `OwnedResultOperation`,
/// `queue.run(owner:)` and `lifetime.task(on: queue)`. So do tasks that prefer this executor, and a test's own calls are made in one:
///
/// ```swift
/// let time = VirtualTime()
/// let queue = OwnerScopedQueue(virtualTime: time)
/// let task = Task(executorPreference: time) {
///   try await queue.run(lifetime: OwnerLifetime()) {
///     try await time.sleep(for: .seconds(5))
///     return 42
///   }
/// }
/// time.advance(by: .seconds(5))
/// print(try await task.value)
/// ```
///
/// What waits on another clock, another actor or another thread goes on there, in real time. ``Outcome/suspendedElsewhere`` names it, and a
/// test that has waited for it calls ``runUntilIdle(limit:)`` again.
///
/// A wait that blocks the thread, such as `waitUntilAllOperationsAreFinished()`, runs work until it is over. If nothing else is left to
/// run, it moves the clock. If it can't come to its end, it says so on standard error and in ``abandonedWaits``, and returns. (The waits of
/// plain `Operation` objects are Foundation's own, and do block.)
///
/// A queue keeps its time, and the time a queue that has work which may run, as threads do. All members may be used from any thread; work
/// runs on one at a time.
public final class VirtualTime: Clock, TaskExecutor, @unchecked Sendable {  // what changes is guarded by `condition`
  /// A point of a virtual time, told by how long after its beginning it is.
  public struct Instant: InstantProtocol, Sendable, CustomStringConvertible {
    /// Since the time was made.
    public let offset: Duration

    /// A point so long after the time was made.
    public init(offset: Duration) { self.offset = offset }

    /// The point that is so much later.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    /// How much later the other is.
    public func duration(to other: Instant) -> Duration { other.offset - offset }
    /// Whether the left one is earlier.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    /// For example `+1.5 seconds`.
    public var description: String { "+\(offset)" }
  }

  /// How many steps are run at most, unless a call says otherwise.
  public static let defaultLimit = 100_000
  /// How long, in real time, a wait gives what happens elsewhere, when nothing is left to run. Tests set it, before anything runs.
  package var patience: TimeInterval = 1

  private let condition = NSCondition()
  private var clock = Duration.zero
  private var agenda = Agenda()
  private var generator: SeededGenerator
  private var queues: [WeakQueue] = []
  private var reports: [String] = []
  /// The thread that runs work, and how many of its calls are inside of each other.
  private var runner: (thread: ObjectIdentifier, depth: Int)?

  private struct WeakQueue {
    weak var queue: OwnerScopedQueue?
  }

  /// Makes a time that begins at zero.
  /// - Parameter seed: what queues with the order ``WorkOrder/shuffled`` choose by. The same seed gives the same order, but for one thing.
  ///   An owner may end while a task of its own is under way. Then the task and the owner's operations come to their ends in the
  ///   background, in either order.
  public init(seed: UInt64 = 0) { generator = SeededGenerator(seed: seed) }

  // MARK: The clock

  /// The current time, which only ``advance(by:limit:)`` and blocking waits change.
  public var now: Instant { Instant(offset: locked { clock }) }

  /// One attosecond: any two durations that differ are told apart.
  public var minimumResolution: Duration { Duration(secondsComponent: 0, attosecondsComponent: 1) }

  /// Returns when the clock has been moved to the deadline.
  ///
  /// The task goes on where it ran: in a task of a virtual queue, as a step of ``runUntilIdle(limit:)``.
  /// - Parameters:
  ///   - deadline: when to go on. If it has passed, the task goes on when work is run next.
  ///   - tolerance: isn't needed: the clock stops at each deadline.
  /// - Throws: `CancellationError` once the task is cancelled.
  /// - Complexity: linear in those who sleep until an earlier deadline.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let sleeper = Sleeper()
    let call = DrivenCall(.wake(operation: OwnedOperation.ofCurrentTask), while: { !sleeper.isOver }, { sleeper.end(.success(())) })
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        guard sleeper.begin(continuation) else { return }
        schedule(call, at: deadline.offset)
      }
    } onCancel: {
      sleeper.end(.failure(CancellationError()))
    }
  }

  // MARK: Running

  /// Runs one piece of work, or one step of a task, if one may run now.
  /// - Returns: whether one has run. Work that turns out to be held back, because only its owner's bodies hold the owner, counts.
  /// - Complexity: beside the work, amortised constant. With a shuffled queue, linear in the steps that are due, and in the queues when
  ///   none is.
  @discardableResult
  public func runNext() -> Bool {
    run { step(isNamed: false) != nil }
  }

  /// Runs work until nothing may run at the current time.
  /// - Parameter limit: how many steps to run at most. Work that adds itself again and again would never end. When the limit is met, that
  ///   is said on standard error, too.
  /// - Returns: what has become of it.
  /// - Complexity: linear in the steps, each as with ``runNext()``.
  @discardableResult
  public func runUntilIdle(limit: Int = defaultLimit) -> Outcome {
    run {
      var progress = Progress(limit: limit)
      runAll(&progress)
      return outcome(of: progress)
    }
  }

  /// Moves the clock, and runs what may run now and what becomes due on the way, in the order of the deadlines. When the clock stands at a
  /// deadline, everything runs before the clock goes on.
  /// - Parameters:
  ///   - duration: how far. A negative one is a precondition failure.
  ///   - limit: how many steps to run at most. When it is met, the clock stays where it is by then.
  /// - Returns: what has become of it.
  /// - Complexity: linear in the steps, each as with ``runNext()``, and in the deadlines that are met.
  @discardableResult
  public func advance(by duration: Duration, limit: Int = defaultLimit) -> Outcome {
    precondition(duration >= .zero, "a time can't be moved back, by \(duration)")
    return run {
      let target = locked { clock } + duration
      var progress = Progress(limit: limit)
      runAll(&progress)
      while !progress.isUsedUp, let deadline = nextDeadline, deadline <= target {
        // What is due then would be one too many.
        guard progress.steps < limit else {
          progress.isUsedUp = true
          break
        }
        _ = moveClock(to: target)
        runAll(&progress)
      }
      if !progress.isUsedUp { locked { clock = max(clock, target) } }
      return outcome(of: progress)
    }
  }

  /// What waits, and why: in the queues made with this time, and tasks that sleep by it. In no particular order.
  /// - Complexity: linear in what there is.
  public var pending: [PendingWork] {
    BackgroundWork.settle()
    let (queues, steps, calls) = locked { (self.queues.compactMap(\.queue), agenda.steps, agenda.calls) }
    let ready = Set(steps.compactMap(\.operation))
    var sleeping: [ObjectIdentifier: Instant] = [:]
    var pending: [PendingWork] = []
    for (deadline, call) in calls where call.isPending {
      let time = Instant(offset: deadline)
      switch call.kind {
      case .job(let queue, let owner): pending.append(PendingWork(.job, owner: owner, queue: queue, .delayed(until: time)))
      case .wake(let operation?): sleeping[operation] = min(sleeping[operation] ?? time, time)
      case .wake(nil): pending.append(PendingWork(.task, owner: nil, queue: nil, .delayed(until: time)))
      case .timeout: break
      }
    }
    for step in steps where step.isOfTaskWithoutQueue { pending.append(PendingWork(.task, owner: nil, queue: nil, .ready)) }
    for queue in queues {
      let backlog = queue.backlog
      pending += backlog.entries.map { PendingWork($0, in: backlog.queue, ready: ready, sleeping: sleeping) }
      for entry in backlog.entries { if let operation = entry.kind.operation { sleeping[operation] = nil } }
    }
    // Of operations that are in other queues, or in none.
    pending += sleeping.values.map { PendingWork(.task, owner: nil, queue: nil, .delayed(until: $0)) }
    return pending
  }

  /// Waits that blocked their thread, and returned because they could not come to their end. Each says what it was for, and what was
  /// pending.
  public var abandonedWaits: [String] { locked { reports } }

  /// For the Swift runtime: a step of a task that prefers this executor.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let step = DrivenStep(isShuffled: false) { [self] isNamed in
      runStep(job)
      return .ran(isNamed ? "a task" : nil)
    }
    add(AgendaStep(step, isOfTaskWithoutQueue: true))
  }

  // MARK: One step after the other

  /// How far a call has come.
  private struct Progress {
    /// So many of the last steps before the limit are named, to tell what goes on and on.
    private static let named = 1000
    let limit: Int
    var steps = 0
    var names: [String: Int] = [:]
    var isUsedUp = false

    init(limit: Int) { self.limit = limit }

    var isNamed: Bool { steps >= limit - Self.named }
  }

  private func runAll(_ progress: inout Progress) {
    while progress.steps < progress.limit {
      guard let name = step(isNamed: progress.isNamed) else {
        BackgroundWork.settle()
        if hasSteps { continue }
        return
      }
      progress.steps += 1
      if let name { progress.names[name, default: 0] += 1 }
    }
    progress.isUsedUp = hasSteps
  }

  /// - Returns: the name of what has run, if it was asked for; nil if nothing may run.
  private func step(isNamed: Bool) -> String?? {
    while true {
      // What an owner's end takes away must not be there at one time, and gone at another, when the seed chooses.
      BackgroundWork.settle()
      while nextDeadlineIsDue, let call = locked({ agenda.takeCall(dueAt: clock) }) { call.perform() }
      let step = locked { agenda.takeNext { generator.next(upTo: $0) } }
      if let step {
        if case .ran(let name) = step.run(isNamed: isNamed) { return .some(name) }
      } else {
        for queue in locked({ queues.compactMap(\.queue) }) { queue.askUnannounced() }
        lookAtWaits()
        guard hasSteps else { return nil }
      }
    }
  }

  private var hasSteps: Bool { locked { !agenda.isEmpty } || nextDeadlineIsDue }

  private var nextDeadlineIsDue: Bool { nextDeadline.map { $0 <= now.offset } ?? false }

  /// Of what is still wanted: which is asked, and released, outside the lock.
  private var nextDeadline: Duration? {
    while let (deadline, call) = locked({ agenda.nextCall }) {
      if call.isPending { return deadline }
      locked { agenda.remove(call) }
    }
    return nil
  }

  /// Moves the clock to the next deadline.
  /// - Returns: false if there is none until the target.
  private func moveClock(to target: Duration?) -> Bool {
    guard let deadline = nextDeadline, target.map({ deadline <= $0 }) ?? true else { return false }
    locked { clock = max(clock, deadline) }
    return true
  }

  private func outcome(of progress: Progress) -> Outcome {
    let elsewhere = pending.filter { $0.reason == .suspendedElsewhere }
    let rearming = progress.isUsedUp ? progress.names.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key) : []
    let outcome = Outcome(steps: progress.steps, isIdle: !progress.isUsedUp, rearming: rearming, suspendedElsewhere: elsewhere)
    if progress.isUsedUp { writeToStandardError("\(outcome)") }
    return outcome
  }

  // MARK: One thread at a time

  private func locked<Result>(_ body: () -> Result) -> Result {
    condition.lock()
    defer { condition.unlock() }
    return body()
  }

  private func run<Result>(_ body: () -> Result) -> Result {
    let thread = ObjectIdentifier(Thread.current)
    locked { while !enter(thread) { condition.wait() } }
    defer { leave() }
    return body()
  }

  /// Under the lock.
  private func enter(_ thread: ObjectIdentifier) -> Bool {
    if let runner, runner.thread != thread { return false }
    runner = (thread, (runner?.depth ?? 0) + 1)
    return true
  }

  private func leave() {
    locked {
      guard let (thread, depth) = runner else { return }
      runner = depth == 1 ? nil : (thread, depth - 1)
      condition.broadcast()
    }
  }

  // MARK: For queues

  func register(_ queue: OwnerScopedQueue) {
    let alive = locked {
      let alive = queues.compactMap(\.queue) + [queue]
      queues = alive.map { WeakQueue(queue: $0) }
      return alive
    }
    withExtendedLifetime(alive) {}  // until here: none of them goes under the lock
  }

  private func add(_ step: AgendaStep) {
    locked {
      agenda.append(step)
      condition.broadcast()
    }
  }

  private func schedule(_ call: DrivenCall, at deadline: Duration) {
    locked {
      agenda.insert(call, at: deadline)
      condition.broadcast()
    }
  }

  /// What a thread does instead of blocking: see `drive`.
  private enum Try {
    case ran, isOver, somebodyElseRuns, nothingLeft
  }

  private func tryStep(_ isOver: () -> Bool) -> Try {
    let thread = ObjectIdentifier(Thread.current)
    guard locked({ enter(thread) }) else { return .somebodyElseRuns }
    defer { leave() }
    if step(isNamed: false) != nil { return .ran }
    BackgroundWork.settle()
    if isOver() { return .isOver }
    // This thread stands still: only so can time pass.
    return hasSteps || moveClock(to: nil) ? .ran : .nothingLeft
  }

  private func abandon(_ wait: String, _ cause: String) {
    let pending = pending.map { "  \($0)" }
    let cause = "a wait for \(wait) can't come to its end, and returns without: \(cause)"
    let report = ([cause] + (pending.isEmpty ? [] : ["pending:"]) + pending).joined(separator: "\n")
    locked { reports.append(report) }
    writeToStandardError(report)
  }

  private func writeToStandardError(_ text: String) {
    FileHandle.standardError.write(Data("OwnedOperationsTesting: \(text)\n".utf8))
  }
}

extension VirtualTime: QueueDriver {
  package func add(_ step: DrivenStep) { add(AgendaStep(step, isOfTaskWithoutQueue: false)) }

  package func add(_ call: DrivenCall, after delay: Duration) {
    schedule(call, at: now.offset + max(.zero, delay))
  }

  package func choose(among count: Int) -> Int { locked { generator.next(upTo: count) } }

  package func drive(until isOver: () -> Bool, for wait: @autoclosure () -> String) {
    var steps = 0
    var end: Date?
    while !isOver() {
      switch tryStep(isOver) {
      case .isOver: return
      case .ran:
        steps += 1
        end = nil
        if steps >= Self.defaultLimit { return abandon(wait(), "\(steps) steps have not ended it") }
      case .somebodyElseRuns, .nothingLeft:
        let limit = end ?? Date(timeIntervalSinceNow: patience)
        end = limit
        let isInTime = Date() < limit
        guard isInTime || locked({ runner != nil && runner?.thread != ObjectIdentifier(Thread.current) }) else {
          return abandon(wait(), "nothing is left that may run")
        }
        // Somebody else may end the wait without telling us.
        locked { if agenda.isEmpty || runner != nil { _ = condition.wait(until: Date(timeIntervalSinceNow: 0.001)) } }
      }
    }
  }
}
