import Foundation
import Testing

@testable import OwnedOperations

/// Plain operations whose answers nobody announces, in several queues that are asked by one thread.
@Suite struct PlainReadinessTests {
  /// Not ready until it is open. One answer is held up.
  private final class GatedPlain: Operation, @unchecked Sendable {  // stores constants only
    let isOpen = Mutexed(false)
    let isHeldUp = Mutexed(false)
    let gate = Gate()
    let asked = DispatchSemaphore(value: 0)
    let ran = Counter()

    override var isReady: Bool {
      if isHeldUp.value {
        isHeldUp.value = false
        gate.pass()
      }
      asked.signal()
      return super.isReady && isOpen.value
    }

    override func main() { ran.add() }
  }

  /// Adds it, and returns when it is watched, and one of its answers blocks.
  private func addBlocked(to queue: OwnerScopedQueue) throws -> GatedPlain {
    let operation = GatedPlain()
    queue.addOperation(operation)
    for _ in 0..<4 { try #require(operation.asked.waitUntilSignalled()) }
    operation.isHeldUp.value = true
    try #require(operation.gate.hasBegun())
    return operation
  }

  /// Says yes to every second question at first.
  private final class Fickle: Operation, @unchecked Sendable {  // stores constants only
    let questions = Counter()
    let ran = DispatchSemaphore(value: 0)

    override var isReady: Bool {
      questions.add()
      let count = questions.value
      return super.isReady && (count > 12 || count % 2 == 0)
    }

    override func main() { ran.signal() }
  }

  /// Foundation would stop the process.
  @Test func oneThatTakesBackItsYesIsNotStarted() {
    let queue = OwnerScopedQueue()
    let operation = Fickle()
    queue.addOperation(operation)
    #expect(operation.ran.waitUntilSignalled())
    #expect(operation.questions.value > 12)
    #expect(queue.becomesIdle())
  }

  @Test func answerThatBlocksHoldsUpNoOtherQueue() throws {
    let (queue, later, earlier) = (OwnerScopedQueue(), OwnerScopedQueue(), OwnerScopedQueue())
    let (first, second) = (GatedPlain(), GatedPlain())
    earlier.addOperation(first)
    #expect(first.asked.waitUntilSignalled())
    let blocked = try addBlocked(to: queue)
    later.addOperation(second)
    for operation in [first, second] {
      #expect(operation.asked.waitUntilSignalled())
      operation.isOpen.value = true
    }
    #expect(earlier.becomesIdle() && later.becomesIdle())
    #expect(first.ran.value == 1 && second.ran.value == 1 && blocked.ran.value == 0)
    blocked.isOpen.value = true
    blocked.gate.open()
    #expect(queue.becomesIdle())
    #expect(blocked.ran.value == 1)
  }

  /// The thread that asks lets go of the last reference to the queue, and of the operation.
  @Test func queueMayGoInsideOfAnAnswer() throws {
    let other = OwnerScopedQueue()
    let noticed = GatedPlain()
    other.addOperation(noticed)
    let (queueHasGone, gate): (DispatchSemaphore, Gate)
    do {
      let queue = OwnerScopedQueue()
      queueHasGone = goodbye(of: queue)
      let operation = try addBlocked(to: queue)
      gate = operation.gate
      operation.isOpen.value = true
      queue.askWatched()  // in place of the thread that is blocked
      #expect(queue.becomesIdle())
      #expect(operation.ran.value == 1)
    }
    #expect(queueHasGone.wait(timeout: .now()) == .timedOut)
    gate.open()
    #expect(queueHasGone.waitUntilSignalled())
    noticed.isOpen.value = true
    #expect(other.becomesIdle())
    #expect(noticed.ran.value == 1)
    #if os(Linux)
      #expect(eventually { AlarmClock.shared.replacedCount == 0 })  // the thread has come back from there
    #endif
  }

  @Test func thousandQueuesAreAsked() {
    let queues = (0..<1_000).map { _ in OwnerScopedQueue() }
    let operations = queues.map { queue in
      let operation = GatedPlain()
      queue.addOperation(operation)
      return operation
    }
    for operation in operations { #expect(operation.asked.waitUntilSignalled()) }
    for operation in operations { operation.isOpen.value = true }
    #expect(queues.allSatisfy { $0.becomesIdle() })
    #expect(operations.allSatisfy { $0.ran.value == 1 })
  }
}
