import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Testing

@Suite struct BlockingWaitTests {
  let time = VirtualTime()
  let log = Log()

  @Test func aWaitForTheQueueRunsItsWork() {
    let queue = OwnerScopedQueue(virtualTime: time)
    for number in 1...3 { queue.async(lifetime: .process) { [log] in log.add("\(number)") } }
    queue.waitUntilAllOperationsAreFinished()
    #expect(log.lines == ["1", "2", "3"])
  }

  @Test func aWaitForAnOperationRunsWhatComesBefore() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    let operations = (1...3).map { number in queue.addOperation(lifetime: owner) { [log] in log.add("\(number)") } }
    operations[1].waitUntilFinished()
    #expect(log.lines == ["1", "2"])
    queue.waitUntilFinished(ownedBy: owner)
    #expect(log.lines == ["1", "2", "3"])
  }

  @Test(arguments: [true, false]) func aWaitForPlainOperationsThatAreAddedRunsThem(byTheFacade: Bool) {
    let queue = OwnerScopedQueue(virtualTime: time)
    let plain = (1...2).map { number in BlockOperation { [log] in log.add("\(number)") } }
    plain[0].addDependency(plain[1])
    if byTheFacade {
      queue.operationQueue.addOperations(plain, waitUntilFinished: true)
    } else {
      queue.addOperations(plain, waitUntilFinished: true)
    }
    #expect(log.lines == ["2", "1"])
  }

  @Test func syncReturnsWhatItsBodyReturns() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let owner = OwnerLifetime()
    #expect(queue.sync(lifetime: owner) { 42 } == 42)
    let inner = queue.sync(lifetime: owner) { queue.sync(lifetime: owner) { 43 } }
    #expect(inner == 43)
  }

  @Test func aBodyThatWaitsForItsQueueLetsOthersGoOn() {
    let queue = OwnerScopedQueue(virtualTime: time, maxConcurrentOperationCount: 1)
    let owner = OwnerLifetime()
    queue.async(lifetime: owner) { [log] in
      log.add("outer")
      let inner = queue.addOperation(lifetime: owner) { log.add("inner") }
      inner.waitUntilFinished()
      log.add("outer again")
    }
    queue.async(lifetime: owner) { [log] in log.add("last") }
    time.runUntilIdle()
    #expect(log.lines == ["outer", "last", "inner", "outer again"])
    #expect(time.abandonedWaits.isEmpty)
  }

  @Test func aWaitLetsTimePassWhenNothingElseIsLeft() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let operation = Asynchronous(lifetime: OwnerLifetime()) { [time] in try await time.sleep(for: .seconds(3600)) }
    queue.addOperation(operation)
    operation.waitUntilFinished()
    #expect(operation.isFinished)
    #expect(time.now.offset == .seconds(3600))
  }

  @Test func aWaitThatCannotEndSaysSo() throws {
    let queue = OwnerScopedQueue(virtualTime: time, name: "queue")
    let operation = queue.addOperation(lifetime: OwnerLifetime()) {}
    operation.name = "stuck"
    queue.isSuspended = true
    operation.waitUntilFinished()
    #expect(!operation.isFinished)
    let report = try #require(time.abandonedWaits.first)
    #expect(report.contains("stuck") && report.contains("its queue is suspended"))
  }

  @Test func aWaitIsEndedByAnotherThread() {
    time.patience = 60
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.isSuspended = true
    let operation = queue.addOperation(lifetime: OwnerLifetime()) {}
    Thread.detachNewThread { queue.isSuspended = false }
    operation.waitUntilFinished()
    #expect(operation.isFinished)
  }

  @Test func aGraphIsWaitedFor() throws {
    let queue = OwnerScopedQueue(virtualTime: time)
    let graph = OperationGraph(lifetime: OwnerLifetime())
    let first = graph.node { [log] in log.add("first") }
    first.precedes(graph.node { [log] in log.add("second") })
    try graph.run(on: queue).wait()
    #expect(log.lines == ["first", "second"])
  }

  @Test func workAddedByAnotherThreadIsRunHere() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let thread = ObjectIdentifier(Thread.current)
    let isHere = Log()
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      queue.async(lifetime: .process) { isHere.add("\(ObjectIdentifier(Thread.current) == thread)") }
      done.signal()
    }
    done.wait()
    time.runUntilIdle()
    #expect(isHere.lines == ["true"])
  }
}
