import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// A queue and the driver that runs its work.
@Suite struct DrivenQueueTests {
  /// Looks into the queue, on another thread, while it is given a step.
  private final class Looker: QueueDriver {
    private let queue = Mutex<OwnerScopedQueue?>(nil)
    private let steps = Mutex<[DrivenStep]>([])
    /// How much work waited when somebody looked while the step was on its way.
    let seen = Mutex<[Int]>([])

    func look(into queue: OwnerScopedQueue) { self.queue.withLock { $0 = queue } }

    func add(_ step: DrivenStep) {
      guard let queue = queue.withLock({ $0 }) else { return }
      let isOnItsWay = Mutexed(true)
      let looked = DispatchSemaphore(value: 0)
      Thread.detachNewThread { [self] in
        let count = queue.backlog.entries.count
        if isOnItsWay.value { seen.withLock { $0.append(count) } }
        looked.signal()
      }
      // Either somebody has looked, or he waits for the lock.
      while looked.wait(timeout: .now()) == .timedOut, !queue.core.isAwaited { usleep(100) }
      steps.withLock { $0.append(step) }
      isOnItsWay.value = false
    }

    func add(_ call: DrivenCall, after delay: Duration) {}
    func drive(until isOver: () -> Bool, for wait: @autoclosure () -> String) {}
    func choose(among count: Int) -> Int { 0 }

    func runAll() {
      while let step = steps.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { _ = step.run(isNamed: false) }
      queue.withLock { $0 = nil }
    }
  }

  @Test(.timeLimit(.minutes(1))) func whoSeesWorkFindsTheStepThatRunsIt() {
    let driver = Looker()
    let queue = OwnerScopedQueue(name: nil, maxConcurrentOperationCount: 1, driver: driver, isShuffled: false)
    driver.look(into: queue)
    let hasRun = Mutexed(false)
    queue.async(lifetime: .process) { hasRun.value = true }
    driver.runAll()
    #expect(driver.seen.withLock { $0 } == [])
    #expect(hasRun.value)
  }
}
