import Foundation
import Testing

@testable import OwnedOperations

struct OperationObservationTests {
  typealias Options = OperationObservation.Options

  /// `a>b` for a change, `?>` or `>?` where a value was not asked for, `prior:a` for the call before.
  private func log<Value: Sendable>(
    _ keyPath: KeyPath<OwnedOperation, Value>, _ options: Options, of operation: OwnedOperation, in journal: Journal<String>,
    _ prefix: String = ""
  ) -> OperationObservation {
    operation.observe(keyPath, options: options) { _, change in
      let old = change.oldValue.map { "\($0)" } ?? "?"
      let new = change.newValue.map { "\($0)" } ?? "?"
      journal.write(prefix + (change.isPrior ? "prior:\(old)" : "\(old)>\(new)"))
    }
  }

  @Test func everyKeyPathTellsOldAndNew() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let blocker = OwnedBlockOperation(lifetime: .forTests) {}
    let journal = Journal<String>()
    let observations = [
      log(\.isReady, [.old, .new], of: operation, in: journal, "isReady "),
      log(\.isExecuting, [.old, .new], of: operation, in: journal, "isExecuting "),
      log(\.isFinished, [.old, .new], of: operation, in: journal, "isFinished "),
      log(\.isCancelled, [.old, .new], of: operation, in: journal, "isCancelled "),
      log(\.state, [.old, .new], of: operation, in: journal, "state "),
    ]
    let priority = operation.observe(\.queuePriority, options: [.old, .new]) { _, change in
      journal.write("priority \(change.oldValue!.rawValue)>\(change.newValue!.rawValue)")
    }
    let dependencies = operation.observe(\.dependencies, options: [.old, .new]) { _, change in
      journal.write("dependencies \(change.oldValue!.count)>\(change.newValue!.count)")
    }
    operation.addDependency(blocker)
    operation.queuePriority = .high
    blocker.start()
    operation.start()
    #expect(
      journal.entries == [
        "isReady true>false", "state ready>pending", "dependencies 0>1", "priority 0>4", "isReady false>true", "state pending>ready",
        "isExecuting false>true", "state ready>executing", "isExecuting true>false", "isFinished false>true", "state executing>finished",
      ])
    withExtendedLifetime((observations, priority, dependencies)) {}
  }

  @Test func optionsMeanWhatTheyMeanInKeyValueObserving() {
    func heard(_ options: Options) -> [String] {
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      let journal = Journal<String>()
      let observation = log(\.isCancelled, options, of: operation, in: journal)
      operation.cancel()
      operation.cancel()
      withExtendedLifetime(observation) {}
      return journal.entries
    }
    #expect(heard([]) == ["?>?"])
    #expect(heard([.new]) == ["?>true"])
    #expect(heard([.old]) == ["false>?"])
    #expect(heard([.old, .new]) == ["false>true"])
    #expect(heard([.initial]) == ["?>?", "?>?"])
    #expect(heard([.initial, .new]) == ["?>false", "?>true"])
    #expect(heard([.initial, .old, .new]) == ["?>false", "false>true"])
    #expect(heard([.prior]) == ["prior:?", "?>?"])
    #expect(heard([.prior, .old, .new]) == ["prior:false", "false>true"])
  }

  @Test func priorComesBeforeAnybodyCanSeeTheChange() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let journal = Journal<String>()
    let observations = [
      operation.observe(\.isExecuting, options: [.prior]) { operation, change in journal.write("\(change.isPrior) \(operation.isExecuting)")
      },
      operation.observe(\.isFinished, options: [.prior]) { operation, change in journal.write("\(change.isPrior) \(operation.isFinished)")
      },
    ]
    operation.start()
    // isExecuting turns on, then off together with isFinished turning on.
    #expect(journal.entries == ["true false", "false true", "true true", "true false", "false false", "false true"])
    withExtendedLifetime(observations) {}
  }

  @Test func priorOfDependenciesComesBeforeTheChange() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let journal = Journal<Int>()
    let observation = operation.observe(\.dependencies, options: [.prior]) { operation, _ in journal.write(operation.dependencies.count) }
    let dependency = Operation()
    operation.addDependency(dependency)
    operation.removeDependency(dependency)
    #expect(journal.entries == [0, 1, 1, 0])
    withExtendedLifetime(observation) {}
  }

  @Test func anInvalidatedOrReleasedObservationHearsNothingAndLetsGoOfItsHandler() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let calls = Counter()
    weak var captured: TokenOwner?
    var observation: OperationObservation? = operation.observe(\.isReady) { [capture = keep(&captured)] _, _ in
      calls.add()
      _ = capture
    }
    #expect(captured != nil)
    observation?.invalidate()
    #expect(captured == nil)
    weak var second: TokenOwner?
    observation = operation.observe(\.isCancelled) { [capture = keep(&second)] _, _ in
      calls.add()
      _ = capture
    }
    #expect(second != nil)
    observation = nil
    #expect(second == nil)
    operation.cancel()
    operation.start()
    #expect(calls.value == 0)
  }

  @Test func handlersAreReleasedWhenTheOperationHasFinished() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    weak var captured: TokenOwner?
    let observation = operation.observe(\.isFinished) { [capture = keep(&captured)] operation, _ in
      _ = capture
      _ = operation
    }
    operation.start()
    #expect(captured == nil)
    withExtendedLifetime(observation) {}
  }

  @Test func aHandlerMayCallBackAndHearsOfItsOwnChangeNext() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let journal = Journal<String>()
    let first = operation.observe(\.queuePriority) { operation, _ in
      journal.write("first begins")
      operation.cancel()
      journal.write("first ends")
    }
    let second = operation.observe(\.isCancelled) { _, _ in journal.write("second") }
    operation.queuePriority = .low
    #expect(journal.entries == ["first begins", "first ends", "second"])
    withExtendedLifetime((first, second)) {}
  }

  @Test func theEndOfAnOwnerReachesObservers() {
    let lifetime = OwnerLifetime()
    let operation = OwnedBlockOperation(lifetime: lifetime) {}
    operation.addDependency(Operation())
    let journal = Journal<String>()
    let done = DispatchSemaphore(value: 0)
    let observations = [
      log(\.isCancelled, [.prior, .old, .new], of: operation, in: journal, "isCancelled "),
      log(\.isReady, [.new], of: operation, in: journal, "isReady "),
      operation.observe(\.isFinished) { _, _ in done.signal() },
    ]
    lifetime.end()
    _ = operation.isCancelled  // which notes the end; the handlers are called by the reaper all the same
    done.wait()
    #expect(journal.entries == ["isCancelled prior:false", "isCancelled false>true", "isReady ?>true"])
    withExtendedLifetime(observations) {}
  }

  @Test func anOperationNobodyObservesAllocatesNothingForIt() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    operation.start()
    #expect(operation.extras == nil)
  }

  @Test func changesArriveInOrderHoweverManyThreadsMakeThem() {
    let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
    for _ in 0..<50 {
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      let journal = Journal<[Int]>()
      let observation = operation.observe(\.queuePriority, options: [.old, .new]) { _, change in
        journal.write([change.oldValue!.rawValue, change.newValue!.rawValue])
      }
      race(
        (0..<3).map { number in
          { for step in 0..<40 { operation.queuePriority = priorities[(step + number) % 5] } }
        })
      operation.start()  // waits for no one, but ends the observation after the last change
      let changes = journal.entries
      #expect(zip(changes, changes.dropFirst()).allSatisfy { $0[1] == $1[0] })
      #expect(changes.first?[0] == 0 && changes.last?[1] == operation.queuePriority.rawValue)
      withExtendedLifetime(observation) {}
    }
  }

  @Test func aRacingCancelEndAndFinishAreSeenOnceEachAndInAPossibleOrder() {
    for round in 0..<200 {
      let lifetime = OwnerLifetime()
      let operation = OwnedBlockOperation(lifetime: lifetime) {}
      let journal = Journal<String>()
      let finished = DispatchSemaphore(value: 0)
      let observations = [
        log(\.state, [.old, .new], of: operation, in: journal),
        log(\.isCancelled, [.old, .new], of: operation, in: journal, "cancelled "),
        operation.observe(\.isFinished) { _, _ in finished.signal() },
      ]
      race([{ operation.start() }, { round % 2 == 0 ? operation.cancel() : lifetime.end() }])
      finished.wait()
      let entries = journal.entries
      #expect(entries.filter { $0.hasSuffix(">finished") }.count == 1)
      #expect(entries.filter { $0.hasPrefix("cancelled") } == (operation.isCancelled ? ["cancelled false>true"] : []))
      let states = entries.filter { !$0.hasPrefix("cancelled") }
      #expect(states == ["ready>executing", "executing>finished"] || states == ["ready>finished"])
      withExtendedLifetime(observations) {}
    }
  }

  @Test func statesBeginWithTheCurrentOneAndEndWithTheOperation() async {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let blocker = OwnedBlockOperation(lifetime: .forTests) {}
    operation.addDependency(blocker)
    let states = operation.states
    blocker.start()
    operation.start()
    var seen: [OperationState] = []
    for await state in states { seen.append(state) }
    #expect(seen == [.pending, .ready, .executing, .finished])
    var afterwards: [OperationState] = []
    for await state in operation.states { afterwards.append(state) }
    #expect(afterwards == [.finished])
  }

  @Test func statesNeitherKeepTheOperationNorOutliveIt() async {
    weak var released: OwnedBlockOperation?
    func makeStates() -> AsyncStream<OperationState> {
      let operation = OwnedBlockOperation(lifetime: .forTests) {}
      released = operation
      return operation.states
    }
    let states = makeStates()
    #expect(released == nil)
    var seen: [OperationState] = []
    for await state in states { seen.append(state) }
    #expect(seen == [.ready])
  }

  @Test func statesEndWithTheOwner() async {
    let lifetime = OwnerLifetime()
    let operation = OwnedBlockOperation(lifetime: lifetime) {}
    let states = operation.states
    lifetime.end()
    var seen: [OperationState] = []
    for await state in states { seen.append(state) }
    #expect(seen == [.ready, .finished])
  }

  @Test func statesAreInOrderAndEndWhoeverWins() async {
    for _ in 0..<100 {
      let lifetime = OwnerLifetime()
      let dependency = OwnedBlockOperation(lifetime: .forTests) {}
      let operation = OwnedBlockOperation(lifetime: lifetime) {}
      operation.addDependency(dependency)
      let states = operation.states
      let seen = Task { await states.reduce(into: [OperationState]()) { $0.append($1) } }
      await withCheckedContinuation { continuation in
        Thread.detachNewThread {
          race([
            {
              dependency.start()
              operation.start()
            },
            { operation.cancel() },
            { lifetime.end() },
          ])
          continuation.resume()
        }
      }
      let order: [OperationState] = [.pending, .ready, .executing, .finished]
      let places = await seen.value.compactMap { order.firstIndex(of: $0) }
      #expect(places.first == 0 && places.last == 3)
      #expect(zip(places, places.dropFirst()).allSatisfy { $0 < $1 })
      #expect(operation.isFinished)
    }
  }

  // MARK: Dependents

  /// Its handlers are called where the dependency finishes, when that has finished in every sense.
  @Test(arguments: [false, true], [false, true]) func whoObservesADependentMayWaitForWhatItDependedOn(beforehand: Bool, isCancelled: Bool) {
    let queue = OwnerScopedQueue()
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let first = OwnedBlockOperation(lifetime: lifetime) {}
    let second = OwnedBlockOperation(lifetime: other) {}
    second.addDependency(first)
    let waited = DispatchSemaphore(value: 0)
    let observation = second.observe(\.isReady, options: beforehand ? [.prior] : [.new]) { _, change in
      guard change.isPrior || change.newValue == true else { return }
      queue.waitUntilFinished(ownedBy: lifetime)
      waited.signal()
    }
    if isCancelled {
      let never = OwnedBlockOperation(lifetime: other) {}
      first.addDependency(never)
      queue.addOperations([first, second], waitUntilFinished: false)
      Thread.detachNewThread { first.cancel() }
    } else {
      queue.addOperations([first, second], waitUntilFinished: false)
    }
    #expect(waited.waitUntilSignalled())
    #expect(queue.becomesIdle())
    withExtendedLifetime(observation) {}
  }

  /// The owner of what an operation depends on ends. Whoever observes the operation, which is another's, holds that up for nobody.
  @Test(arguments: [false, true]) func anObserverOfAnothersOperationHoldsUpNoEnd(beforehand: Bool) {
    let (queue, lifetime, gate) = (OwnerScopedQueue(), OwnerLifetime(), Gate())
    queue.isSuspended = true
    let first = OwnedBlockOperation(lifetime: lifetime) {}
    let second = OwnedBlockOperation(lifetime: .process) {}
    second.addDependency(first)
    let observation = second.observe(\.isReady, options: beforehand ? [.prior] : [.new]) { _, change in
      if change.isPrior || change.newValue == true { gate.pass() }
    }
    queue.addOperations([first, second], waitUntilFinished: false)
    lifetime.end()
    #expect(gate.hasBegun())
    #expect(eventually { queue.operationCount(ownedBy: lifetime) == 0 })
    for _ in 0..<2 { gate.open() }
    #expect(eventually { second.isReady })
    withExtendedLifetime(observation) {}
  }

  /// That others observe the operation, or another one that depends on the same, makes no difference to who waits for the dependency.
  @Test(arguments: [false, true]) func dependentsAreReadyBeforeTheCompletionBlock(hasSibling: Bool) {
    let first = OwnedBlockOperation(lifetime: .process) {}
    let (observed, second) = (OwnedBlockOperation(lifetime: .process) {}, OwnedBlockOperation(lifetime: .process) {})
    if hasSibling { observed.addDependency(first) }
    second.addDependency(first)
    #expect(!second.isReady)
    let (wasReady, done) = (Mutexed(false), DispatchSemaphore(value: 0))
    let observations = [
      observed.observe(\.isReady, options: [.prior]) { _, change in if change.isPrior { #expect(done.waitUntilSignalled()) } },
      second.observe(\.isReady) { _, _ in #expect(done.waitUntilSignalled()) },
    ]
    first.completionBlock = { [second] in
      wasReady.value = second.isReady
      for _ in 0..<2 { done.signal() }
    }
    first.start()
    #expect(wasReady.value)
    withExtendedLifetime(observations) {}
  }

  private final class Waiting: OwnedOperation, @unchecked Sendable {  // a constant
    let wait: @Sendable () -> Void
    init(_ wait: @escaping @Sendable () -> Void) {
      self.wait = wait
      super.init(lifetime: .process)
    }
    override func didCancel(_ reason: CancellationReason) { wait() }
  }

  /// Foundation's queue starts it when it hears that it is ready: that comes before all code that may wait for it.
  @Test func foundationHearsFirst() {
    let ran = DispatchSemaphore(value: 0)
    let last = OwnedBlockOperation(lifetime: .process) { ran.signal() }
    let first = Waiting { #expect(ran.waitUntilSignalled()) }
    let middle = OwnedBlockOperation(lifetime: .process) {}
    middle.dependencyPolicy = .requireSuccess
    middle.addDependency(first)
    last.addDependency(middle)
    let (queue, theirs) = (OwnerScopedQueue(), OperationQueue())
    queue.isSuspended = true
    queue.addOperations([first, middle], waitUntilFinished: false)
    theirs.addOperation(last)
    #expect(!last.isReady)
    first.cancel()
    #expect(last.isFinished || returns { last.waitUntilFinished() })
  }

  private final class Asked: OwnedOperation, @unchecked Sendable {  // a constant
    let wait: @Sendable () -> Void
    init(_ wait: @escaping @Sendable () -> Void) {
      self.wait = wait
      super.init(lifetime: .process)
    }
    override var isReady: Bool {
      if isCancelled { wait() }
      return super.isReady
    }
  }

  /// To cancel an operation has Foundation ask whether it is ready, which may be overridden, and wait for another that is ready as well.
  @Test func foundationHearsBeforeTheCancelledAreAsked() {
    let ran = DispatchSemaphore(value: 0)
    let wait: @Sendable () -> Void = {
      #expect(ran.waitUntilSignalled())
      ran.signal()  // it may be asked again
    }
    let first = OwnedBlockOperation(lifetime: .process) {}
    let ready = OwnedBlockOperation(lifetime: .process) { ran.signal() }
    let cancelled = (0..<2).map { _ in Asked(wait) }
    let queues = (0..<2).map { _ in OperationQueue() }  // each asks all that it has
    for operation in [cancelled[0], ready, cancelled[1]] {
      operation.addDependency(first)
      if operation !== ready { operation.dependencyPolicy = .requireSuccess }
      queues[operation === ready ? 0 : 1].addOperation(operation)
      #expect(!operation.isReady)
    }
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    queue.addOperation(first)
    first.cancel()
    for queue in queues { queue.waitUntilAllOperationsAreFinished() }
    #expect(cancelled.filter { !$0.isCancelled }.isEmpty)
  }
}
