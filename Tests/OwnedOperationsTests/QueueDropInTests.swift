import Foundation
import Testing

@testable import OwnedOperations

/// The surface of `OperationQueue` that code is written against. The extension below gives both kinds of queue the same name for it, so
/// that the same scenario compiles and runs on both.
protocol DropInQueue: AnyObject, Hashable, Sendable {
  init()
  func addOperation(_ operation: Operation)
  func addOperation(_ block: @escaping @Sendable () -> Void)
  func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool)
  func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void)
  func cancelAllOperations()
  func waitUntilAllOperationsAreFinished()
  var maxConcurrentOperationCount: Int { get set }
  var isSuspended: Bool { get set }
  var name: String? { get set }
  var qualityOfService: QualityOfService { get set }
  var underlyingQueue: DispatchQueue? { get set }
  var operations: [Operation] { get }
  var operationCount: Int { get }
  var progress: Progress { get }
  static var defaultMaxConcurrentOperationCount: Int { get }
}

final class FoundationQueue: OperationQueue, DropInQueue, @unchecked Sendable {}  // stores nothing
extension OwnerScopedQueue: DropInQueue {
  public convenience init() { self.init(name: nil) }
}

private typealias Scenario = @Sendable (any DropInQueue, Journal<String>) -> Void

@Suite struct QueueDropInTests {
  /// Runs the scenario on both, and compares what each writes down.
  private func compare(_ scenario: @escaping Scenario) -> [String] {
    let journals = [Journal<String>(), Journal<String>()]
    let queues: [any DropInQueue] = [FoundationQueue(), OwnerScopedQueue()]
    for (queue, journal) in zip(queues, journals) {
      #expect(returns { scenario(queue, journal) }, "\(type(of: queue)) hangs")
    }
    #expect(journals[0].entries == journals[1].entries)
    return journals[1].entries
  }

  @Test func firstInFirstOutWithinAPriority() {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      queue.isSuspended = true
      for (index, priority) in [Operation.QueuePriority.low, .normal, .veryHigh, .normal, .high, .veryLow, .veryHigh, .low].enumerated() {
        let operation = BlockOperation { journal.write("\(priority.rawValue)/\(index)") }
        operation.queuePriority = priority
        queue.addOperation(operation)
      }
      queue.addOperation { journal.write("block") }
      journal.write("count \(queue.operationCount)")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
      journal.write("count \(queue.operationCount)")
    }
    #expect(seen == ["count 9", "8/2", "8/6", "4/4", "0/1", "0/3", "block", "-4/0", "-4/7", "-8/5", "count 0"])
  }

  @Test func suspensionHoldsBackWhatHasNotStarted() {
    _ = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      let gate = Gate()
      let executing = BlockOperation {
        gate.pass()
        journal.write("executing goes on")
      }
      queue.addOperation(executing)
      _ = gate.hasBegun()
      queue.isSuspended = true
      queue.addOperation { journal.write("resumed") }
      gate.open()
      executing.waitUntilFinished()
      journal.write("suspended: \(queue.isSuspended)")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  @Test func barriersSeparate() {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      queue.isSuspended = true
      queue.addOperation { journal.write("before") }
      queue.addBarrierBlock { journal.write("barrier") }
      let urgent = BlockOperation { journal.write("urgent, but after") }
      urgent.queuePriority = .veryHigh
      queue.addOperation(urgent)
      queue.addBarrierBlock { journal.write("barrier 2") }
      queue.addOperation { journal.write("after") }
      journal.write("count \(queue.operationCount)")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(seen == ["count 3", "before", "barrier", "urgent, but after", "barrier 2", "after"])
  }

  @Test func progressCountsWhatHasFinished() {
    let seen = compare { queue, journal in
      queue.addOperation {}
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(queue.progress.completedUnitCount)")
      queue.progress.totalUnitCount = 3
      for _ in 0..<2 { queue.addOperations([BlockOperation {}], waitUntilFinished: true) }
      queue.addBarrierBlock {}
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(queue.progress.completedUnitCount) of \(queue.progress.totalUnitCount)")
    }
    #expect(seen == ["0", "2 of 3"])
  }

  @Test func cancelledWorkIsProgressOnlyIfItHasRun() {
    let seen = compare { queue, journal in
      let thread = DispatchQueue(label: "thread")
      queue.underlyingQueue = thread
      queue.maxConcurrentOperationCount = 1
      queue.progress.totalUnitCount = 10
      queue.isSuspended = true
      let operations = (0..<4).map { _ in BlockOperation {} }
      let (cancelledInside, asynchronous) = (CancelsItself(), Asynchronous {})
      queue.addOperations(operations + [cancelledInside, asynchronous], waitUntilFinished: false)
      operations[0].cancel()
      operations[2].cancel()
      queue.isSuspended = false
      _ = asynchronous.begun.waitUntilSignalled()
      thread.sync {}  // so that `start()` has returned: what is over by then counts as progress
      asynchronous.end()
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(queue.progress.completedUnitCount) \(cancelledInside.isCancelled)")
      queue.isSuspended = true
      queue.addOperation {}
      queue.addOperation(BlockOperation {})
      queue.cancelAllOperations()
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(queue.progress.completedUnitCount)")
    }
    #expect(seen == ["3 true", "3"])
  }

  @Test func workOfEndedOwnersIsNoProgress() throws {
    let queue = OwnerScopedQueue()
    let (doomed, other) = (OwnerLifetime(), OwnerLifetime())
    queue.progress.totalUnitCount = 100
    queue.isSuspended = true
    for lifetime in [doomed, other] {
      queue.async(lifetime: lifetime) {}
      queue.addOperation(lifetime: lifetime) {}
      let graph = OperationGraph(lifetime: lifetime)
      _ = graph.node {}
      try graph.run(on: queue)
    }
    doomed.end()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(queue.progress.completedUnitCount == 3)
  }

  @Test func settingsAreKept() {
    _ = compare { queue, journal in
      journal.write("\(queue.maxConcurrentOperationCount) \(type(of: queue).defaultMaxConcurrentOperationCount)")
      queue.maxConcurrentOperationCount = 0
      queue.name = "named"
      queue.qualityOfService = .background
      queue.underlyingQueue = .global()
      journal.write(
        "\(queue.maxConcurrentOperationCount) \(queue.name ?? "") \(queue.qualityOfService) \(queue.underlyingQueue === DispatchQueue.global())"
      )
      queue.underlyingQueue = nil
      queue.name = nil
      journal.write("\(queue.name ?? "nil") \(queue.underlyingQueue == nil) \(queue.isSuspended)")
    }
  }

  @Test(arguments: [true, false]) func priorityOfPendingOperationsChanges(isSuspended: Bool) {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      let gate = Gate()
      let first = BlockOperation { gate.pass() }
      queue.addOperation(first)
      _ = gate.hasBegun()
      queue.isSuspended = isSuspended
      let operations = (0..<6).map { number in BlockOperation { journal.write("\(number)") } }
      queue.addOperations(operations, waitUntilFinished: false)
      operations[4].queuePriority = .veryHigh
      operations[0].queuePriority = .veryLow
      operations[2].queuePriority = .high
      operations[5].queuePriority = .high
      gate.open()
      first.waitUntilFinished()
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(seen == ["4", "2", "5", "1", "3", "0"])
  }

  /// However often, an operation has a work item at each of the five priorities at most.
  @Test func priorityOfOperationsOfOursChangesBackAndForth() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    queue.isSuspended = true
    let journal = Journal<Int>()
    let operations = (0..<2_000).map { number in OwnedBlockOperation(lifetime: .forTests) { journal.write(number) } }
    queue.addOperations(operations, waitUntilFinished: false)
    for priority in [Operation.QueuePriority.veryHigh, .low, .normal, .veryLow, .high, .low, .veryHigh] {
      for operation in operations { operation.queuePriority = priority }
    }
    for operation in operations[1_000...] { operation.queuePriority = .normal }
    let items = queue.snapshot(of: .forTests)?.items ?? 0
    #expect(items <= 2_000 * PriorityLevel.count)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    let isInOrder = journal.entries == Array(0..<2_000)
    #expect(isInOrder)
  }

  @Test func limitChangesWhileWorkIsPending() {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 0
      queue.addOperation { journal.write("first") }
      queue.maxConcurrentOperationCount = 1
      queue.waitUntilAllOperationsAreFinished()
      let gates = (0..<3).map { _ in Gate() }
      queue.maxConcurrentOperationCount = 1
      for gate in gates { queue.addOperation { gate.pass() } }
      _ = gates[0].hasBegun()
      queue.maxConcurrentOperationCount = 3
      _ = gates[1].hasBegun()
      _ = gates[2].hasBegun()
      journal.write("three at once")
      for gate in gates { gate.open() }
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(seen == ["first", "three at once"])
  }

  @Test func dependenciesCancellationAndOperationsAreAsInFoundation() {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      queue.isSuspended = true
      let first = BlockOperation { journal.write("first") }
      let second = BlockOperation { journal.write("second") }
      let third = BlockOperation { journal.write("third") }
      first.addDependency(second)
      third.addDependency(first)
      queue.addOperations([first, second, third], waitUntilFinished: false)
      journal.write("\(queue.operations == [first, second, third])")
      second.cancel()
      journal.write("\(second.isFinished) \(queue.operationCount)")
      queue.isSuspended = false
      queue.waitUntilAllOperationsAreFinished()
      journal.write("\(second.isFinished) \(second.isCancelled) \(queue.operationCount)")
    }
    #expect(seen == ["true", "false 3", "first", "third", "true true 0"])
  }

  @Test(arguments: [true, false]) func overriddenReadinessIsRespected(tells: Bool) {
    let seen = compare { queue, journal in
      let operation = Moody { journal.write("ready") }
      queue.addOperation(operation)
      let other = BlockOperation { journal.write("other") }
      queue.addOperation(other)
      other.waitUntilFinished()
      operation.isWilling.value = true
      // Foundation has to be told; ours asks from time to time.
      if tells || queue is FoundationQueue { operation.didChangeValue(forKey: "isReady") }
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(seen == ["other", "ready"])
  }

  @Test func asynchronousOperationsHoldTheirPlaceUntilTheyFinish() {
    let seen = compare { queue, journal in
      queue.maxConcurrentOperationCount = 1
      let operation = Asynchronous { journal.write("started") }
      queue.addOperation(operation)
      queue.addOperation { journal.write("next") }
      _ = operation.begun.waitUntilSignalled()
      journal.write("\(operation.isExecuting) \(queue.operationCount)")
      operation.end()
      queue.waitUntilAllOperationsAreFinished()
    }
    #expect(seen == ["started", "true 2", "next"])
  }

  @Test func mainAndCurrentAreKnown() async {
    let journal = Journal<Bool>()
    let underlying = DispatchQueue(label: "underlying")
    let queue = OwnerScopedQueue(underlyingQueue: underlying)
    queue.addOperation { journal.write(OwnerScopedQueue.current === queue) }
    queue.addOperation(BlockOperation { journal.write(OwnerScopedQueue.current === queue) })
    queue.async(lifetime: .forTests) {
      dispatchPrecondition(condition: .onQueue(underlying))
      journal.write(OwnerScopedQueue.current === queue)
    }
    await queue.finished()
    OwnerScopedQueue.main.addOperation { journal.write(OwnerScopedQueue.current === OwnerScopedQueue.main) }
    await OwnerScopedQueue.main.finished()
    let onMain = OwnerScopedQueue(underlyingQueue: .main)
    onMain.addOperation { journal.write(OwnerScopedQueue.current === onMain) }
    await onMain.finished()
    #expect(journal.entries == Array(repeating: true, count: 5))
    let elsewhere = await Task.detached { OwnerScopedQueue.current }.value
    #expect(elsewhere == nil)
    let main = OwnerScopedQueue.main
    main.isSuspended = true
    main.maxConcurrentOperationCount = 7
    #expect(!main.isSuspended && main.maxConcurrentOperationCount == 1 && main.underlyingQueue?.label == DispatchQueue.main.label)
  }
}

private final class CancelsItself: Operation, @unchecked Sendable {  // stores nothing
  override func main() { cancel() }
}

/// Ready when it is in the mood.
private final class Moody: Operation, @unchecked Sendable {  // constants
  let isWilling = Mutexed(false)
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  override var isReady: Bool { super.isReady && isWilling.value }
  override func main() { body() }
}

/// The classic way to write an asynchronous operation.
private final class Asynchronous: Operation, @unchecked Sendable {  // constants
  let begun = DispatchSemaphore(value: 0)
  private let phase = Mutexed(0)
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  override var isAsynchronous: Bool { true }
  override var isExecuting: Bool { phase.value == 1 }
  override var isFinished: Bool { phase.value == 2 }
  override func start() {
    phase.value = 1
    didChangeValue(forKey: "isExecuting")
    body()
    begun.signal()
  }
  func end() {
    phase.value = 2
    didChangeValue(forKey: "isExecuting")
    didChangeValue(forKey: "isFinished")
  }
}
