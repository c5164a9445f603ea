import Foundation

extension Benchmark {
  static var operations: Benchmark {
    Benchmark("P2-operations", "operations: create, add, run, finish, free") { session in
      let count = session.pick(100_000, quick: 10_000)
      try session.compare(
        "\(count.short) operations", count: count, ours: JobRunner.ownedOperations().contender(jobs: count),
        peer: JobRunner.operationQueue().contender(jobs: count), target: .ratio(atMost: 0.4))
      try session.compare(
        "\(count.short) that do nothing, in no queue", count: count,
        ours: Contender("Operation, finished by another thread", operations: count) { BareOperations().run(count) },
        peer: JobRunner.operationQueue().contender(jobs: count),
        note: "what one costs that is made, told finished by another thread, and freed where it was made, whoever schedules it")
    }
  }
}

/// The least that an operation costs that is Foundation's and goes to another thread and back: no queue, no body, no owner.
private final class BareOperations: @unchecked Sendable {  // batches go from thread to thread by the semaphores
  private final class Bare: Operation, @unchecked Sendable {  // has no state of its own
    override var isFinished: Bool { true }
  }

  private static let batch = 64
  private static let batchesOnTheWay = 8
  private final class Slot {
    var operations: [Operation] = []
  }

  private let slots = (0..<batchesOnTheWay).map { _ in Slot() }
  private let made = DispatchSemaphore(value: 0)
  private let isFree = DispatchSemaphore(value: batchesOnTheWay)

  func run(_ count: Int) {
    let batches = (count + Self.batch - 1) / Self.batch
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread { [self] in
      for number in 0..<batches {
        made.wait()
        for operation in slots[number % Self.batchesOnTheWay].operations {
          operation.willChangeValue(forKey: "isFinished")
          operation.didChangeValue(forKey: "isFinished")
        }
        isFree.signal()
      }
      done.signal()
    }
    for number in 0..<batches {
      isFree.wait()
      // What was here before goes now, on the thread that made it.
      slots[number % Self.batchesOnTheWay].operations = (0..<min(Self.batch, count - number * Self.batch)).map { _ in Bare() }
      made.signal()
    }
    done.wait()
  }
}
