import Foundation
import Testing

@testable import OwnedOperations

extension ModelExplorer {
  /// Sees all schedules with few preemptions; with one more and reduction, all or some thousands; and many random ones.
  ///
  /// `MODEL_PREEMPTIONS` says how few, with reduction, also where there are too many schedules. `MODEL_SECONDS` says how long random ones
  /// are to be tried for each scenario, instead of all that, from a fresh seed or from `MODEL_FIRST_SEED`. `MODEL_LIST` lists them.
  /// `MODEL_DECISIONS` repeats one run of those that are tested.
  /// - Parameters:
  ///   - reduces: whether one schedule stands for others, as with one preemption more, because there are too many otherwise.
  ///   - deeper: how many schedules it sees at most with one preemption more; nil if that must be all.
  ///   - random: how many times as many random ones it sees as others do.
  func expectNothing(
    preemptions: Int, reduces: Bool = false, deeper: Int? = someDeeper, random factor: Int = 1,
    _ location: SourceLocation = #_sourceLocation,
    _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    if Self.setting("MODEL_LIST") != nil { return print("scenario: \(name)") }
    if let decisions = ProcessInfo.processInfo.environment["MODEL_DECISIONS"] {
      guard let schedule = ModelSchedule(decisions) else {
        Issue.record("MODEL_DECISIONS is no list of steps and choices, such as 120:1,340:2: \(decisions)", sourceLocation: location)
        return
      }
      #expect(repeatedly(schedule, scenario).failure == nil, sourceLocation: location)
      return
    }
    if Self.stopsAtFailure {
      // So that a crash of the process can be told with its scenario, too.
      print("model: begins: \(name)")
      fflush(nil)
    }
    var explorer = self
    let asked = Self.setting("MODEL_PREEMPTIONS")
    if Self.seconds == nil {
      let most = asked ?? preemptions
      explorer.mostPreemptions = most
      if reduces || asked != nil { explorer.reduces = true }
      if reduces { explorer.mostSchedules = Self.allDeeper }
      guard explorer.findsNothing(location, scenario) else { return }
      if asked == nil, !Self.stopsAtFailure {
        explorer.mostPreemptions = most + 1
        explorer.reduces = true
        // Each scenario has all with two preemptions, where that takes a few seconds.
        explorer.mostSchedules = deeper.map { most == 1 ? max($0, Self.someOfTwo) : $0 } ?? Self.allDeeper
        guard explorer.findsNothing(mustBeComplete: deeper == nil, location, scenario) else { return }
      }
    }
    explorer.exploresBackground = true
    var amount = Amount(schedules: factor * Self.randomSchedules)
    if let seconds = Self.seconds { amount = Amount(seconds: seconds, firstSeed: Self.firstSeed) }
    let random = explorer.randomly(amount, scenario)
    if random.failure != nil, Self.stopsAtFailure { exit(1) }
    #expect(random.failure == nil, sourceLocation: location)
  }

  private func findsNothing(
    mustBeComplete: Bool = true, _ location: SourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) -> Bool {
    let report = exhaustively(scenario)
    if report.failure != nil, Self.stopsAtFailure { exit(1) }
    #expect(report.failure == nil, "\(report.trace.joined(separator: "\n"))", sourceLocation: location)
    #expect(
      report.isComplete || report.failure != nil || !mustBeComplete, "more schedules than are looked at", sourceLocation: location)
    return report.failure == nil
  }

  /// For `.ci/check-mutations`. What is left of a run that has failed is not fit for others.
  private static let stopsAtFailure = setting("MODEL_STOPS_AT_FAILURE") != nil
  static let someDeeper = 4_000
  private static let someOfTwo = 10_000
  private static let allDeeper = 200_000
  private static let randomSchedules = setting("MODEL_RANDOM") ?? 500
  private static let seconds = ProcessInfo.processInfo.environment["MODEL_SECONDS"].flatMap { Double($0) }
  private static let firstSeed: UInt64 = {
    let seed = setting("MODEL_FIRST_SEED").map { UInt64($0) } ?? UInt64.random(in: 0...UInt64(UInt32.max)) << 24
    print("model: MODEL_FIRST_SEED=\(seed)")
    return seed
  }()
}

/// Set by threads of a run.
final class ModelFlag: @unchecked Sendable {  // the baton holder's
  private let book = ModelObject("flag")
  var isSet = false { didSet { ModelRun.note(book) } }
  var count = 0 { didSet { ModelRun.note(book) } }
}

/// Does something when it goes.
final class Leaving: Sendable {
  private let leave: @Sendable () -> Void
  init(_ leave: @escaping @Sendable () -> Void) { self.leave = leave }
  deinit { leave() }
}

/// Lets go of an object when it is told to.
final class Holder<Object: AnyObject>: @unchecked Sendable {  // the baton holder's
  var object: Object?
  init(_ object: Object) { self.object = object }
}

/// What bodies did.
final class Bodies: @unchecked Sendable {  // the baton holder's
  var runs = 0
  var inside = 0
  var mostInside = 0
  var hasEnded = false { didSet { ModelRun.note(book) } }
  var startsAfterEnd = 0
  /// From when on bodies should be alone.
  var areOneAtATime = false { didSet { ModelRun.note(book) } }
  /// Of bodies that began beside others nevertheless.
  var startsBesideOthers = 0
  /// Of bodies for which somebody looked after the end whether they may begin.
  var decisionsAfterEnd = 0
  private let place = Atomic<Int>(0)
  private let book = ModelObject("bodies")

  func run() {
    ModelRun.note(book)
    runs += 1
    if hasEnded { startsAfterEnd += 1 }
  }

  /// Touches what all bodies touch that stay: where only one thread ever comes, nobody is let in between.
  func pass() { place.add(1, ordering: .relaxed) }

  /// Takes time: others may come meanwhile.
  func stay(_ body: () -> Void = {}) {
    enter()
    pass()
    body()
    leave()
  }

  func enter() {
    ModelRun.note(book)
    inside += 1
    mostInside = max(mostInside, inside)
    if areOneAtATime, inside > 1 { startsBesideOthers += 1 }
  }

  func leave() {
    ModelRun.note(book)
    inside -= 1
  }

  func runAndStay() {
    run()
    stay()
  }
}

/// An object that is captured, and is to go.
final class Probe: @unchecked Sendable {  // the baton holder's
  private var object: ModelFlag?
  private weak var reference: ModelFlag?

  init() {
    object = ModelFlag()
    reference = object
  }

  func give(_ body: (ModelFlag) -> Void) { if let object = object.take() { body(object) } }
  var isGone: Bool { reference == nil }
}

/// A queue with an owner: what scenarios of queues begin with.
struct QueueScene: Sendable {
  let queue: OwnerScopedQueue
  let lifetime = OwnerLifetime()
  let bodies = Bodies()

  init(limit: Int = 1, underlyingQueue: DispatchQueue? = nil) {
    queue = OwnerScopedQueue(maxConcurrentOperationCount: limit, underlyingQueue: underlyingQueue)
  }

  /// A job of the owner's, which is counted.
  func add() { queue.async(lifetime: lifetime) { [bodies] in bodies.run() } }
  /// One that keeps the object.
  func addHolding(_ object: ModelFlag) {
    queue.async(lifetime: lifetime) { [bodies] in
      object.count += 1
      bodies.run()
    }
  }
  func addOneThatStays() { queue.async(lifetime: lifetime) { [bodies] in bodies.runAndStay() } }

  func operation() -> OwnedBlockOperation { OwnedBlockOperation(lifetime: lifetime) { [bodies] in bodies.run() } }
  func operationThatStays() -> OwnedBlockOperation { OwnedBlockOperation(lifetime: lifetime) { [bodies] in bodies.runAndStay() } }

  func wait() { queue.waitUntilAllOperationsAreFinished() }

  func addAndWait(_ count: Int) {
    for _ in 0..<count { add() }
    wait()
  }

  /// Nothing begins between the two but what was under way. Everybody else goes on meanwhile until nobody can: it takes a run in which
  /// time passes.
  func suspend(_ suspend: () -> Void, resume: () -> Void) {
    suspend()
    bodies.hasEnded = true
    Platform.sleep(microseconds: 1)
    bodies.hasEnded = false
    resume()
  }

  func expectStatistics(_ run: ModelRun, file: StaticString = #fileID, line: UInt = #line) {
    let counts = queue.statistics
    let text = "\(counts.enqueued) jobs were added, \(counts.succeeded) ran, \(counts.cancelled) were cancelled, \(bodies.runs) bodies ran"
    run.expect(counts.enqueued == counts.succeeded + counts.cancelled && counts.succeeded == bodies.runs, text, file: file, line: line)
  }

  func end() {
    lifetime.end()
    bodies.hasEnded = true
  }

  /// - Parameter limit: how many bodies may have been inside at once.
  func expect(_ run: ModelRun, runs: Int, atOnce limit: Int = .max, file: StaticString = #fileID, line: UInt = #line) {
    run.expect(bodies.runs == runs, "\(bodies.runs) of \(runs) bodies ran", file: file, line: line)
    run.expect(bodies.mostInside <= limit, "\(bodies.mostInside) were inside at once", file: file, line: line)
  }
}

extension OwnerLifetime {
  /// What the reaper does when the lifetime has ended, on this thread. It is to be held meanwhile.
  func tellMembers() {
    var place: Int? = 0
    while let start = place {
      var taken: [any LifetimeMember] = []
      place = takeMembers(from: start, limit: 1, into: &taken)
      for member in taken { member.lifetimeDidEnd() }
    }
  }
}

extension ModelRun {
  /// For the scenario's main thread: goes on when the condition holds. A run in which it never does is found.
  func wait(_ name: StaticString, until condition: @escaping () -> Bool) {
    if let thread = Self.thread { _ = block(thread, on: nil, name, until: condition) }
  }
}

extension ModelExplorer {
  /// - Parameters:
  ///   - earlyTimeouts: how many waits may be over before their time, at any moment.
  ///   - timePasses: whether the clock goes on when nobody can.
  init(_ name: String, earlyTimeouts: Int = 0, timePasses: Bool = false) {
    self.init(name)
    self.earlyTimeouts = earlyTimeouts
    self.timePasses = timePasses
  }

  /// A scenario of one queue. When its threads are over, all that is left in the queue is waited for before the last look.
  func exploreQueue(
    limit: Int = 1, preemptions: Int = 2, reduces: Bool = false, deeper: Int? = someDeeper, random factor: Int = 1,
    hasOneThread: Bool = false,
    _ location: SourceLocation = #_sourceLocation,
    _ threads: @escaping @Sendable (ModelRun, QueueScene) -> Void, atEnd look: @escaping @Sendable (ModelRun, QueueScene) -> Void
  ) {
    expectNothing(preemptions: preemptions, reduces: reduces, deeper: deeper, random: factor, location) { run in
      let scene = QueueScene(limit: limit, underlyingQueue: hasOneThread ? DispatchQueue(label: "one thread") : nil)
      threads(run, scene)
      scene.wait()
      look(run, scene)
    }
  }
}

/// Runs the parts of tasks on threads of the run.
final class ModelTaskExecutor: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    ModelRun.current?.add("task", isPartOfScenario: true) { [self] in runStep(job) }
  }
}

/// An asynchronous operation whose task the model knows.
final class ModelTaskOperation: OwnedOperation, @unchecked Sendable {  // constant
  private let body: @Sendable () async -> Void

  init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () async -> Void) {
    self.body = body
    super.init(lifetime: lifetime)
  }

  override var isAsynchronous: Bool { true }

  override func perform() {
    Task(executorPreference: ModelTaskExecutor()) { [self] in
      await runInTask { await body() }
      finish()
    }
  }
}

/// Hears of operations, and does nothing.
final class ModelScheduler: OperationScheduler, @unchecked Sendable {  // the baton holder's
  var hasBarriers: Bool { false }
  func mayHaveWorkToBegin(ofOwnerIn hold: OwnerHold) -> Bool { false }
  func unfinishedOperations(ownedBy lifetime: OwnerLifetime?, atMost limit: Int) -> [OwnedOperation]? { [] }
  var announcements = 0
  var finishes = 0
  /// Of waits of tasks.
  var begins = 0
  var ends = 0
  var endedBeforeItBegan = false
  private let place = ModelPoint()

  func operationDidBecomeReady(_ operation: OwnedOperation) { announcements += 1 }
  func operationMayHaveBecomeReady(_ operation: OwnedOperation) {}
  func operationDidBegin() {}
  func operationDidFinish(_ operation: OwnedOperation) -> Bool {
    finishes += 1
    return false
  }
  func operation(_ operation: OwnedOperation, didChangePriorityFrom old: Operation.QueuePriority) {}
  func beginTaskWait(of operation: OwnedOperation) {
    place.pass()
    begins += 1
  }

  func didBeginTaskWait() {}
  func taskWasCancelled(of operation: OwnedOperation) {}
  func endTaskWait(of operation: OwnedOperation) async { noteEnd() }
  func endBlockingTaskWait(of operation: OwnedOperation) { noteEnd() }

  private func noteEnd() {
    place.pass()
    ends += 1
    if ends > begins { endedBeforeItBegan = true }
  }
}
