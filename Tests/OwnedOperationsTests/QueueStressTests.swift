import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// Everything at once, in several queues, for thousands of owners that don't live long. Runs for three seconds, or for as many as
/// `OWNED_OPERATIONS_STRESS_SECONDS` says; `OWNED_OPERATIONS_STRESS_SEED` repeats the choices (not the timing) of a run.
@Suite struct QueueStressTests {
  /// On a thread of its own: it blocks, and the tasks it starts need the threads that tests run on.
  @Test func everythingAtOnceFinishesOnceAndLeavesNothingBehind() async {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        Self.runRounds()
        continuation.resume()
      }
    }
  }

  private static func runRounds() {
    let environment = ProcessInfo.processInfo.environment
    let seconds = environment["OWNED_OPERATIONS_STRESS_SECONDS"].flatMap(Double.init) ?? 3
    let seed = environment["OWNED_OPERATIONS_STRESS_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...UInt64(UInt32.max))
    print("QueueStressTests: OWNED_OPERATIONS_STRESS_SEED=\(seed)")
    let deadline = DispatchTime.now() + seconds
    var random = SplitMix(state: seed)
    var rounds = 0
    repeat {
      let roundSeed = random.next()
      let ledger = Ledger()
      StressRound(seed: roundSeed, ledger: ledger).run()
      let problems = ledger.problems.entries
      #expect(problems.isEmpty, "seed \(seed), round \(rounds): \(problems.prefix(5))")
      #expect(ledger.live.becomesZero(), "seed \(seed), round \(rounds): \(ledger.live.value) objects leaked")
      rounds += 1
      if !problems.isEmpty { break }
    } while DispatchTime.now() < deadline
    print("QueueStressTests: \(rounds) rounds")
  }
}

/// What a round finds out.
private final class Ledger: Sendable {
  let problems = Journal<String>()
  /// Captures and operations that are there.
  let live = LiveCount()
  func report(_ problem: String) { problems.write(problem) }
}

/// Captured by every closure: counts itself, and notices if the closure runs twice, or though it must not.
private final class Capture: Sendable {
  private let ledger: Ledger
  private let runs = Counter()
  private let isForbidden: @Sendable () -> Bool

  init(_ ledger: Ledger, isForbidden: @escaping @Sendable () -> Bool = { false }) {
    self.ledger = ledger
    self.isForbidden = isForbidden
    ledger.live.add()
  }

  deinit { ledger.live.add(-1) }

  func run() {
    if isForbidden() { ledger.report("work has started after the end of its owner") }
    runs.add()
    if runs.value > 1 { ledger.report("work has run twice") }
  }
}

private final class StressOperation: OwnedOperation, @unchecked Sendable {  // constants
  private let ledger: Ledger
  private let capture: Capture
  private let goesOn: Bool

  init(_ lifetime: OwnerLifetime, _ ledger: Ledger, goesOn: Bool) {
    self.ledger = ledger
    self.goesOn = goesOn
    capture = Capture(ledger)
    super.init(lifetime: lifetime)
    ledger.live.add()
    let completions = Counter()
    completionBlock = {
      completions.add()
      if completions.value > 1 { ledger.report("an operation has completed twice") }
    }
  }

  deinit { ledger.live.add(-1) }

  override var isAsynchronous: Bool { goesOn }

  override func perform() throws {
    capture.run()
    if goesOn { DispatchQueue.global().async { self.finish() } }
  }

  override func didCancel(_ reason: CancellationReason) {
    if goesOn { finish() }
  }
}

private struct StressRound {
  private struct Failure: Error {}

  let seed: UInt64
  let ledger: Ledger
  let queues: [OwnerScopedQueue]
  /// Stays suspended until the end of the round.
  let held = OwnerScopedQueue(name: "held")
  let tasks = DispatchGroup()

  init(seed: UInt64, ledger: Ledger) {
    self.seed = seed
    self.ledger = ledger
    queues = [-1, 1, 3].map { OwnerScopedQueue(name: "stress \($0)", maxConcurrentOperationCount: $0) }
    held.isSuspended = true
  }

  func run() {
    race((0..<3).map { number in { act(seed: seed &+ UInt64(number)) } })
    for queue in queues {
      queue.maxConcurrentOperationCountPerOwner = OperationQueue.defaultMaxConcurrentOperationCount
      if queue.maxConcurrentOperationCount == 0 { queue.maxConcurrentOperationCount = 1 }
      queue.isSuspended = false
    }
    if tasks.wait(timeout: .now() + 60) != .success { ledger.report("a task has not ended") }
    // Bodies in one queue hold owners of delayed jobs of another.
    for queue in queues { _ = queue.becomesIdle() }
    for queue in queues + [held] {
      // By now nobody holds an owner any more: what has ended has ended before this.
      if queue == held { held.isSuspended = false }
      if !queue.becomesIdle() { ledger.report("\(queue) doesn't finish: \(queue.statistics), \(queue.operations.prefix(3))") }
      let statistics = queue.statistics
      if statistics.enqueued != statistics.succeeded + statistics.failed + statistics.cancelled
        || statistics.pending + statistics.executing != 0
      {
        ledger.report("\(queue): \(statistics) don't add up")
      }
      if statistics.skippedForEndedOwners > statistics.cancelled || statistics.started > statistics.enqueued {
        ledger.report("\(queue): \(statistics) can't be")
      }
      if !queue.operations.isEmpty { ledger.report("\(queue) still has \(queue.operations)") }
    }
  }

  /// What one of the threads does.
  private func act(seed: UInt64) {
    var random = SplitMix(state: seed)
    var owners = (0..<4).map { _ in TokenOwner() }
    var recent: [Operation] = []
    var waits = 0
    for _ in 0..<400 {
      let queue = queues[random.below(queues.count)]
      let place = random.below(owners.count)
      let owner = owners[place]
      let priority = random.priority()
      switch random.below(30) {
      case 0...3:
        let capture = Capture(ledger)
        queue.async(owner: owner, priority: priority) { _ in capture.run() }
      case 4...5:
        let capture = Capture(ledger)
        queue.async(lifetime: owner.lifetime, priority: priority) { capture.run() }
      case 6:
        let capture = Capture(ledger)
        queue.addOperation(owner: owner, priority: priority) { _ in
          capture.run()
          throw Failure()
        }
      case 7...10: recent.append(addOperation(of: owner, to: queue, after: recent, &random))
      case 11:
        let capture = Capture(ledger)
        let plain = BlockOperation { capture.run() }
        plain.queuePriority = priority
        dependOnSome(of: recent, plain, &random)
        queue.addOperation(plain)
        recent.append(plain)
      case 12: recent.randomElement(using: &random)?.cancel()
      case 13: recent.randomElement(using: &random)?.queuePriority = priority
      case 14...17: replaceOwner(&owners, at: place, queue, &random)
      case 18: queue.cancelOperations(ownedBy: owner.lifetime)
      case 19: if random.below(8) == 0 { queue.cancelAllOperations() }
      case 20:
        let capture = Capture(ledger)
        queue.addBarrierBlock { capture.run() }
      case 21: queue.setSuspended(random.below(2) == 0, ownedBy: owner.lifetime)
      case 22: queue.isSuspended = random.below(4) == 0
      case 23: queue.maxConcurrentOperationCount = [-1, 1, 2, 5, 0][random.below(5)]
      case 24: queue.ownerFairness = random.below(2) == 0 ? .roundRobin : .firstComeFirstServed
      case 25: queue.maxConcurrentOperationCountPerOwner = [-1, -1, 1, 2][random.below(4)]
      case 26: startTask(of: owner.lifetime, in: queue, &random)
      case 27:
        // A job that waits for something older than itself, of ours: that a worker waits for a plain operation, nobody tells its queue.
        guard waits < 4, let last = recent.last(where: { $0 is OwnedOperation }) else { break }
        waits += 1
        let capture = Capture(ledger)
        queue.async(lifetime: owner.lifetime) {
          capture.run()
          last.waitUntilFinished()
        }
      case 28:
        let capture = Capture(ledger)
        queue.asyncAfter(.microseconds(random.below(500)), owner: owner) { _ in capture.run() }
      default:
        let statistics = queue.statistics
        let sum = statistics.succeeded + statistics.failed + statistics.cancelled + statistics.pending + statistics.executing
        if statistics.enqueued != sum || min(statistics.pending, statistics.executing) < 0 { ledger.report("\(statistics) don't add up") }
        if statistics.started < statistics.succeeded + statistics.failed + statistics.executing {
          ledger.report("\(statistics) are wrong about what has started")
        }
        _ = queue.operationCount(ownedBy: owner.lifetime)
      }
      addToHeld(owner.lifetime)
      if recent.count > 20 { recent.removeFirst(10) }
    }
    for owner in owners {
      for queue in queues { queue.setSuspended(false, ownedBy: owner.lifetime) }
      if random.below(2) == 0 { end(owner.lifetime) }
    }
  }

  /// Work in a suspended queue, whose owner may end before the queue is resumed: then it must not run.
  private func addToHeld(_ lifetime: OwnerLifetime) {
    let capture = Capture(ledger) { !lifetime.isAlive }
    held.async(lifetime: lifetime) { capture.run() }
  }

  private func addOperation(
    of owner: TokenOwner, to queue: OwnerScopedQueue, after recent: [Operation], _ random: inout SplitMix
  ) -> Operation {
    let operation = StressOperation(owner.lifetime, ledger, goesOn: random.below(4) == 0)
    operation.queuePriority = random.priority()
    if random.below(3) == 0 { operation.dependencyPolicy = .requireSuccess }
    dependOnSome(of: recent, operation, &random)
    queue.addOperation(operation)
    return operation
  }

  /// Ours on plain ones, plain ones on ours, and each on its like.
  private func dependOnSome(of recent: [Operation], _ operation: Operation, _ random: inout SplitMix) {
    for _ in 0..<random.below(3) {
      if let dependency = recent.randomElement(using: &random) { operation.addDependency(dependency) }
    }
  }

  /// An owner ends; what comes for it afterwards must not run.
  private func replaceOwner(_ owners: inout [TokenOwner], at place: Int, _ queue: OwnerScopedQueue, _ random: inout SplitMix) {
    let lifetime = owners[place].lifetime
    if random.below(2) == 0 { end(lifetime) }
    owners[place] = TokenOwner()
    guard !lifetime.isAlive else { return }  // somebody's body still holds the owner
    let (first, second) = (Capture(ledger) { true }, Capture(ledger) { true })
    queue.async(lifetime: lifetime) { first.run() }
    queue.addOperation(lifetime: lifetime) { second.run() }
  }

  private func end(_ lifetime: OwnerLifetime) { lifetime.end() }

  private func startTask(of lifetime: OwnerLifetime, in queue: OwnerScopedQueue, _ random: inout SplitMix) {
    let capture = Capture(ledger)
    let prefersQueue = random.below(2) == 0
    tasks.enter()
    Task(executorPreference: prefersQueue ? queue : nil) { [tasks] in
      _ = try? await queue.run(lifetime: lifetime) {
        capture.run()
        await Task.yield()
      }
      tasks.leave()
    }
  }
}

/// A small generator whose choices can be repeated.
struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

  mutating func priority() -> Operation.QueuePriority {
    [.veryLow, .low, .normal, .normal, .high, .veryHigh][below(6)]
  }
}
