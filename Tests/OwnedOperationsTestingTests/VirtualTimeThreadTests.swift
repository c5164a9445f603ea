import Foundation
import OwnedOperations
import OwnedOperationsTesting
import Testing

/// Where a virtual time meets threads, memory, and itself.
@Suite struct VirtualTimeThreadTests {
  let time = VirtualTime(seed: 3)
  let log = Log()

  @Test func workOfManyThreadsRunsOnceEach() {
    let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
    let done = DispatchGroup()
    let (threads, jobs) = (4, 500)
    for _ in 0..<threads {
      done.enter()
      Thread.detachNewThread { [log] in
        for _ in 0..<jobs { queue.async(lifetime: .process) { log.add("") } }
        done.leave()
      }
    }
    while done.wait(timeout: .now()) == .timedOut { time.runUntilIdle() }
    time.runUntilIdle()
    #expect(log.lines.count == threads * jobs)
    #expect(queue.operationCount == 0)
  }

  @Test func severalThreadsMayRunOneTime() {
    let queue = OwnerScopedQueue(virtualTime: time)
    for number in 0..<1000 { queue.async(lifetime: .process) { [log] in log.add("\(number)") } }
    let done = DispatchGroup()
    for _ in 0..<4 {
      done.enter()
      Thread.detachNewThread { [time] in
        while time.runNext() {}
        done.leave()
      }
    }
    done.wait()
    #expect(log.lines == (0..<1000).map(String.init))
  }

  @Test func aThreadThatWaitsWhileAnotherRunsIsWoken() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let (isInBody, isWaiting) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let last = OwnedBlockOperation(lifetime: OwnerLifetime()) {}
    queue.async(lifetime: .process) {
      isInBody.signal()
      isWaiting.wait()
    }
    queue.addOperation(last)
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread { [log] in
      isInBody.wait()
      isWaiting.signal()
      last.waitUntilFinished()
      log.add("waited")
      done.signal()
    }
    time.runUntilIdle()
    done.wait()
    #expect(log.lines == ["waited"])
  }

  @Test func aBodyMayRunTheTimeItself() {
    let queue = OwnerScopedQueue(virtualTime: time)
    queue.async(lifetime: .process) { [log, time] in
      log.add("outer")
      queue.async(lifetime: .process) { log.add("inner") }
      time.runUntilIdle()
      log.add("outer again")
    }
    time.runUntilIdle()
    #expect(log.lines == ["outer", "inner", "outer again"])
  }

  @Test func nothingIsKept() {
    weak var reference: VirtualTime?
    do {
      let time = VirtualTime()
      reference = time
      let queue = OwnerScopedQueue(virtualTime: time)
      queue.asyncAfter(.seconds(1), lifetime: .process) {}
      let task = Task(executorPreference: time) {
        try await queue.run(lifetime: OwnerLifetime()) { try await time.sleep(for: .seconds(1)) }
      }
      time.advance(by: .seconds(2))
      _ = task
    }
    #expect(reference == nil)
  }

  @Test func oneSeedIsOneRunWhateverHappensInTheBackground() {
    func run(seed: UInt64) -> [String] {
      let time = VirtualTime(seed: seed)
      let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
      let log = Log()
      let owners = (0..<6).map { _ in OwnerLifetime() }
      for number in 0..<60 {
        queue.async(lifetime: owners[number % 6]) {
          log.add("\(number)")
          if number % 20 == 7 { owners[(number + 3) % 6].end() }
        }
      }
      time.runUntilIdle()
      return log.lines
    }
    for seed in UInt64(0)..<20 {
      let first = run(seed: seed)
      #expect(first == run(seed: seed))
    }
  }

  @Test func workHeldBackUntilItsOwnersBodyIsOverNeverBeginsOnceTheOwnerHasGone() {
    let queue = OwnerScopedQueue(virtualTime: time)
    var screen: Screen? = Screen(log)
    if let screen {
      queue.addOperation(
        Asynchronous(lifetime: OwnerLifetime()) { [screen, time] in
          try await time.sleep(for: .seconds(1))
          screen.show("over")
        })
      queue.async(owner: screen) { screen in screen.show("while it is held") }
    }
    screen = nil
    time.runUntilIdle()
    #expect(log.lines == ["while it is held"])
    time.advance(by: .seconds(1))
    #expect(log.lines == ["while it is held", "over"])
  }

  @Test func aFacadeRunsInVirtualTime() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let facade = queue.operationQueue
    facade.addOperation { [log] in log.add("a") }
    #expect(log.lines.isEmpty)
    facade.waitUntilAllOperationsAreFinished()
    #expect(log.lines == ["a"])
  }

  @Test func anOperationOfAnOperationQueueIsElsewhere() {
    let queue = OwnerScopedQueue(virtualTime: time)
    let elsewhere = BlockOperation { [log] in log.add("elsewhere") }
    let operation = OwnedBlockOperation(lifetime: OwnerLifetime()) { [log] in log.add("here") }
    operation.addDependency(elsewhere)
    queue.addOperation(operation)
    time.runUntilIdle()
    #expect(log.lines.isEmpty)
    let plain = OperationQueue()
    plain.addOperations([elsewhere], waitUntilFinished: true)
    // Who waits for it may hear of its finish before those who depend on it.
    time.patience = 60
    operation.waitUntilFinished()
    #expect(log.lines == ["elsewhere", "here"])
  }

  @Test func manyJobsAndManyDelaysCostLittle() {
    let queue = OwnerScopedQueue(virtualTime: time)
    for number in 0..<20_000 { queue.asyncAfter(.milliseconds(number % 1000), lifetime: .process) {} }
    for _ in 0..<20_000 { queue.async(lifetime: .process) {} }
    #expect(time.advance(by: .seconds(1)).steps == 40_000)
  }
}
