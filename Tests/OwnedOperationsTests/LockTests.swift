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

  @Test func lockedValueIsTheHoldersAlone() {
    let values = Locked<[Int: Int]>([:])
    let rounds = 2_000
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      for round in 0..<rounds { values.withLock { $0[round % 16, default: 0] += thread } }
    }
    #expect(values.withLock { $0.values.reduce(0, +) } == rounds * 28)
    values.withLock { $0 = [:] }
    #expect(values.withLock { $0.isEmpty })
  }

  @Test func lockedValueGoesWithItsLock() {
    final class Held: Sendable {}
    weak var held: Held?
    do {
      let value = Locked(Held())
      value.withLock { held = $0 }
      #expect(held != nil)
    }
    #expect(held == nil)
  }
}
