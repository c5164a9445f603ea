import Foundation
import Testing

@testable import OwnedOperations

@Suite struct LockTests {
  private final class Counter: @unchecked Sendable {  // `value` is guarded by `lock`: that is what the test is about
    let lock = Lock(seed: 7)
    var value = 0
  }

  @Test func lockExcludesOtherThreadsAndPublishesWhatWasWritten() {
    let counter = Counter()
    let rounds = 20_000
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      for _ in 0..<rounds { counter.lock.withLock { counter.value += 1 } }
    }
    #expect(counter.lock.withLock { counter.value } == 8 * rounds)
  }

  @Test func waiterParksUntilTheHolderLeaves() {
    let counter = Counter()
    let done = DispatchSemaphore(value: 0)
    counter.lock.lock()
    for _ in 0..<4 {
      Thread.detachNewThread {
        counter.lock.withLock { counter.value += 1 }
        done.signal()
      }
    }
    counter.value = 10
    counter.lock.unlock()
    for _ in 0..<4 { done.wait() }
    #expect(counter.lock.withLock { counter.value } == 14)
  }
}
