import Foundation
import Testing

@testable import OwnedOperations

/// Threads that the workers of all queues share.
@Suite(.timeLimit(.minutes(5))) struct WorkerThreadsTests {
  /// Each job begins only if those of all other queues have: none may wait for a thread on which another one blocks.
  @Test func jobsOfManyQueuesBlockAtOnce() {
    let queues = (0..<50).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
    let begun = DispatchGroup()
    let mayEnd = DispatchSemaphore(value: 0)
    for _ in queues { begun.enter() }
    for queue in queues {
      queue.async(lifetime: .forTests) {
        begun.leave()
        mayEnd.wait()
      }
    }
    #expect(begun.wait(timeout: .now() + 30) == .success)
    for _ in queues { mayEnd.signal() }
    for queue in queues { #expect(queue.becomesIdle()) }
  }

  /// The same, where the job that is added last is the one that all others wait for.
  @Test func aJobOfAnotherQueueIsWaitedFor() {
    let (first, second) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerScopedQueue(maxConcurrentOperationCount: 1))
    for _ in 0..<200 {
      let isOver = DispatchSemaphore(value: 0)
      first.async(lifetime: .forTests) { isOver.wait() }
      second.async(lifetime: .forTests) { isOver.signal() }
      #expect(first.becomesIdle() && second.becomesIdle())
    }
  }

  /// Of 500 queues that are used one after the other, few need a thread that isn't there already.
  @Test func queuesThatAreUsedInTurnShareThreads() {
    let queues = (0..<500).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
    let threads = Mutexed<Set<String>>([])
    for queue in queues {
      queue.async(lifetime: .forTests) {
        let thread = "\(pthread_self())"
        var known = threads.value
        known.insert(thread)
        threads.value = known
      }
      #expect(queue.becomesIdle())
    }
    #expect((1...50).contains(threads.value.count), "\(threads.value.count) threads")
  }

  @Test func eachQualityOfServiceHasThreadsOfItsOwn() {
    #expect(WorkerThreads.of(.utility) === WorkerThreads.of(.utility))
    #expect(WorkerThreads.of(.utility) !== WorkerThreads.of(.default))
  }

  /// A job's captures, and what else ends while a thread looks for more work, may need work of other queues.
  @Test func aDeinitOfAQueueThatGoesMayWaitForAnotherQueue() {
    final class Waiting: Sendable {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      let isGone: DispatchSemaphore
      init(_ isGone: DispatchSemaphore) { self.isGone = isGone }
      deinit {
        let isOver = DispatchSemaphore(value: 0)
        queue.async(lifetime: .forTests) { isOver.signal() }
        isOver.wait()
        isGone.signal()
      }
    }
    for _ in 0..<200 {
      let isGone = DispatchSemaphore(value: 0)
      do {
        let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
        let waiting = Waiting(isGone)
        queue.onError = { _, _ in _ = waiting }
        queue.async(lifetime: .forTests) {}
      }
      #expect(isGone.wait(timeout: .now() + 30) == .success)
    }
  }
}
