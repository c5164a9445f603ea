import Dispatch
import Foundation
import OwnedOperations
import Synchronization

/// A way to run many short jobs on behalf of a screen.
///
/// Each is written as its users write it, with the cheapest way it has to wait for all: `run` adds the jobs from the calling
/// thread, and returns when all have run.
struct JobRunner {
  let name: String
  let run: (Screen, Int) -> Void

  /// Running and waiting for so many jobs, in nanoseconds per job.
  func contender(jobs: Int) -> Contender {
    let screen = Screen()
    return Contender(name) {
      let cost = nanoseconds(per: jobs) { run(screen, jobs) }
      try screen.checkVisits(jobs)
      return cost
    }
  }
}

extension JobRunner {
  // MARK: Ours

  static func ours(_ queue: OwnerScopedQueue = OwnerScopedQueue(name: "ours"), name: String = "async(owner:)") -> JobRunner {
    JobRunner(name: name) { screen, count in
      for index in 0..<count {
        queue.async(owner: screen) { screen in screen.visit(index) }
      }
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  static func oursOnGCD() -> JobRunner {
    let queue = DispatchQueue(label: "owner", attributes: .concurrent)
    return JobRunner(name: "DispatchQueue.async(owner:)") { screen, count in
      for index in 0..<count {
        queue.async(owner: screen) { screen in screen.visit(index) }
      }
      queue.sync(flags: .barrier) {}
    }
  }

  // MARK: GCD

  /// Nothing is checked, and the screen is kept alive.
  static func gcd() -> JobRunner {
    let queue = DispatchQueue(label: "gcd", attributes: .concurrent)
    return JobRunner(name: "GCD async") { screen, count in
      for index in 0..<count {
        queue.async { screen.visit(index) }
      }
      queue.sync(flags: .barrier) {}
    }
  }

  static func gcdWithWeakCheck() -> JobRunner {
    let queue = DispatchQueue(label: "weak", attributes: .concurrent)
    return JobRunner(name: "GCD, weak check") { screen, count in
      for index in 0..<count {
        queue.async { [weak screen] in
          guard let screen else { return }
          screen.visit(index)
        }
      }
      queue.sync(flags: .barrier) {}
    }
  }

  static func safeDispatch() -> JobRunner {
    let queue = DispatchQueue(label: "safe", attributes: .concurrent)
    return JobRunner(name: "safe-dispatch wrapper") { screen, count in
      let identifier = SafeDispatch.shared.register()
      for index in 0..<count {
        queue.safeAsync(identifier) { [weak screen] in screen?.visit(index) }
      }
      queue.sync(flags: .barrier) {}
      SafeDispatch.shared.unregister(identifier)
    }
  }

  // MARK: OperationQueue

  static func operationQueue() -> JobRunner {
    let queue = OperationQueue()
    return JobRunner(name: "OperationQueue, BlockOperation") { screen, count in
      for index in 0..<count {
        queue.addOperation(
          BlockOperation { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          })
      }
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  // MARK: Swift concurrency

  /// Detached tasks can't be waited for together, so the last one says so.
  static func detachedTasks() -> JobRunner {
    JobRunner(name: "Task.detached") { screen, count in
      let countdown = Countdown(from: count)
      for index in 0..<count {
        Task.detached { [weak screen] in
          if let screen { screen.visit(index) }
          countdown.countDown()
        }
      }
      countdown.wait()
    }
  }

  /// The calling thread only waits; the tasks are added by one task.
  static func discardingTaskGroup() -> JobRunner {
    JobRunner(name: "discarding task group") { screen, count in
      let countdown = Countdown(from: 1)
      Task.detached {
        await withDiscardingTaskGroup { group in
          for index in 0..<count {
            group.addTask { [weak screen] in
              guard let screen else { return }
              screen.visit(index)
            }
          }
        }
        countdown.countDown()
      }
      countdown.wait()
    }
  }
}

/// Lets a thread wait until something has happened so many times.
final class Countdown: Sendable {
  private let left: Atomic<Int>
  private let isOver = DispatchSemaphore(value: 0)

  init(from count: Int) { left = Atomic(count) }

  func countDown() {
    if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { isOver.signal() }
  }

  /// For one thread, once.
  func wait() { isOver.wait() }
}
